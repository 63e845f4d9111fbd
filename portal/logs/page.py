"""Shows the log page: the lines of the logs that an address names (choice), and links to the others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from django.utils import timezone

from clusters.models import VirtualCluster
from jobs.logs import retention
from jobs.logs.places import STREAMS
from jobs.logs.together.sources import LogRow, Source
from jobs.models import Attempt, Task
from portal.logs import sidebar
from portal.logs.choice import OUTPUTS, SHOWN_LINES, LogChoice, Shown


def context(choice: LogChoice, page: Shown) -> dict[str, Any]:
    """The context of templates/logs/log.html. The page opens a stream when ``page.live`` is set."""
    job, task = choice.job, choice.task
    stream = choice.page.replace("/jobs/", "/stream/logs/", 1).removesuffix("/logs")
    attempts = list(Attempt.objects.filter(job=job).order_by("-number")[:100])
    times = [log.times for log in page.together.logs if log.times.count]
    return {
        "job": job,
        "task": task,
        "attempt": choice.attempt,
        "output": choice.output,
        "log": page,
        "size": page.together.size,
        "total": page.together.total,
        "lines": [_line(choice, row) for row in page.rows],
        "outputs": [(name, choice.url(stream=name)) for name in OUTPUTS],
        "roles": _roles(choice) if task else [],
        "groups": [] if task else sidebar.groups(choice, page),
        "attempts": [(attempt, f"{choice.page}?{urlencode({'attempt': attempt.number})}") for attempt in attempts],
        "all_attempts": [
            (str(number or "all"), LogChoice(job, None, number, "", "both", ()).url())
            for number in (0, *(attempt.number for attempt in attempts))
        ],
        "all_url": f"{choice.page}?tasks=all",
        "one_url": choice.page,
        "older_url": choice.url(**{"from": max(1, page.first - SHOWN_LINES)}) if page.first > 1 else "",
        "newer_url": choice.url(**{"from": page.last + 1}) if page.rows and page.last < page.together.total else "",
        "top_url": choice.url(**{"from": 1}),
        "end_url": choice.url(),
        "downloads": _downloads(choice),
        "download_url": choice.url(f"{choice.page}/download"),
        "stream_url": choice.url(stream),
        "search_url": choice.url(f"{stream}/search"),
        "rows_url": choice.url(f"{choice.page}/rows"),
        "zone": timezone.get_current_timezone_name(),
        "sources": [_as_json(choice, source) for source in choice.sources],
        "alone": task is not None,
        "stay": _how_long(choice),
        "since": _local(min((each.key(0) for each in times), default=0)),
        "until": _local(max((each.key(each.count - 1) for each in times), default=0)),
        "cut": choice.cut,
        "hidden": sorted(choice.hide),
        "attempt_words": sidebar.attempts(choice.sources),
        "counts": {log.source.number: log.times.count for log in page.together.logs},
    }


def _line(choice: LogChoice, row: LogRow) -> dict[str, Any]:
    source = choice.sources[row.source]
    alone = len(choice.sources) == 1
    local = timezone.localtime(datetime.fromtimestamp(row.at // 10**9, UTC))
    return {
        "line": row.line,
        "id": f"L{row.line.number}" if alone else f"{source.name}{row.line.number}",
        "label": "" if choice.task else source.task.label,
        "colour": 0 if choice.task else sidebar.colour(choice.sources, source),
        "time": f"{local:%H:%M:%S}.{row.at // 10**6 % 1000:03d}" if row.at else "",
        "moment": local,
    }


def _as_json(choice: LogChoice, source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "label": source.task.label,
        "attempt": source.task.attempt.number,
        "stream": source.stream,
        "colour": sidebar.colour(choice.sources, source),
    }


def _how_long(choice: LogChoice) -> str:
    """It says until when the logs stay, and nothing where that is for ever."""
    rule = retention.rule_of(VirtualCluster.objects.filter(name=choice.job.vc).first())
    if not rule:
        return ""
    going = Attempt.objects.filter(job=choice.job, log_gone_at=None, log_goes_at__isnull=False)
    if choice.attempt:
        going = going.filter(number=choice.attempt)
    says = f"Virtual cluster {choice.job.vc} {rule}."
    if (first := going.order_by("log_goes_at").first()) and (day := first.log_goes_at):
        says += f" The logs of attempt {first.number} will be deleted on {day.day} {day:%b %Y}."
    return says


def _local(at: int) -> str:
    """A stamp as a field for a local time wants it."""
    return f"{timezone.localtime(datetime.fromtimestamp(at // 10**9, UTC)):%Y-%m-%dT%H:%M:%S}" if at else ""


def _downloads(choice: LogChoice) -> list[tuple[str, str]]:
    if not choice.task:
        return [("All as zip", choice.url(f"{choice.page}/download", form="zip"))]
    job, task = choice.job, choice.task
    raw = f"/api/v1/user/{quote(job.username)}/jobs/{quote(job.name)}/taskRoles/{quote(task.role)}/{task.index}/logs/"
    return [(name, f"{raw}{name}?{urlencode({'attempt': choice.attempt, 'download': 1})}") for name in STREAMS]


def _roles(choice: LogChoice) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return [(role, [{"label", "state", "url", "current"}])] of the attempt, in one query."""
    assert choice.task is not None
    roles: dict[str, list[dict[str, Any]]] = {}
    rows = Task.objects.filter(attempt=choice.task.attempt).order_by("id").values_list("id", "role", "index", "state")
    for key, role, index, state in rows:
        label = f"{role}-{index}"
        shown = {"label": label, "state": state, "url": choice.url(task=label), "current": key == choice.task.pk}
        roles.setdefault(role, []).append(shown)
    return list(roles.items())
