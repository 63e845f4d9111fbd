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
from jobs.metrics import idle
from jobs.models import Job, Task
from jobs.planning.lifecycle import JobState
from jobs.submitting import choices
from jobs.waiting.why import turn_of, waiting_reason
from jobs.web_pages import notebooks, origin, shown, tensorboard
from jobs.web_pages.notebooks import BOARD, CODE, LAB, TOOLS, Asked, Notebook
from portal.shared.guard import fresh_page, own_form, own_post
from portal.shared.jobs.rows import job_url
from portal.shared.viewer import user_of
from portal.web_pages import opening

_SAYS = {LAB: "notebooks, shell, files", CODE: "an editor with a shell", BOARD: "reads a folder, no GPU"}
_ICONS = {LAB: "notebook", CODE: "code", BOARD: "chart-line"}
_SAVED = 5  # that have ended and are offered again
_AGAIN = 2  # seconds until it is asked again whether the tool answers


@own_form
def notebook_list(request: HttpRequest) -> HttpResponseBase:
    """GET ?folder=, ?tool= fill the form in. POST opens one; fields: tool, size (``2 A100``), image, vc, folder, and
    offered, which is the tool and the image that the form stood at. What is left out is as last time."""
    user = user_of(request)
    mine = notebooks.of(user)
    asked = _asked(request.POST if request.method == "POST" else request.GET, mine, notebooks.usual(mine, user))
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
    page = next((row for row in rows if row.page.label in TOOLS), None)
    if page is not None and page.state.is_ == "answers" and not is_first:
        key = urlencode(notebooks.key_of(user, job, page.page.label))
        url = opening.address(request, user, job, page.page.role, page.page.index, page.page.label)
        answer: HttpResponseBase = redirect(f"{url}&{key}" if key else url)
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


def _asked(fields: Any, mine: list[Notebook], usual: Asked) -> Asked:
    gpus, _, kind = fields.get("size", f"{usual.gpus} {usual.gpu_type}").partition(" ")
    tool = fields.get("tool") or usual.tool
    given = {name: fields[name].strip() for name in ("vc", "folder") if fields.get(name, "").strip()}
    image, (was, _, offered) = fields.get("image", "").strip(), fields.get("offered", "").partition(" ")
    if not image or (image == offered and tool != was):  # it stood there for the other tool
        image = notebooks.image_for(tool, mine)
    number = whole(gpus, 4) or 0
    return replace(usual, tool=tool, image=image, gpus=number, gpu_type=kind.strip() if number else "", **given)


def _is_it(one: Notebook, asked: Asked) -> bool:
    """Whether it is what is asked for, and has not ended."""
    return one.is_live and (one.asked.tool, one.asked.folder) == (asked.tool, tensorboard.path_of(asked.folder))


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
        "tools": [(tool, title, _SAYS[tool], _ICONS[tool]) for tool, title in TOOLS.items()],
        "asked": asked,
        "title": TOOLS.get(asked.tool, ""),
        "is_as_before": bool(mine) and asked == mine[0].asked,
        "sizes": [(each, f"{each.gpus} {each.gpu_type}".strip(), beside, size) for each, beside, size in sizes],
        "images": choices.images_of(user),
        "vcs": [(vc, words.duration(60 * notebooks.idle_minutes(vc))) for vc in choices.vcs_of(user)],
        "live": _live_rows(live),
        "ended": [_row(each) for each in ended.values() if each.job.state not in queries.LIVE][:_SAVED],
        "idle": words.duration(60 * notebooks.idle_minutes(asked.vc)),
        "error": error.message if error else "",
        "is_on": origin.is_on(),
    }
    return render(request, "notebooks/notebooks.html", page, status=error.status if error else 200)


def _live_rows(live: list[Notebook]) -> list[dict[str, Any]]:
    """As ``_row``, with the node and what is used there, as far as it is known."""
    jobs = [each.job.pk for each in live]
    nodes = dict(Task.objects.filter(job__in=jobs).exclude(node="").order_by("id").values_list("job_id", "node"))
    used = idle.use_of(jobs)
    return [
        {**_row(each), "node": nodes.get(each.job.pk, ""), "used": used.get(each.job.pk, ("", False))} for each in live
    ]


def _row(one: Notebook) -> dict[str, Any]:
    tool = one.asked.tool
    return {"job": one.job, "asked": one.asked, "icon": _ICONS[tool], "title": TOOLS[tool]}
