"""What the submit page keeps: drafts, by itself, and templates, when asked to. Scripts get JSON, forms go back."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from jobs.submitting import drafts, templates
from jobs.submitting.ignored import left_out, paths_of
from portal.accounts.auth import require_user
from portal.accounts.guard import signed_in
from portal.core.errors import LongshoreError
from portal.web.api.values import milliseconds


@never_cache
@signed_in
@require_POST
def keep(request: HttpRequest) -> HttpResponseBase:
    """Fields: config, draft (its number, empty for a new one). Answers {"id", "at" (ms)}; {"id": 0} for no text."""
    try:
        text = str(request.POST.get("config", "")).replace("\r\n", "\n")
        kept = drafts.keep(require_user(request), text, _number(request.POST.get("draft", "")))
    except LongshoreError as error:
        return JsonResponse({"message": error.message}, status=error.status)
    return JsonResponse({"id": kept.id, "at": milliseconds(kept.changed_at)} if kept else {"id": 0})


@never_cache
@signed_in
@require_POST
def ignored(request: HttpRequest) -> HttpResponseBase:
    """Fields: patterns (of a .longshoreignore), paths (JSON). Answers {"left": the numbers of those that it names}."""
    try:
        found = left_out(str(request.POST.get("patterns", "")), paths_of(str(request.POST.get("paths", ""))))
    except LongshoreError as error:
        return JsonResponse({"message": error.message}, status=error.status)
    return JsonResponse({"left": found})


@never_cache
@signed_in
@require_POST
def discard(request: HttpRequest, id: int) -> HttpResponseBase:
    drafts.delete(require_user(request), id)
    return _done(request, "The draft is gone.", {})


@never_cache
@signed_in
@require_POST
def save_template(request: HttpRequest) -> HttpResponseBase:
    """Fields: config, template_name, template_vc (empty for oneself alone)."""
    text = str(request.POST.get("config", "")).replace("\r\n", "\n")
    name, vc = str(request.POST.get("template_name", "")), str(request.POST.get("template_vc", ""))
    try:
        saved = templates.save(require_user(request), name, text, vc)
    except LongshoreError as error:
        if not _wants_json(request):
            raise
        return JsonResponse({"message": error.message}, status=error.status)
    return _done(request, f"Template {saved.name} was saved.", {"id": saved.pk, "name": saved.name})


@never_cache
@signed_in
@require_POST
def delete_template(request: HttpRequest, id: int) -> HttpResponseBase:
    templates.delete(require_user(request), id)
    return _done(request, "The template is gone.", {})


def _done(request: HttpRequest, says: str, answer: dict[str, Any]) -> HttpResponseBase:
    if _wants_json(request):
        return JsonResponse({"message": says, **answer})
    messages.success(request, says)
    return redirect("/submit")


def _wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept") == "application/json"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
