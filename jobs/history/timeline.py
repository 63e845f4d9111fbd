"""Reads what was held in a window: by which job, on which node and GPUs, and by which decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from clusters.models import Node
from jobs.access import may_read_story
from jobs.history.window import Window
from jobs.models import Event, Holding, Job
from portal.accounts.viewer import Viewer

MOST = 100_000  # rows that one page draws


@dataclass(frozen=True, slots=True)
class Span:
    """A row of Holding, cut to nothing. ``gpus`` are ids."""

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

    @property
    def job(self) -> str:
        return f"{self.username}/{self.job_name}"

    @property
    def task(self) -> str:
        return f"{self.role}-{self.index}"

    @property
    def gpus(self) -> Sequence[str]:
        return self.gpu_ids.split(",") if self.gpu_ids else ()


@dataclass(frozen=True, slots=True)
class Row:
    """A node of the timeline; one that is gone has no GPUs but those that were held."""

    name: str
    gpus: tuple[tuple[str, str], ...]  # (id, type)
    status: str


def spans(window: Window, *, node: str = "", vc: str = "", after: int = 0, most: int = MOST) -> list[Span]:
    """What was held in the window by tasks with a greater id than ``after``, in the order of their ids."""
    rows = _within(window).filter(id__gt=after).order_by("id")
    if node:
        rows = rows.filter(node=node)
    if vc:
        rows = rows.filter(vc=vc)
    return [Span(*values) for values in rows.values_list(*Span.__slots__)[:most]]


def rows(held: Sequence[Span], node: str = "") -> list[Row]:
    """The nodes that are registered, and those on which something was held, by name; with ``node`` that one alone."""
    nodes = Node.objects.filter(name=node) if node else Node.objects.all()
    found = {
        name: Row(name, tuple((str(gpu["id"]), str(gpu.get("type") or "")) for gpu in gpus), _state(status, health))
        for name, gpus, status, health in nodes.values_list("name", "gpus", "status", "health")
    }
    missing: dict[str, dict[str, str]] = {}
    for span in held:
        if span.node not in found:
            missing.setdefault(span.node, {}).update(dict.fromkeys(span.gpus, span.gpu_type))
    found |= {name: Row(name, tuple(sorted(gpus.items())), "removed") for name, gpus in missing.items()}
    return sorted(found.values(), key=lambda row: row.name)


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a span began and ended: the reasons of the Events, empty where they are gone or not for the viewer."""

    span: Span
    began: str = ""
    ended: str = ""
    after: str = ""
    job_exists: bool = False


def decision(id: int, viewer: Viewer) -> Decision | None:
    """Of one task; None when it never held anything that is remembered."""
    values = Holding.objects.filter(id=id).values_list(*Span.__slots__).first()
    if values is None:
        return None
    span = Span(*values)
    job = Job.objects.filter(id=span.job_id, deleted_at__isnull=True).exists()
    if not job or not may_read_story(viewer, span.username):
        return Decision(span, job_exists=job)
    kinds = ("job.placed", "attempt.decided", "job.evicted", "job.retry", "job.ended")
    events = Event.objects.filter(job=span.job_id, attempt=span.attempt, kind__in=kinds).order_by("id")
    reasons = dict(events.values_list("kind", "reason"))
    ended = reasons.get("job.evicted") or reasons.get("attempt.decided", "")
    after = reasons.get("job.retry") or ""
    return Decision(span, reasons.get("job.placed", ""), ended, after, job)


def _within(window: Window) -> QuerySet[Holding]:
    return Holding.objects.filter(Q(ended__gt=window.begin) | Q(ended=None), began__lt=window.until)


def _state(status: str, health: str) -> str:
    return "unreachable" if health != Node.Health.READY else status
