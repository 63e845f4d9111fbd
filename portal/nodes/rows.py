"""What pages of nodes show: nodes, which GPUs of them are the viewer's, sums of all, and the reservations on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django.db.models import Case, CharField, Count, F, Max, Q, QuerySet, Value, When
from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from clusters.models import Allocation, Node
from clusters.nodes.queries import load_nodes, views_of
from clusters.placement.fit import NodeView, gpus_out, gpus_to_give
from clusters.placement.topology import path_of
from jobs import access
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.planning.queue import sentences
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.reservations import Reservation
from jobs.waiting.queue import WaitingJob, lapses, reservations
from jobs.waiting.words import briefly, current
from portal.shared.jobs.rows import job_url

Own = Mapping[str, Collection[str]]  # the GPUs of whoever looks, by node
NOBODY: Own = {}
_MARKED = {
    "gpus": "hands out no GPUs",
    "gpu": "does not hand out GPU {}",
    "pull": "pulls nothing from {}",
    "start": "starts nothing",
    "portal": "does not reach the portal",
}


@dataclass(frozen=True, slots=True)
class ShownNode:
    """``squares``: a word for each GPU, see ``_squares`` below."""

    view: NodeView
    state: str  # active, cordoned, draining, unreachable
    reason: str
    gpu_types: str
    docker_version: str
    last_seen_at: datetime | None
    squares: tuple[str, ...]

    @property
    def is_of_cluster(self) -> bool:
        return "/" in self.view.name

    @property
    def topology(self) -> str:
        return "/".join(path_of(self.view.labels))

    @property
    def free_gpus(self) -> int:
        return self.squares.count("free")

    @property
    def out_gpus(self) -> int:
        return self.squares.count("out")

    @property
    def url(self) -> str:
        return f"/nodes/{quote(self.view.name)}"

    @property
    def says(self) -> str:
        out = f", {self.out_gpus} out of service" if self.out_gpus else ""
        return f"{self.view.name}: {self.free_gpus} of {len(self.view.gpus)} GPUs free{out}"

    @property
    def mark_words(self) -> list[str]:
        return [_MARKED[mark.kind].format(mark.what) for mark in self.view.marks]


@dataclass(frozen=True, slots=True)
class ShownReservation:
    """A reservation, or one that has lapsed. ``job`` and ``url`` are empty where the viewer may not read why that job
    waits; ``when`` is a time with its spread."""

    job: str
    url: str
    vc: str
    nodes: tuple[tuple[str, str], ...]  # name, what is kept there
    when: str = ""
    lapsed: str = ""  # until when others may use it


def reserved(viewer: Viewer, node: str = "") -> list[ShownReservation]:
    """The reservations, or those on one node; two queries beside those for the turns, one where nobody waits."""
    shown = [each for each in reservations() if not node or node in each.nodes]
    forecasts = dict(Job.objects.filter(id__in=[each.job.id for each in shown]).values_list("id", "forecast"))
    kept = [_reservation(each, forecasts.get(each.job.id), viewer, node) for each in shown]
    return kept + [_lapsed(job, each, viewer) for job, each in lapses() if not node or node in each.nodes]


def _lapsed(job: WaitingJob, lapse: Idling, viewer: Viewer) -> ShownReservation:
    nodes = tuple((name, "room") for name in lapse.nodes)
    says = sentences.of_lapse(lapse, "it", timezone.localtime())
    return ShownReservation(**_whose(job, viewer), vc=job.vc, nodes=nodes, lapsed=says)


def _whose(job: WaitingJob, viewer: Viewer) -> dict[str, str]:
    if not access.may_read_details(viewer, job.username):
        return {"job": "", "url": ""}
    return {"job": job.title, "url": job_url(job.username, job.name)}


def _reservation(
    reservation: Reservation[WaitingJob], forecast: dict[str, int] | None, viewer: Viewer, only: str
) -> ShownReservation:
    now, job = timezone.localtime(), reservation.job
    likely = current(forecast, now)
    tasks, gpus = Counter(reservation.nodes), Counter[str]()
    for demand, node in zip(reservation.demands, reservation.nodes, strict=True):
        gpus[node] += demand.gpus
    return ShownReservation(
        **_whose(job, viewer),
        vc=job.vc,
        nodes=tuple(
            (name, words.count(gpus[name], "GPU") if gpus[name] else words.count(tasks[name], "task"))
            for name in sorted(tasks)
            if only in ("", name)
        ),
        when=briefly(likely, now) if likely else "",
    )


def nodes_version() -> str:
    """Changes whenever the page may look different."""
    waiting = Job.objects.filter(state=JobState.WAITING, deleted_at=None).aggregate(n=Count("id"), last=Max("id"))
    return f"{seen_version()}.{waiting['n']}.{waiting['last']}"


def seen_version() -> str:
    """Changes whenever nodes may look different, and at least as often as they are seen again."""
    nodes = Node.objects.aggregate(n=Count("id"), changed=Max("updated_at"), seen=Max("last_seen_at"))
    taken = Allocation.objects.aggregate(n=Count("id"), last=Max("id"))
    return ".".join(str(each) for each in (*nodes.values(), *taken.values()))


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What sums over all nodes need of one."""

    view: NodeView
    state: str  # as of a ShownNode
    free_gpus: int
    out_gpus: int


