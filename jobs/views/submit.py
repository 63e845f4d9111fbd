"""Views of the submit page: a config that is pasted, uploaded or cloned, what would happen to it, and its
submission."""

from __future__ import annotations

import hashlib
import json
from secrets import token_urlsafe
from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import condition, require_http_methods, require_POST, require_safe

from jobs import access, queries, services
from jobs.config import edit, yaml_text
from jobs.config.edit import CHANGE
from jobs.config.editing.schema import schema as config_schema
from jobs.config.samples import SAMPLES
from jobs.config.spec import MAX_CONFIG_BYTES
from jobs.models import Job
from jobs.pages.config import coloured, is_packed, laid_out
from jobs.pages.plan import WhatIf, plan_for, refused
from jobs.pages.rows import job_url
from jobs.planning.lifecycle import JobState
from jobs.submitting import choices, drafts, sweeps, templates
from jobs.submitting.sizes import sizes as other_sizes
from portal.accounts.auth import require_user
from portal.accounts.guard import signed_in
from portal.accounts.viewer import viewer_of
from portal.core.errors import BadRequest, InvalidConfig, LongshoreError
from portal.models import User
from portal.web.middleware import allow_styles

_RECENT = 3
_ROLE_NUMBERS = (  # fields of the form: name, words, default
    ("taskNumber", "Tasks", 1),
    ("gpuNumber", "GPUs each", 0),
    ("cpuNumber", "Cores each", 1),
    ("memoryMB", "Memory MB", 100),
    ("shmMB", "shm MB", 64),
)

_SCHEMA: str = json.dumps(config_schema(), separators=(",", ":"))
_SCHEMA_ETAG: str = f'"{hashlib.sha256(_SCHEMA.encode()).hexdigest()[:16]}"'


@never_cache
@signed_in
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponseBase:
    """GET ?template=<sample> or ?from=<user>/<job>. POST fields: config, file, action (load: show the file, check,
    layout: put the config on many lines), use (a change of the config, as JSON)."""
    if request.method == "GET":
        text, source, draft = _start(request)
        text = laid_out(text) if is_packed(text) else text
        if request.headers.get("Accept") == "application/json":
            return JsonResponse({"text": text, "from": source})
        return _page(request, text, _plan(request, text) if text else None, source=source, draft=draft)
    text = _sent(request)
    if request.POST.get("use"):
        text = _with_change(text, request.POST["use"])
        return _page(request, text, _plan(request, text))
    if request.POST.get("action") == "layout":
        text = laid_out(text if text.lstrip().startswith("{") else yaml_text.to_json(text) or text)
    if request.POST.get("action") in ("load", "check", "layout"):
        return _page(request, text, _plan(request, text))
    return _submit(request, text)


@never_cache
@signed_in
@require_POST
def check(request: HttpRequest) -> HttpResponseBase:
    """The what-if panel alone, for the text in the editor."""
    return render(request, "jobs/_plan.html", {"plan": _plan(request, _sent(request))})


@never_cache
@signed_in
@require_POST
def sizes(request: HttpRequest) -> HttpResponseBase:
    """Fields: config, role (its number). When the job would start with other numbers of GPUs for that role."""
    found = other_sizes(_sent(request), require_user(request), _id(request.POST.get("role")))
    return render(request, "jobs/_submit_sizes.html", {"sizes": found})


@signed_in
@require_safe
@condition(etag_func=lambda request: _SCHEMA_ETAG)
def schema(request: HttpRequest) -> HttpResponseBase:
    """The schema of a config, from which the editor completes and explains."""
    return HttpResponse(_SCHEMA, content_type="application/schema+json")


@never_cache
@signed_in
@require_safe
def images(request: HttpRequest) -> HttpResponseBase:
    """{"images": [{"name", "nodes"}]}: those that nodes have already."""
    return JsonResponse({"images": choices.images_of(require_user(request))})


def _submit(request: HttpRequest, text: str) -> HttpResponse:
    try:
        plan = _plan(request, text)
        if not plan.problems and plan.title == "Can never run here" and not request.POST.get("anyway"):
            return _page(request, text, plan, anyway=True)
        done = _accept(require_user(request), text)
    except InvalidConfig as error:
        return _page(request, text, refused(error.problems), status=error.status)
    except LongshoreError as error:
        plan = plan_for(text, require_user(request))
        refusal = WhatIf(JobState.FAILED, "It was refused", (error.message,), refuses=error.message)
        return _page(request, text, plan if plan.refuses else refusal, status=error.status)
    messages.success(request, done[1])
    _forget_draft(request)
    return redirect(done[0])


