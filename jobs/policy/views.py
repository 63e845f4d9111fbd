"""Views of what-if."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs.policy.what_if_page import address, composed, what_if_page
from portal.accounts.auth import require_admin
from portal.accounts.guard import signed_in


@never_cache
@require_safe
@signed_in
def policy(request: HttpRequest) -> HttpResponseBase:
    """GET fields: change, as often as there are changes to try; those of a small form, which becomes one more."""
    admin = require_admin(request)
    texts = [text for text in request.GET.getlist("change") if text.strip()]
    if more := composed(request.GET.dict()):
        return redirect(address([*texts, more]))
    page = what_if_page(admin, texts)
    return render(request, "jobs/policy.html", page, status=400 if page["error"] else 200)
