"""Shows the job list: filters from the address, the number of jobs in each state, and one page of rows by cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import QuerySet
from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core.words import whole
from clusters.models import Node, VirtualCluster
from jobs import queries
from jobs.history.window import read_since
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.queries import JobFilter
from portal.shared.jobs.rows import JobRow, rows_of, with_sweeps

SIZES = (20, 50, 100)
SPANS = {"1h": "last hour", "24h": "last 24 h", "7d": "last 7 days", "30d": "last 30 days"}
SORT_WORDS = {"newest": "Newest first", "oldest": "Oldest first", "ended": "Ended last"}
_KNOWN = frozenset({"state", "username", "vc", "keyword", "since", "sort", "before", "after", "limit", "sweep"})
_Jobs = QuerySet[Job, dict[str, Any]]
STATES = (JobState.WAITING, JobState.RUNNING, queries.STOPPING, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


@dataclass(frozen=True, slots=True)
class PageCursor:
    """A place in the list: the time by which it is sorted, and the job's id among jobs of the same time."""

    at: datetime
    id: int

    @classmethod
    def read(cls, text: str) -> PageCursor | None:
        moment, _, id = text.partition(".")
        if not (whole(moment) and whole(id)) or len(moment) > 16:
            return None
        return cls(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(moment)), int(id))

    @classmethod
    def of(cls, row: JobRow, sort: str) -> PageCursor:
        return cls((row.end if sort == "ended" else None) or row.created_at, row.id)

    def __str__(self) -> str:
        return f"{(self.at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)}.{self.id}"


class ListQuery:
    """The address of a list page. Wrong values are ignored, as an address that somebody has saved must always show
    something: ``odd`` names them for the page, ``wrong`` says what they must be, for the API. ``before`` and ``after``
    are the cursors of Older and Newer."""

    def __init__(self, params: Mapping[str, str]) -> None:
        username, vc, keyword, sweep, since = (
            params.get(name, "").strip() for name in ("username", "vc", "keyword", "sweep", "since")
        )
        state, sort, limit = params.get("state", "").upper(), params.get("sort") or "newest", whole(params.get("limit"))
        begin = read_since(since, timezone.localtime()) if since else None
        self.wrong: dict[str, str] = {}
        if state and state not in STATES:
            self.wrong["state"] = f"must be one of [{', '.join(sorted(STATES))}]"
        if since and begin is None:
            self.wrong["since"] = "must be like 24h, 7d or 2026-11-20"
        if len(keyword) > queries.LONGEST_KEYWORD:
            self.wrong["keyword"] = f"must have at most {queries.LONGEST_KEYWORD} characters"
        if sort not in queries.SORTS:
            self.wrong["sort"] = f"must be one of [{', '.join(queries.SORTS)}]"
        self.odd = [name for name in params if name not in _KNOWN or name in self.wrong]
        self.which = JobFilter(
            username=username,
            vc=vc,
            state="" if "state" in self.wrong else state,
            keyword="" if "keyword" in self.wrong else keyword,
            shown_as=True,
            since=begin,
            sweep=sweep.replace("/", "~"),
            folded=not sweep,
        )
        self.before = PageCursor.read(params.get("before", ""))
        self.after = None if self.before else PageCursor.read(params.get("after", ""))
        self.limit = limit if limit in SIZES else 50
        self.since = since if begin else ""  # as in the address
        self.sort = "newest" if "sort" in self.wrong else sort

    def address(self, **changes: object) -> str:
        """The address of this list with some parameters changed; defaults are left out."""
        which = self.which
        values: dict[str, object] = {
            "state": which.state.lower(),
            "username": which.username,
            "vc": which.vc,
            "keyword": which.keyword,
            "sweep": which.sweep,
            "since": self.since,
            "sort": self.sort if self.sort != "newest" else "",
            "limit": self.limit if self.limit != 50 else "",
            **changes,
        }
        query = {name: value for name, value in values.items() if value}
        return f"/jobs?{urlencode(query)}" if query else "/jobs"


@dataclass(frozen=True, slots=True)
class Facet:
    state: str  # "" = all
    number: int
    url: str
    current: bool


