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
from django.views.decorators.http import condition

from base.accounts import budget
from base.core.errors import BadRequest, InvalidConfig, LongshoreError, TooManyRequests
from base.core.words import whole
from base.models import User
from clusters.vcs.grants import priorities
from clusters.vcs.rules import DEFAULT_VC
from jobs import access, queries, services
from jobs.config import edit, yaml_text
from jobs.config.edit import CHANGE
from jobs.config.editing.schema import config_schema
from jobs.config.samples import SAMPLES
from jobs.config.spec import MAX_CONFIG_BYTES
from jobs.models import Draft, Job
from jobs.planning.lifecycle import JobState
from jobs.reading import read
from jobs.submitting import choices, drafts, sweeps, templates
from jobs.submitting.sizes import other_sizes
from portal.job.config import coloured, is_packed, pretty_printed
from portal.shared.guard import fresh_page, own_form, own_page, own_post
from portal.shared.jobs.rows import job_url
from portal.shared.middleware import allow_styles
from portal.shared.viewer import user_of, viewer_of
from portal.submit.plan import SubmitPlan, plan_for, refused

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


@own_form
def submit(request: HttpRequest) -> HttpResponseBase:
    """GET ?template=<sample>, ?from=<user>/<job> or ?draft=<number>, by which a tab names its own. POST fields: config,
    file, action (load: show the file, check, layout: put the config on many lines), use (a change of the config, as
    JSON)."""
    if request.method != "POST":
        text, source, draft = _start(request)
        text = _laid_out(request, text) if is_packed(text) else text
        if request.headers.get("Accept") == "application/json":
            return JsonResponse({"text": text, "from": source})
        return _page(request, text, _plan(request, text) if text else None, source=source, draft=draft)
    text = _sent(request)
    if request.POST.get("use"):
        text = _with_change(request, text, request.POST["use"])
        return _page(request, text, _plan(request, text))
    if request.POST.get("action") == "layout":
        text = _laid_out(request, text)
    if request.POST.get("action") in ("load", "check", "layout"):
        return _page(request, text, _plan(request, text))
    return _submit(request, text)


@own_post
def check_submission(request: HttpRequest) -> HttpResponseBase:
    """Show the what-if panel alone, for the text in the editor."""
    try:
        return render(request, "submit/_plan.html", {"plan": _plan(request, _sent(request))})
    except TooManyRequests as spent:
        return HttpResponse(spent.message, status=spent.status, headers=spent.headers, content_type="text/plain")


@own_post
def sizes(request: HttpRequest) -> HttpResponseBase:
    """Fields: config, role (its number). When the job would start with other numbers of GPUs for that role."""
    with budget.question(user_of(request).username):
        others = other_sizes(_sent(request), user_of(request), whole(request.POST.get("role")) or 0)
    return render(request, "submit/_sizes.html", {"sizes": others})


@own_page
@condition(etag_func=lambda request: _SCHEMA_ETAG)
def schema(request: HttpRequest) -> HttpResponseBase:
    """The schema of a config, from which the editor completes and explains."""
    return HttpResponse(_SCHEMA, content_type="application/schema+json")


@fresh_page
def images(request: HttpRequest) -> HttpResponseBase:
    """{"images": [{"name", "nodes"}]}: those that nodes have already."""
    return JsonResponse({"images": choices.images_of(user_of(request))})


def _submit(request: HttpRequest, text: str) -> HttpResponse:
    plan = _plan(request, text)
    if not plan.problems and plan.can_never_run and not request.POST.get("anyway"):
        return _page(request, text, plan, anyway=True)
    try:
        done = _accept(user_of(request), text)
    except InvalidConfig as error:
        return _page(request, text, refused(error.problems), status=error.status)
    except TooManyRequests:
        raise
    except LongshoreError as error:
        refusal = SubmitPlan(JobState.FAILED, "It was refused", (error.message,), refuses=error.message)
        return _page(request, text, plan if plan.refuses else refusal, status=error.status)
    messages.success(request, done[1])
    drafts.keep(user_of(request), "", *drafts.named(request.POST))
    return redirect(done[0])


def _accept(user: User, text: str) -> tuple[str, str]:
    """(the page of what was submitted, a sentence about it). Raises what the services raise."""
    if not sweeps.asks_for(text):
        job = services.submit(user, text)
        return job_url(job.username, job.name), format_html("Job <b>{}</b> was submitted.", job.name)
    sweep = sweeps.submit(user, text)
    url = f"/sweeps/{quote(sweep.username)}/{quote(sweep.name)}"
    return url, format_html("The {} jobs of <b>{}</b> were submitted.", sweep.jobs.count(), sweep.name)


