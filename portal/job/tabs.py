"""Builds the context of a job's page for one of its tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobs import access
from jobs.models import Job
from portal.job import config, page
from portal.job.evidence import memory_of, tail_of


def context(job: Job, viewer: Any, tab: str, params: dict[str, str]) -> dict[str, Any]:
    """The context of templates/job/detail.html; the live stream draws its parts from the same. Raises Unauthorized or
    Forbidden for a tab that the viewer may not read."""
    if tab != "tasks":
        access.require_details(viewer, job)
    shown = page.Detail(job, viewer)
    parts: dict[str, Any] = {
        "nav": "jobs",
        "shown": shown,
        "tab": tab,
        "tabs": page.tabs(shown, tab),
        "tab_template": f"job/_tab_{tab}.html",
        "tail": tail_of(job, shown.cause) if shown.cause and shown.may_read_logs else None,
        "memory": memory_of(shown) if shown.cause and shown.cause.is_memory else None,
    }
    return parts | _OF_TAB[tab](shown, params) if tab in _OF_TAB else parts


def _config(shown: page.Detail, params: dict[str, str]) -> dict[str, Any]:
    if not shown.may_read_config:
        return {"lines": None}
    text, is_original = shown.job.config, "original" in params
    is_packed = config.is_packed(text)
    lines = config.coloured(config.pretty_printed(text) if is_packed and not is_original else text)
    added = config.added(text, shown.job.spec)
    return {"lines": lines, "added": added, "is_packed": is_packed, "is_original": is_original}


_OF_TAB: dict[str, Callable[[page.Detail, dict[str, str]], dict[str, Any]]] = {
    "tasks": page.tasks_tab,
    "events": page.events_tab,
    "attempts": page.attempts_tab,
    "config": _config,
}
