"""The context of a job's page for one of its tabs."""

from __future__ import annotations

from typing import Any

from jobs import access
from jobs.models import Job
from jobs.pages import config as config_page
from jobs.pages import detail as pages
from jobs.pages.evidence import tail_of


def context(job: Job, viewer: Any, tab: str, params: dict[str, str]) -> dict[str, Any]:
    """Everything a tab shows; the live stream asks for the same."""
    if tab != "tasks":
        access.require_story(viewer, job)
    shown = pages.detail(job, viewer)
    found: dict[str, Any] = {
        "nav": "jobs",
        "shown": shown,
        "tab": tab,
        "tabs": pages.tabs(shown, tab),
        "tab_template": f"jobs/_tab_{tab}.html",
        "tail": tail_of(job, shown.cause) if shown.cause and shown.may_read_logs else None,
    }
    if tab == "tasks":
        found |= pages.tasks_tab(shown, params)
    elif tab == "events":
        found |= pages.events_tab(shown, params)
    elif tab == "attempts":
        found |= pages.attempts_tab(shown)
    elif tab == "config":
        found |= _config(shown, is_original="original" in params)
    return found


def _config(shown: pages.Detail, *, is_original: bool) -> dict[str, Any]:
    if not shown.may_read_config:
        return {"lines": None}
    text = shown.job.config
    is_packed = config_page.is_packed(text)
    lines = config_page.coloured(config_page.laid_out(text) if is_packed and not is_original else text)
    added = config_page.added(text, shown.job.spec)
    return {"lines": lines, "added": added, "is_packed": is_packed, "is_original": is_original}
