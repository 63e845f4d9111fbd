"""The job list: filters of its address, facets with tallies, one page of rows by cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from clusters.models import VirtualCluster
from jobs import queries
from jobs.access import Viewer
from jobs.pages.rows import Row, rows_of, with_gpu_type
from jobs.queries import JobFilter

SIZES = (20, 50, 100)
STATES = ("WAITING", "RUNNING", queries.STOPPING, "SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the list, newest first: when a job was submitted, and its id among those of the same moment."""

    at: datetime
    id: int

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        moment, _, id = text.partition(".")
        if not (_number(moment) and _number(id)) or len(moment) > 16:
            return None
        return cls(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(moment)), int(id))

    @classmethod
    def of(cls, row: Row) -> Cursor:
        return cls(row.created_at, row.id)

    def __str__(self) -> str:
        return f"{(self.at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)}.{self.id}"


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The address of a list page. ``before`` and ``after`` are the cursors of Older and Newer."""

    which: JobFilter
    before: Cursor | None = None
    after: Cursor | None = None
    limit: int = 50

    @classmethod
    def read(cls, params: Mapping[str, str]) -> ListQuery:
        """Wrong values count as not given: an address that somebody kept must always show something."""
        state = params.get("state", "").upper()
        limit = _number(params.get("limit"))
        which = JobFilter(
            username=params.get("username", "").strip(),
            vc=params.get("vc", "").strip(),
            state=state if state in STATES else "",
            keyword=params.get("keyword", "").strip(),
            shown_as=True,
        )
        before, after = Cursor.read(params.get("before", "")), Cursor.read(params.get("after", ""))
        return cls(which, before, None if before else after, limit if limit in SIZES else 50)

    def address(self, **changes: object) -> str:
        which = self.which
        values: dict[str, object] = {
            "state": which.state.lower(),
            "username": which.username,
            "vc": which.vc,
            "keyword": which.keyword,
            "limit": self.limit if self.limit != 50 else "",
            **changes,
        }
        kept = {name: value for name, value in values.items() if value}
        return f"/jobs?{urlencode(kept)}" if kept else "/jobs"


@dataclass(frozen=True, slots=True)
class Facet:
    state: str  # "" = all
    number: int
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """A filter and the address of the list without it, for an empty list."""

    says: str
    value: str
    url: str


def listing(query: ListQuery, viewer: Viewer) -> dict[str, Any]:
    """The context of jobs/list.html."""
    rows, newer, older = page_of(query, viewer)
    return {
        "nav": "jobs",
        "query": query,
        "rows": rows,
        "facets": facets(query),
        "newer": query.address(after=Cursor.of(rows[0])) if newer and rows else "",
        "older": query.address(before=Cursor.of(rows[-1])) if older and rows else "",
        "sizes": SIZES,
        "vcs": list(VirtualCluster.objects.order_by("name").values_list("name", flat=True)),
        "drops": _drops(query),
        "selectable": any(row.may_stop for row in rows),
    }


def page_of(query: ListQuery, viewer: Viewer) -> tuple[list[Row], bool, bool]:
    """The rows, newest first, and whether there are newer and older ones."""
    jobs = with_gpu_type(queries.list_jobs(query.which))
    if cursor := query.after:
        jobs = jobs.filter(created_at__gte=cursor.at).exclude(created_at=cursor.at, id__lte=cursor.id)
        found = list(jobs.order_by("created_at", "id")[: query.limit + 1])
        newer, older = len(found) > query.limit, True
        found = found[: query.limit][::-1]
    else:
        if cursor := query.before:
            jobs = jobs.filter(created_at__lte=cursor.at).exclude(created_at=cursor.at, id__gte=cursor.id)
        found = list(jobs[: query.limit + 1])
        newer, older = bool(query.before), len(found) > query.limit
        found = found[: query.limit]
    return rows_of(found, viewer), newer, older


def rows_by_id(ids: list[int], viewer: Viewer) -> list[Row]:
    """The same lines again, for the live stream."""
    found = list(with_gpu_type(queries.list_jobs()).filter(id__in=ids))
    return rows_of(found, viewer)


def newer_than(query: ListQuery, top: int) -> int:
    """How many jobs of this list were submitted after the one on top; counts to 100."""
    return len(queries.list_jobs(query.which).filter(id__gt=top).order_by()[:100])


def facets(query: ListQuery) -> list[Facet]:
    counts = queries.count_by_state(query.which)
    every = Facet("", sum(counts.values()), query.address(state=""), not query.which.state)
    return [
        every,
        *(Facet(s, counts[s], query.address(state=s.lower()), query.which.state == s) for s in STATES),
    ]


def _drops(query: ListQuery) -> list[Drop]:
    which = query.which
    given = (
        ("State", "state", which.state.capitalize()),
        ("User", "username", which.username),
        ("VC", "vc", which.vc),
        ("Name contains", "keyword", which.keyword),
    )
    return [Drop(says, value, query.address(**{name: ""})) for says, name, value in given if value]


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else 0