def listing(query: ListQuery, viewer: Viewer) -> dict[str, Any]:
    """The context of lists/list.html."""
    rows, newer, older = page_of(query, viewer)
    return {
        "nav": "jobs",
        "query": query,
        "rows": rows,
        "facets": facets(query),
        "newer": query.address(after=PageCursor.of(rows[0], query.sort)) if newer and rows else "",
        "older": query.address(before=PageCursor.of(rows[-1], query.sort)) if older and rows else "",
        "back_on": ("Previous", "Next") if query.sort == "oldest" else ("Newer", "Older"),
        "spans": SPANS,
        "sorts": SORT_WORDS,
        "sizes": SIZES,
        "vcs": list(VirtualCluster.objects.order_by("name").values_list("name", flat=True)),
        "drops": _drops(query),
        "selectable": any(row.may_stop and not row.sweep for row in rows),
    }


def page_of(query: ListQuery, viewer: Viewer) -> tuple[list[JobRow], bool, bool]:
    """The rows in the order of the query, and whether there are others before and behind them. The query's ``before``
    leads towards the end of the list (Older), ``after`` towards its beginning (Newer)."""
    jobs = queries.list_jobs(query.which, query.sort)
    order = queries.order_of(query.sort)
    if cursor := query.after:
        back = tuple(name.removeprefix("-") if name.startswith("-") else f"-{name}" for name in order)
        page = queries.read_jobs(_behind(jobs, cursor, back).order_by(*back), query.limit + 1)
        newer, older = len(page) > query.limit, True
        page = page[: query.limit][::-1]
    else:
        if cursor := query.before:
            jobs = _behind(jobs, cursor, order)
        page = queries.read_jobs(jobs, query.limit + 1)
        newer, older = bool(query.before), len(page) > query.limit
        page = page[: query.limit]
    return _lines(page, query.which, viewer), newer, older


def _behind(jobs: _Jobs, cursor: PageCursor, order: tuple[str, ...]) -> _Jobs:
    """The jobs that come after the cursor in that order. An index serves the first of the two conditions."""
    field = order[0].removeprefix("-")
    side = "lte" if order[0].startswith("-") else "gte"
    passed = "gte" if side == "lte" else "lte"
    return jobs.filter(**{f"{field}__{side}": cursor.at}).exclude(**{field: cursor.at, f"id__{passed}": cursor.id})


def rows_by_id(ids: list[int], which: JobFilter, viewer: Viewer) -> list[JobRow]:
    """The rows of these jobs of a list as they are now, for the live stream."""
    return _lines(queries.read_jobs(queries.list_jobs().filter(id__in=ids), len(ids)), which, viewer)


def _lines(jobs: list[dict[str, Any]], which: JobFilter, viewer: Viewer) -> list[JobRow]:
    rows = rows_of(jobs, viewer)
    return with_sweeps(rows, viewer) if which.folded else rows


def newer_than(query: ListQuery, top: int) -> int:
    """How many jobs of this list were submitted after the job ``top``; 100 at most."""
    return len(queries.list_jobs(query.which).filter(id__gt=top).order_by()[:100])


def place_named(name: str) -> str:
    """The address of the page of the node or virtual cluster of that name; empty without one."""
    if Node.objects.filter(name=name).exists():
        return f"/nodes/{quote(name)}"
    return f"/vcs/{quote(name)}" if VirtualCluster.objects.filter(name=name).exists() else ""


def facets(query: ListQuery) -> list[Facet]:
    counts = queries.count_by_state(query.which)
    every = Facet("", sum(counts.values()), query.address(state=""), not query.which.state)
    return [
        every,
        *(Facet(s, counts[s], query.address(state=s.lower()), query.which.state == s) for s in STATES),
    ]


def _drops(query: ListQuery) -> list[tuple[str, str, str]]:
    """For an empty list: each of its filters, the value, and the address of the list without it."""
    which = query.which
    filters = (
        ("State", "state", which.state.capitalize()),
        ("User", "username", which.username),
        ("Virtual cluster", "vc", which.vc),
        ("Name contains", "keyword", which.keyword),
        ("Sweep", "sweep", which.sweep),
        ("Submitted since", "since", query.since),
    )
    return [(says, value, query.address(**{name: ""})) for says, name, value in filters if value]