def _accept(user: User, text: str) -> tuple[str, str]:
    """(the page of what was submitted, a sentence about it). Raises what the services raise."""
    if not sweeps.asks_for(text):
        job = services.submit(user, text)
        return job_url(job.username, job.name), format_html("Job <b>{}</b> was submitted.", job.name)
    sweep = sweeps.submit(user, text)
    url = f"/sweeps/{quote(sweep.username)}/{quote(sweep.name)}"
    return url, format_html("The {} jobs of <b>{}</b> were submitted.", sweep.jobs.count(), sweep.name)


def _forget_draft(request: HttpRequest) -> None:
    if draft := _id(request.POST.get("draft")):
        drafts.delete(require_user(request), draft)


def _page(
    request: HttpRequest,
    text: str,
    plan: WhatIf | None,
    *,
    source: str = "",
    draft: int = 0,
    status: int = 200,
    anyway: bool = False,
) -> HttpResponse:
    user = require_user(request)
    by_line: dict[int, list[str]] = {}
    for problem in plan.problems if plan else ():
        by_line.setdefault(problem.line, []).append(problem.message)
    page: dict[str, Any] = {
        "nav": "submit",
        "text": text,
        "rows": max(18, text.count("\n") + 2),
        "plan": plan,
        "lines": [(line, by_line.get(at, [])) for at, line in enumerate(coloured(text), 1)] if by_line else [],
        "source": source,
        "draft": draft or _id(request.POST.get("draft")),
        "is_back": bool(draft) and not request.GET,
        "drafts": drafts.of(user),
        "templates": templates.visible_to(user),
        "samples": SAMPLES,
        "recent": _recent(request),
        "anyway": anyway,
        "role_numbers": _ROLE_NUMBERS,
        "known": {
            "vcs": choices.vcs_of(user),
            "gpuTypes": choices.gpu_types(),
            "nonce": (nonce := token_urlsafe(16)),
        },
    }
    response = render(request, "jobs/submit.html", page, status=status)
    allow_styles(response, nonce)
    return response


def _plan(request: HttpRequest, text: str) -> WhatIf:
    return plan_for(text, require_user(request))


def _start(request: HttpRequest) -> tuple[str, str, int]:
    """The text with which the editor opens, the full name of the job that it is from, and the draft that it is. Without
    a wish it is the newest draft. ?change= is a change of the job's config, which a diagnosis offers."""
    user = require_user(request)
    if full_name := request.GET.get("from", ""):
        username, _, name = full_name.partition("/")
        job = queries.get_job(username, name)
        access.require_config(viewer_of(request), job)
        text = _renamed(request, job.config, job.name)
        asked = request.GET.get("change", "")
        return (_with_change(text, asked) if asked else text), full_name, 0
    if full_name := request.GET.get("sweep", ""):
        sweep = sweeps.find(*full_name.partition("/")[::2])
        access.require_config(viewer_of(request), Job(username=sweep.username, name=sweep.name))
        return _renamed(request, sweep.config, sweep.name), "", 0
    if saved := _id(request.GET.get("saved")):
        config = templates.open_one(user, saved).config
        return _renamed(request, config, drafts.title_of(config)), "", 0
    if draft := _id(request.GET.get("draft")):
        return drafts.text_of(user, draft), "", draft
    wanted = request.GET.get("template", "")
    sample = next((sample for sample in SAMPLES if sample.key == wanted), None)
    if sample:
        return _renamed(request, sample.config, sample.key), "", 0
    newest = drafts.of(user)[:1] if not request.GET else []
    return (drafts.text_of(user, newest[0].id), "", newest[0].id) if newest else ("", "", 0)


def _renamed(request: HttpRequest, text: str, name: str) -> str:
    """The text with the user's next free job name in place of the old one, as each user has a name only once. The rest
    is unchanged."""
    free = queries.free_name(request.user.get_username(), name) if name else name
    return text.replace(f'"{name}"', f'"{free}"', 1)


def _with_change(text: str, asked: str) -> str:
    """The text with a change that was offered. Raises BadRequest."""
    try:
        change = CHANGE.validate_json(asked)
        return edit.with_values(text, edit.changes_of(services.read(text)[1], change))
    except (ValueError, LongshoreError) as error:  # it was edited meanwhile, or the field is not ours
        raise BadRequest("This change does not fit the config that was sent.") from error


def _sent(request: HttpRequest) -> str:
    file = request.FILES.get("file")
    if file is None:
        return str(request.POST.get("config", "")).replace("\r\n", "\n")
    if (file.size or 0) > MAX_CONFIG_BYTES:
        raise BadRequest("The file is larger than 100 kB, so it is no job config.")
    try:
        return bytes(file.read()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest("The file is not text in UTF-8.") from error


def _recent(request: HttpRequest) -> list[dict[str, Any]]:
    mine = queries.list_jobs(queries.JobFilter(username=request.user.get_username()))
    return list(mine[:_RECENT])


def _id(text: str | None) -> int:
    """The number of a row; 0 without one."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else 0
