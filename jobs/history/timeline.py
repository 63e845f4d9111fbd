"""Reads what was held in a window: by which job, on which node and GPUs, and by which decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Aggregate, BigIntegerField, Case, Count, Max, Min, Q, QuerySet, Sum, When
from django.db.models.lookups import GreaterThanOrEqual

from base.accounts.viewer import Viewer
from clusters.models import Node
from jobs.access import may_read_details, role_as_read
from jobs.history.holdings import types_of
from jobs.history.ledger import as_read
from jobs.history.window import TimeWindow
from jobs.models import Event, Holding, Job

MOST = 20_000  # bars of one page


@dataclass(frozen=True, slots=True)
class HoldingBar:
    """A row of Holding, cut to nothing, or several that are drawn as one, of which this is the first. ``gpus`` are ids,
    ``more`` the number of the others."""

    id: int
    username: str
    job_name: str
    vc: str
    attempt: int
    role: str
    index: int
    node: str
    gpu_ids: str
    gpu_type: str
    cpus: int
    memory_mb: int
    guest: bool
    began: int
    ended: int | None
    outcome: str
    job_id: int
    more: int = 0

    @property
    def job(self) -> str:
        return f"{self.username}/{self.job_name}"

    @property
    def task(self) -> str:
        return f"{self.role}-{self.index}" + (f" and {self.more:,} more" if self.more else "")

    @property
    def gpus(self) -> Sequence[str]:
        return self.gpu_ids.split(",") if self.gpu_ids else ()


_COLUMNS = HoldingBar.__slots__[:-1]
_OF_A_BAR: Mapping[str, type[Aggregate]] = {
    **dict.fromkeys(("index", "began"), Min),
    **dict.fromkeys(("username", "job_name", "vc", "gpu_type", "outcome"), Max),
    **dict.fromkeys(("cpus", "memory_mb"), Sum),
}


@dataclass(frozen=True, slots=True)
class TimelineNode:
    """A node of the timeline; one that is gone has no GPUs but those that were held."""

    name: str
    gpus: tuple[tuple[str, str], ...]  # (id, type)
    status: str


def spans(
    window: TimeWindow, viewer: Viewer, *, node: str = "", vc: str = "", after: int = 0, most: int = MOST
) -> list[HoldingBar]:
    """What was held in the window by tasks with a greater id than ``after``, in the order of their ids."""
    rows = _within(window, node, vc).filter(id__gt=after).order_by("id")
    return [_as_read(HoldingBar(*values), viewer) for values in rows.values_list(*_COLUMNS)[:most]]


def bars(window: TimeWindow, viewer: Viewer, *, node: str = "", vc: str = "") -> list[HoldingBar]:
    """Return, as ``spans``, the latest MOST of them, for a drawing. What the tasks of a role held on a node without
    GPUs is one bar, from when the first began until the last ended: the database makes one row of a gang, however many
    they are."""
    number, ended = Count("id"), Max("ended")
    rows = _within(window, node, vc).order_by().values("job_id", "attempt", "role", "node", "gpu_ids", "guest")
    grouped = rows.annotate(
        *(how(name) for name, how in _OF_A_BAR.items()),
        first=Min("id"),
        more=number - 1,
        over=Case(When(GreaterThanOrEqual(Count("ended"), number), then=ended), output_field=BigIntegerField()),
    )
    names = [f"{name}__{_OF_A_BAR[name].__name__.lower()}" if name in _OF_A_BAR else name for name in _COLUMNS]
    names[names.index("id")], names[names.index("ended")] = "first", "over"
    rows_ = grouped.order_by("-first").values_list(*names, "more")[:MOST]
    return [_as_read(HoldingBar(*values), viewer) for values in rows_]


def _as_read(bar: HoldingBar, viewer: Viewer) -> HoldingBar:
    role = role_as_read(viewer, bar.username, bar.role)
    return bar if role == bar.role else replace(bar, role=role)


def rows(held: Sequence[HoldingBar], node: str = "") -> list[TimelineNode]:
    """The nodes that are registered, and those on which something was held, by name; with ``node`` that one alone."""
    nodes = Node.objects.filter(name=node) if node else Node.objects.all()
    known: dict[str, TimelineNode] = {}
    for name, gpus, status, health in nodes.values_list("name", "gpus", "status", "health"):
        shown = status if health == Node.Health.READY else "unreachable"
        known[name] = TimelineNode(name, tuple(types_of(gpus).items()), shown)
    missing: dict[str, dict[str, str]] = {}
    for span in held:
        if span.node not in known:
            missing.setdefault(span.node, {}).update(dict.fromkeys(span.gpus, span.gpu_type))
    known |= {name: TimelineNode(name, tuple(sorted(gpus.items())), "removed") for name, gpus in missing.items()}
    return sorted(known.values(), key=lambda row: row.name)


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a span began and ended: the reasons of the Events, empty where they are gone or not for the viewer."""

    span: HoldingBar
    began: str = ""
    ended: str = ""
    after: str = ""
    job_exists: bool = False


def reasons_of(id: int, viewer: Viewer) -> Reasons | None:
    """Return why one task began and ended; None when it never held anything that is remembered."""
    values = Holding.objects.filter(id=id).values_list(*_COLUMNS).first()
    if values is None:
        return None
    span = _as_read(HoldingBar(*values), viewer)
    job = Job.objects.filter(id=span.job_id, deleted_at__isnull=True).exists()
    if not job or not may_read_details(viewer, span.username):
        return Reasons(span, job_exists=job)
    kinds = ("job.placed", "attempt.decided", "job.evicted", "job.retry", "job.ended")
    events = Event.objects.filter(job=span.job_id, attempt=span.attempt, kind__in=kinds).order_by("id")
    reasons = {event.kind: event.reason for event in as_read(events, viewer)}
    ended = reasons.get("job.evicted") or reasons.get("attempt.decided", "")
    after = reasons.get("job.retry") or ""
    return Reasons(span, reasons.get("job.placed", ""), ended, after, job)


def _within(window: TimeWindow, node: str, vc: str) -> QuerySet[Holding]:
    rows = Holding.objects.filter(Q(ended__gt=window.begin) | Q(ended=None), began__lt=window.until)
    rows = rows.filter(node=node) if node else rows
    return rows.filter(vc=vc) if vc else rows
