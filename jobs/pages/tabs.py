"""Builds the context of a job's page for one of its tabs."""

from __future__ import annotations

from typing import Any

from jobs import access
from jobs.models import Job
from jobs.pages import config as config_page
from jobs.pages import detail as pages
from jobs.pages.evidence import memory_of, tail_of
from jobs.terminal import page as terminals


def context(job: Job, viewer: Any, tab: str, params: dict[str, str]) -> dict[str, Any]:
    """The context of templates/jobs/detail.html; the live stream draws its parts from the same. Raises Unauthorized or
    Forbidden for a tab that the viewer may not read."""
    if tab != "tasks":
        access.require_story(viewer, job)
    shown = pages.detail(job, viewer)
    page: dict[str, Any] = {
        "nav": "jobs",
        "shown": shown,
        "tab": tab,
        "tabs": pages.tabs(shown, tab),
        "tab_template": f"jobs/_tab_{tab}.html",
        "tail": tail_of(job, shown.cause) if shown.cause and shown.may_read_logs else None,
        "memory": memory_of(shown) if shown.cause and shown.cause.is_memory else None,
    }
    if tab == "tasks":
        page |= pages.tasks_tab(shown, params)
    elif tab == "events":
        page |= pages.events_tab(shown, params)
    elif tab == "attempts":
        page |= pages.attempts_tab(shown)
    elif tab == "terminal":
        page |= terminals.page(job, viewer, params)
    elif tab == "config":
        page |= _config(shown, is_original="original" in params)
    return page


def _config(shown: pages.Detail, *, is_original: bool) -> dict[str, Any]:
    if not shown.may_read_config:
        return {"lines": None}
    text = shown.job.config
    is_packed = config_page.is_packed(text)
    lines = config_page.coloured(config_page.laid_out(text) if is_packed and not is_original else text)
    added = config_page.added(text, shown.job.spec)
    return {"lines": lines, "added": added, "is_packed": is_packed, "is_original": is_original}