def _page(
    request: HttpRequest,
    text: str,
    plan: SubmitPlan | None,
    *,
    source: str = "",
    draft: Draft | None = None,
    status: int = 200,
    anyway: bool = False,
) -> HttpResponse:
    user = user_of(request)
    highest = priorities(user.username, is_admin=user.is_admin)
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
        "draft": (own := (draft.pk, draft.version) if draft else drafts.named(request.POST)),
        "drafts": [each for each in drafts.of(user) if each.pk != own[0]],
        "templates": templates.visible_to(user),
        "samples": SAMPLES,
        "recent": list(queries.list_jobs(queries.JobFilter(username=user.username))[:_RECENT]),
        "anyway": anyway,
        "role_numbers": _ROLE_NUMBERS,
        "highest": highest[DEFAULT_VC],
        "other_highest": {vc: most for vc, most in highest.items() if most != highest[DEFAULT_VC]},
        "known": {
            "vcs": list(highest),
            "gpuTypes": choices.gpu_types(),
            "nonce": (nonce := token_urlsafe(16)),
            "changed": _changed(request),
        },
    }
    response = render(request, "submit/submit.html", page, status=status)
    allow_styles(response, nonce)
    return response


def _plan(request: HttpRequest, text: str) -> SubmitPlan:
    with budget.question(user_of(request).username):
        return plan_for(text, user_of(request))


def _start(request: HttpRequest) -> tuple[str, str, Draft | None]:
    """The text with which the editor opens, the full name of the job that it is from, and the draft that it is.
    ?change= is a change of the job's config, which a diagnosis offers."""
    user = user_of(request)
    if full_name := request.GET.get("from", ""):
        username, _, name = full_name.partition("/")
        job = queries.get_job(username, name)
        access.require_config(viewer_of(request), job)
        text = _renamed(request, job.config, job.name)
        asked = request.GET.get("change", "")
        return (_with_change(request, text, asked) if asked else text), full_name, None
    if full_name := request.GET.get("sweep", ""):
        sweep = sweeps.find(*full_name.partition("/")[::2])
        access.require_config(viewer_of(request), Job(username=sweep.username, name=sweep.name))
        return _renamed(request, sweep.config, sweep.name), "", None
    if saved := whole(request.GET.get("saved")):
        config = templates.open_one(user, saved).config
        return _renamed(request, config, drafts.title_of(config)), "", None
    if "draft" in request.GET:
        if draft := drafts.open_one(user, whole(request.GET["draft"]) or 0):
            return draft[1], "", draft[0]
        messages.warning(request, "This draft is not there any more: it was submitted or discarded, or it was too old.")
    wanted = request.GET.get("template", "")
    sample = next((sample for sample in SAMPLES if sample.key == wanted), None)
    if sample:
        return _renamed(request, sample.config, sample.key), "", None
    return "", "", None


def _renamed(request: HttpRequest, text: str, name: str) -> str:
    """The text with the user's next free job name in place of the old one, as each user has a name only once. The rest
    is unchanged."""
    free = queries.free_name(request.user.get_username(), name) if name else name
    return text.replace(f'"{name}"', f'"{free}"', 1)


def _laid_out(request: HttpRequest, text: str) -> str:
    """The config on many lines, as JSON where it is YAML. Raises TooManyRequests."""
    with budget.reading(user_of(request).username, text):
        return pretty_printed(text if text.lstrip().startswith("{") else yaml_text.to_json(text) or text)


def _with_change(request: HttpRequest, text: str, asked: str) -> str:
    """The text with a change that was offered. Raises BadRequest, TooManyRequests."""
    try:
        change = CHANGE.validate_json(asked)
        with budget.reading(user_of(request).username, text):
            return edit.with_values(text, edit.changes_of(read(text)[1], change))
    except TooManyRequests:
        raise
    except (ValueError, LongshoreError) as error:  # it was edited meanwhile, or the field is not ours
        raise BadRequest("This change does not fit the config that was sent.") from error


def _changed(request: HttpRequest) -> dict[str, str]:
    """{JSON pointer: what the job had} of what ?change= changes in its config, for the form to mark."""
    username, _, name = request.GET.get("from", "").partition("/")
    if request.method != "GET" or not name or "change" not in request.GET:
        return {}
    job = queries.get_job(username, name)
    with budget.reading(user_of(request).username, job.config):
        values = edit.changes_of(read(job.config)[1], CHANGE.validate_json(request.GET["change"]))
        return {path: edit.said_at(job.config, path) for path in values}


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
