"""Pages of notebooks: what may be opened and what runs, and the page that waits until a tool answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from base.accounts import budget
from base.core import words
from base.core.errors import LongshoreError
from base.core.words import whole
from base.models import User
from jobs import queries, services
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.submitting import choices
from jobs.waiting.why import turn_of, waiting_reason
from jobs.web_pages import notebooks, origin, shown
from jobs.web_pages.notebooks import BOARD, LAB, Asked, Notebook
from portal.shared.guard import fresh_page, own_form, own_post
from portal.shared.jobs.rows import job_url
from portal.shared.viewer import user_of
from portal.web_pages import opening

TOOLS = ((LAB, "JupyterLab", "notebooks, shell, files"), (BOARD, "TensorBoard", "reads a folder, no GPU"))
_SAVED = 5  # that have ended and are offered again
_AGAIN = 2  # seconds until it is asked again whether the tool answers


@own_form
def notebook_list(request: HttpRequest) -> HttpResponseBase:
    """GET ?folder=, ?tool= fill the form in. POST opens one; fields: tool, size (``2 A100``), image, vc, folder. What
    is left out is as last time."""
    user = user_of(request)
    mine = notebooks.of(user)
    asked = _asked(request.POST if request.method == "POST" else request.GET, notebooks.usual(mine, user))
    if request.method != "POST":
        return _page(request, user, mine, asked)
    there = next((each.job for each in mine if _is_it(each, asked)), None)
    if there is not None:
        return redirect(f"{address(there)}?opened")  # two of one folder would write over each other
    try:
        with budget.question(user.username):
            job = notebooks.open_one(user, asked)
    except LongshoreError as error:
        return _page(request, user, mine, asked, error)
    return redirect(f"{address(job)}?opened")


@fresh_page
def open_notebook(request: HttpRequest, name: str) -> HttpResponseBase:
    """Says how far it is, again and again, and leads to the tool as soon as that answers; with ?opened not at once, as
    browsers let no form lead to another origin."""
    user = user_of(request)
    job = queries.get_job(user.username, name)
    is_first = "opened" in request.GET
    rows = shown.listed(job, user, job_url(job.username, job.name)) if job.state in queries.LIVE else []
    page = next((row for row in rows if row.page.label in (LAB, BOARD)), None)
    if page is not None and page.state.is_ == "answers" and not is_first:
        token = notebooks.token_of(user, job)
        url = opening.address(request, user, job, page.page.role, page.page.index, page.page.label)
        answer: HttpResponseBase = redirect(f"{url}&{urlencode({'token': token})}" if token else url)
        answer["Referrer-Policy"] = "no-referrer"
        return answer
    waits = {"nav": "notebooks", "job": job, "url": job_url(job.username, job.name), "row": page}
    if job.state == JobState.WAITING:
        waits["reason"] = waiting_reason(job, turn_of(job))["summary"]
    is_live = job.state in queries.LIVE and origin.is_on()
    response = render(request, "notebooks/opening.html", {**waits, "is_live": is_live, "is_on": origin.is_on()})
    if is_live:
        response["Refresh"] = f"{0 if is_first else _AGAIN}; url={address(job)}"
    return response


@own_post
def give_back(request: HttpRequest, name: str) -> HttpResponseBase:
    """End it; it saves first."""
    job = queries.get_job((user := user_of(request)).username, name)
    services.stop(user, job)
    messages.success(request, f"{job.name} is saved and given back.")
    return redirect("/notebooks")


def address(job: Job) -> str:
    return f"/notebooks/{quote(job.name)}"


def _asked(fields: Any, usual: Asked) -> Asked:
    gpus, _, kind = fields.get("size", f"{usual.gpus} {usual.gpu_type}").partition(" ")
    tool = fields.get("tool") or usual.tool
    as_usual = usual.image if tool == usual.tool else ""
    given = {name: fields[name].strip() for name in ("vc", "folder") if fields.get(name, "").strip()}
    image = fields.get("image", "").strip() or as_usual
    number = whole(gpus, 4) or 0
    return replace(usual, tool=tool, image=image, gpus=number, gpu_type=kind.strip() if number else "", **given)


def _is_it(one: Notebook, asked: Asked) -> bool:
    """Whether it is what is asked for, and has not ended."""
    is_live = one.job.state in queries.LIVE and one.job.execution == Job.Execution.START
    return is_live and (one.asked.tool, one.asked.folder) == (asked.tool, asked.folder)


def _page(
    request: HttpRequest, user: User, mine: list[Notebook], asked: Asked, error: LongshoreError | None = None
) -> HttpResponse:
    with budget.question(user.username):
        sizes = notebooks.sizes(user, asked)
    live = [each for each in mine if each.job.state in queries.LIVE]
    ended: dict[tuple[str, str], Notebook] = {}  # of each folder the one that was opened last
    for each in mine:
        ended.setdefault((each.asked.tool, each.asked.folder), each)
    page = {
        "nav": "notebooks",
        "tools": TOOLS,
        "titles": {tool: title for tool, title, _ in TOOLS},
        "asked": asked,
        "sizes": [(each, f"{each.gpus} {each.gpu_type}".strip(), beside, size) for each, beside, size in sizes],
        "images": choices.images_of(user),
        "vcs": [(vc, words.duration(60 * notebooks.idle_minutes(vc))) for vc in choices.vcs_of(user)],
        "live": live,
        "ended": [each for each in ended.values() if each.job.state not in queries.LIVE][:_SAVED],
        "idle": words.duration(60 * notebooks.idle_minutes(asked.vc)),
        "error": error.message if error else "",
        "is_on": origin.is_on(),
    }
    return render(request, "notebooks/notebooks.html", page, status=error.status if error else 200)