def node_rooms() -> list[NodeRoom]:
    """All nodes by name. Three queries where nothing has changed since this process asked last."""
    states = dict(with_state().exclude(shown="active").values_list("name", "shown"))
    return [_room(view, states.get(view.name, "active")) for view in load_nodes()]


def with_state() -> QuerySet[Any]:
    """The nodes with their state as pages show it, ``shown``."""
    away = When(~Q(health=Node.Health.READY), then=Value("unreachable"))
    closed = When(~Q(closed=""), status=Node.Status.ACTIVE, then=Value("cordoned"))  # by its cluster
    return Node.objects.annotate(shown=Case(away, closed, default=F("status"), output_field=CharField()))


def sums(rooms: Sequence[NodeRoom]) -> dict[str, int]:
    """How many GPUs there are, are free and are out of service, and how many are free on one node at most."""
    return {
        "free_gpus": sum(room.free_gpus for room in rooms),
        "all_gpus": sum(len(room.view.gpus) for room in rooms),
        "out_gpus": sum(room.out_gpus for room in rooms),
        "largest": max((room.free_gpus for room in rooms), default=0),
    }


def lines_of(rooms: Sequence[NodeRoom], own: Own) -> list[ShownNode]:
    """Some of them as pages show them; one query."""
    nodes = {node.name: node for node in Node.objects.filter(name__in=[room.view.name for room in rooms])}
    return [_line(room.view, own, nodes[room.view.name]) for room in rooms if room.view.name in nodes]


def node_lines(own: Own = NOBODY) -> list[ShownNode]:
    """All nodes by name; three queries."""
    return _lines(list(Node.objects.select_related("dedicated_to").order_by("name")), own)


def line_of(node: Node, own: Own = NOBODY) -> ShownNode:
    """One node; two queries, for what is taken on it."""
    return _lines([node], own)[0]


def _lines(nodes: Sequence[Node], own: Own) -> list[ShownNode]:
    return [_line(view, own, node) for view, node in zip(views_of(nodes), nodes, strict=True)]


def _room(view: NodeView, state: str) -> NodeRoom:
    squares = _squares(view, state, ())
    return NodeRoom(view, state, squares.count("free"), squares.count("out"))


def _squares(view: NodeView, state: str, own: Collection[str]) -> tuple[str, ...]:
    """A word for each GPU of a node in this state: free, mine, busy, held (not offered) or out (of service). ``own``
    are the viewer's."""
    if state == "unreachable":
        return tuple("out" for _ in view.gpus)
    busy, out, free = view.used_gpus - view.quarantined[0], gpus_out(view), gpus_to_give(view)

    def word(id: str) -> str:
        if id in busy:
            return "mine" if id in own else "busy"
        return "out" if id in out else "free" if id in free else "held"

    return tuple(word(id) for id, _ in view.gpus)


def _line(view: NodeView, own: Own, node: Node) -> ShownNode:
    types = ", ".join(sorted({kind for _, kind in view.gpus} - {""}))
    state = str(node.status) if node.health == Node.Health.READY else "unreachable"
    reason = node.health_reason
    if state == "active" and not view.offered:  # its cluster lets nothing start there
        state, reason = "cordoned", view.why_not
    shown = _squares(view, state, own.get(view.name, ()))
    return ShownNode(view, state, reason, types, node.docker_version, node.last_seen_at, shown)
