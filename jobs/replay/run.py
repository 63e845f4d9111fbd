"""Plays past days again as admins ask for it, sums them up beside what really happened, and keeps that as rows.

An admin asks, a worker plays: in a thread of its own that leaves room for its orders, one day after the other. How far
it is stands in the row of Replay, so that any process can show it. A worker that dies leaves a row whose beat is old,
and the next worker that is asked begins it anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta

import structlog
from django.db.models import Q
from django.utils import timezone
from django_q.tasks import async_task

from base.accounts.viewer import Viewer, require, require_admin
from base.core import words
from base.core.errors import BadRequest, LongshoreError, NotFound
from base.core.threads import run_beside
from base.core.values import local_time, milliseconds
from base.roles import Permission
from base.wakes import wake
from clusters.placement.fit import OWN_LABEL, NodeView
from clusters.placement.shares import Quota, Right, pool_totals, quotas
from clusters.vcs.queries import load_rights
from jobs.history.lengths import ended
from jobs.history.window import TimeWindow, read_window
from jobs.models import Replay
from jobs.planning.queue.scene import Scene
from jobs.replay.day import Day, ReplayCluster, ReplayPolicy, Run, RunStart
from jobs.replay.outcome import Numbers, ReplayResult, Setting, sum_up
from jobs.replay.past import Past, read_past, registered, rows_of
from jobs.replay.policies import Backfill, Easy, Fifo, Longshore
from jobs.what_if.asked import JobBecomes, read_all
from jobs.what_if.changed import Situation, apply_changes

POLICIES: Mapping[str, type[ReplayPolicy]] = {"longshore": Longshore, "fifo": Fifo, "backfill": Backfill, "easy": Easy}
LONGEST = timedelta(days=7)
MOST_TIMES = 10.0
MOST_TASKS = 50_000  # of a day that is played
MOST_NODES = 5_000
_STEP, _LOOK = 5.0, 60.0  # seconds of the day between two looks at the queue


@dataclass(frozen=True, slots=True)
class AskedReplay:
    """``nodes``: how many times as many there are. ``changes`` are texts of what-if, of virtual clusters and nodes."""

    window: TimeWindow
    policy: str
    nodes: float = 1.0
    changes: tuple[str, ...] = ()


def read_asked(
    begin: str = "", end: str = "", policy: str = "longshore", nodes: float = 1.0, changes: Sequence[str] = ()
) -> AskedReplay:
    """Read what is asked for. Without ``begin`` it is the day before ``end``, without that the last one. Raises
    BadRequest with a sentence."""
    span = read_window(begin, end, timezone.localtime(), span=timedelta(days=1), longest=LONGEST)
    span = replace(span, end=min(span.end, span.now))
    if span.begin >= span.end:
        raise BadRequest("This day has not begun: only what happened can be played again.")
    if policy not in POLICIES:
        raise BadRequest(f"policy must be one of {', '.join(POLICIES)}.")
    if not 0 < nodes <= MOST_TIMES:
        raise BadRequest(f"nodes must be a number above 0 and up to {MOST_TIMES:g}: how many times as many there are.")
    if any(isinstance(each, JobBecomes) for each in read_all(changes)):
        raise BadRequest("Only changes of virtual clusters and nodes can be played, none of jobs.")
    return AskedReplay(span, policy, nodes, tuple(changes))


def require_possible(asked: AskedReplay) -> None:
    """Raises BadRequest where the window is too full, or a change cannot be."""
    rows = rows_of(asked.window).order_by()[: MOST_TASKS + 1].count()
    if rows > MOST_TASKS:
        raise BadRequest(f"More than {MOST_TASKS:,} tasks ran in this window; ask for a shorter one.")
    _changed(_sized(registered(), asked.nodes), asked)


def play(asked: AskedReplay, is_over: Callable[[float], bool] = lambda part: False) -> ReplayResult:
    """What really happened and what would have. ``is_over`` is told how far it is, and may end it. Raises BadRequest
    where a change cannot be."""
    began = time.monotonic()
    past = read_past(asked.window)
    nodes, then = _changed(_sized(past.nodes, asked.nodes), asked)
    there = ReplayCluster.of(nodes, then, local_time(asked.window.begin, asked.window.zone))
    runs = _set_up(there, past)
    policy = Longshore(ended(asked.window.begin)) if asked.policy == "longshore" else POLICIES[asked.policy]()
    day = Day(runs, there, policy, step=_STEP, look=_LOOK)
    played = day.play(past.seconds, lambda now: is_over(now / past.seconds))
    now = quotas(_rights(), *pool_totals(past.nodes))
    by = "gpu" if any(node.gpus for node in past.nodes) else "cpu"
    until = max(1.0, played.until)
    before, later = Setting(until, _whole(past.nodes, by), by, now), Setting(until, _whole(nodes, by), by, then)
    everybody = {run.id: run for run in (*past.runs, *(start.run for start, _, _ in past.running))}
    return ReplayResult(
        by,
        len(everybody),
        asked.window.begin + round(1000 * until),
        round(time.monotonic() - began, 3),
        Numbers(len(past.nodes), len(nodes)),
        Numbers(before.whole, later.whole),
        sum_up(everybody.values(), past.stays, before, until),
        sum_up((everybody | {run.id: run for run in runs}).values(), played.stays, later, until),
        _notes(asked, past, until),
    )


def _sized(nodes: Sequence[NodeView], times: float) -> list[NodeView]:
    """The first of them, or copies beside them."""
    number = max(1, round(len(nodes) * times)) if nodes else 0
    if number > MOST_NODES:
        raise BadRequest(f"A replay has {MOST_NODES:,} nodes at most.")
    return [_copy(nodes[at % len(nodes)], at // len(nodes)) for at in range(number)]


def _copy(node: NodeView, number: int) -> NodeView:
    if not number:
        return node
    name = f"{node.name}+{number}"
    return replace(node, name=name, labels=node.labels - {(OWN_LABEL, node.name)} | {(OWN_LABEL, name)})


def _changed(nodes: Sequence[NodeView], asked: AskedReplay) -> tuple[list[NodeView], Mapping[str, Quota]]:
    """The nodes and quotas after the changes. Raises BadRequest."""
    rights = _rights()
    scene: Scene[Run] = Scene(nodes, timezone.now(), quotas=quotas(rights, *pool_totals(nodes)))
    changed = apply_changes(Situation([], scene, rights), read_all(asked.changes))
    return list(changed.scene.nodes), changed.scene.quotas


def _rights() -> dict[str, Right]:
    """Return the rights as they are, but of virtual clusters that are stopped today as if they ran."""
    return {name: replace(right, stopped=False) for name, right in load_rights().items()}


def _set_up(there: ReplayCluster, past: Past) -> list[Run]:
    """Put what ran already where it ran; what has no room there any more waits. Returns all that comes."""
    runs = list(past.runs)
    for start, began, ends in past.running:
        there.now = began
        anywhere = RunStart(start.run, [replace(place, gpu_ids=()) for place in start.placements])
        if there.start(start, ends) is None and there.start(anywhere, ends) is None:
            runs.append(replace(start.run, submitted=0.0, seconds=max(1.0, ends)))
    there.now = 0.0
    return runs


def _whole(nodes: Sequence[NodeView], by: str) -> float:
    return float(sum(len(node.gpus) if by == "gpu" else node.cpus for node in nodes))


def _notes(asked: AskedReplay, past: Past, until: float) -> list[str]:
    notes = []
    if until < past.seconds:
        at = local_time(asked.window.begin + round(1000 * until), asked.window.zone)
        notes.append(f"It took too long and was ended: the day was played until {at:%H:%M}.")
    if past.gone:
        what = words.count(len(past.gone), "node is", "nodes are")
        notes.append(f"{what} not registered any more ({words.listing(past.gone)}); what was held of them is there.")
    return notes


LIMIT = 300.0  # seconds that a replay may take; what was played until then counts
KEPT = 50  # replays, the newest
STALE = 60_000  # milliseconds without a beat after which a replay counts as left
_BREATH = 0.001  # seconds left to other threads of the worker after each step
_BEAT = 1.0

log = structlog.get_logger()
_busy = threading.Lock()


def ask(admin: Viewer, asked: AskedReplay) -> Replay:
    """Let a worker play it. Raises Forbidden for others than admins, and BadRequest where the window is too full or a
    change cannot be."""
    user = require_admin(admin)
    require_possible(asked)
    row = Replay.objects.create(
        username=user.username,
        made=milliseconds(timezone.now()),
        asked={
            "from": asked.window.begin,
            "to": asked.window.end,
            "policy": asked.policy,
            "nodes": asked.nodes,
            "changes": list(asked.changes),
        },
    )
    newest = Replay.objects.order_by("-id").values_list("id", flat=True)[:KEPT]
    Replay.objects.exclude(id__in=list(newest)).delete()
    async_task("jobs.replay.run.in_worker")
    return row


def find(admin: Viewer, id: int) -> Replay:
    """Raises Forbidden, NotFound."""
    require(admin, Permission.READ_ALL)
    row = Replay.objects.filter(id=id).first()
    if row is None:
        raise NotFound("There is no such replay; the newest ones are kept.")
    return row


def newest(admin: Viewer) -> list[Replay]:
    require(admin, Permission.READ_ALL)
    return list(Replay.objects.defer("result").order_by("-id")[:KEPT])


def in_worker() -> None:
    """Called by django-q; it plays in a thread and returns at once."""
    run_beside("replay", _play_all, alone=_busy)  # whoever plays looks for the next one afterwards


def play_next() -> bool:
    """Play the oldest replay that nobody plays; False when there is none."""
    now = milliseconds(timezone.now())
    left = Q(beat=None) | Q(beat__lt=now - STALE)
    waiting = Replay.objects.filter(left, result__isnull=True, error="").order_by("id")
    row = waiting.first()
    if row is None:
        return False
    if Replay.objects.filter(left, id=row.pk, result__isnull=True, error="").update(beat=now):
        _play_row(row)
    return True


def _play_all() -> None:
    while play_next():
        pass


def _play_row(row: Replay) -> None:
    try:
        result = asdict(play(_asked_of(row), _Beat(row)))
        Replay.objects.filter(id=row.pk).update(result=result, progress=100)
    except LongshoreError as error:
        Replay.objects.filter(id=row.pk).update(error=error.message)
    except Exception:
        log.exception("a day could not be played again", replay=row.pk)
        Replay.objects.filter(id=row.pk).update(error="Something went wrong here; the log of the workers says what.")
    wake.notify("pages")


def _asked_of(row: Replay) -> AskedReplay:
    data = row.asked
    span = TimeWindow(data["from"], data["to"], milliseconds(timezone.now()), timezone.get_current_timezone())
    return AskedReplay(span, data["policy"], data["nodes"], tuple(data["changes"]))


class _Beat:
    """Writes the progress once a second, and ends what takes too long."""

    def __init__(self, row: Replay) -> None:
        self._row, self._written = row, 0.0
        self._end = time.monotonic() + LIMIT

    def __call__(self, part: float) -> bool:
        time.sleep(_BREATH)
        now = time.monotonic()
        if now - self._written >= _BEAT:
            self._written = now
            values = {"progress": min(99, int(100 * part)), "beat": milliseconds(timezone.now())}
            Replay.objects.filter(id=self._row.pk).update(**values)
            wake.notify("pages")
        return now > self._end
