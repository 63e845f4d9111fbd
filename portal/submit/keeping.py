"""What the submit page keeps: drafts, by itself, and templates, when asked to. Scripts get JSON, forms go back."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect

from base.accounts import budget
from base.core.errors import LongshoreError
from jobs.submitting import drafts, templates
from jobs.submitting.ignored import left_out, paths_of
from portal.shared.guard import for_scripts, own_post
from portal.shared.viewer import user_of


@own_post
@for_scripts
def keep_draft(request: HttpRequest) -> HttpResponseBase:
    """Fields: config, draft (its number, empty for a new one), version. Answers {"id", "version"} of the draft that has
    the text now; {"id": 0} for no text."""
    text = str(request.POST.get("config", "")).replace("\r\n", "\n")
    draft = drafts.keep(user_of(request), text, *drafts.named(request.POST))
    return JsonResponse({"id": draft.pk, "version": draft.version} if draft else {"id": 0})


@own_post
@for_scripts
def ignored_files(request: HttpRequest) -> HttpResponseBase:
    """Fields: patterns (of a .longshoreignore), paths (JSON). Answers {"left": the numbers of those that it names}."""
    with budget.question(user_of(request).username):
        left = left_out(str(request.POST.get("patterns", "")), paths_of(str(request.POST.get("paths", ""))))
    return JsonResponse({"left": left})


@own_post
def discard_draft(request: HttpRequest, id: int) -> HttpResponseBase:
    drafts.delete(user_of(request), id)
    return _done(request, "The draft is gone.", {})


@own_post
def save_template(request: HttpRequest) -> HttpResponseBase:
    """Fields: config, template_name, template_vc (empty for oneself alone)."""
    text = str(request.POST.get("config", "")).replace("\r\n", "\n")
    name, vc = str(request.POST.get("template_name", "")), str(request.POST.get("template_vc", ""))
    try:
        saved = templates.save(user_of(request), name, text, vc)
    except LongshoreError as error:
        if not _wants_json(request):
            raise
        return JsonResponse({"message": error.message}, status=error.status)
    return _done(request, f"Template {saved.name} was saved.", {"id": saved.pk, "name": saved.name})


@own_post
def delete_template(request: HttpRequest, id: int) -> HttpResponseBase:
    templates.delete(user_of(request), id)
    return _done(request, "The template is gone.", {})


def _done(request: HttpRequest, says: str, answer: dict[str, Any]) -> HttpResponseBase:
    if _wants_json(request):
        return JsonResponse({"message": says, **answer})
    messages.success(request, says)
    return redirect("/submit")


def _wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept") == "application/json"
