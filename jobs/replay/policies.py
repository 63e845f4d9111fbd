"""Who starts next: Longshore's own turns, and what everybody knows beside them. Pure.

A policy places jobs on FreeNodes as the planner does; what differs is the order, and who may pass whom.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from clusters.placement.fit import Demand, Placement
from clusters.placement.free import FreeNodes
from jobs.planning.queue.idling.after import idled_after
from jobs.planning.queue.idling.rule import Idlings
from jobs.planning.queue.lengths import Lengths, LikeJobs
from jobs.planning.queue.scene import Scene
from jobs.planning.turns import Move, turns
from jobs.replay.day import Chosen, PlacedRun, ReplayCluster, ReplayPolicy, Run, RunStart

LEARNT, LEARN_EVERY = 5_000, 600.0  # ended runs; seconds
_WHAT = ("cpus", "memory_mb", "gpus")
_Amounts = Counter[tuple[str, str]]  # by node and _WHAT; one less another has nothing below nothing


class Fifo(ReplayPolicy):
    """Nothing starts before a job that was submitted earlier."""

    name = "plain FIFO"

    def decide(self, cluster: ReplayCluster) -> Chosen:
        return _in_turn(cluster)[0], {}


def _in_turn(cluster: ReplayCluster) -> tuple[list[RunStart], FreeNodes, list[Run]]:
    """The first ones of the queue up to one that does not fit, what these leave of the nodes, and the rest of it."""
    queue, starts, free = cluster.in_order(), list[RunStart](), cluster.free()
    for at, run in enumerate(queue):
        placements = free.place(run.demands, run.id, vc=run.vc)
        if placements is None:
            return starts, free, queue[at:]
        starts.append(RunStart(run, placements))
    return starts, free, []


class Backfill(ReplayPolicy):
    """Whatever fits starts, in order of submission."""

    name = "FIFO with backfill"

    def decide(self, cluster: ReplayCluster) -> Chosen:
        shelf = ShrinkingCapacity(cluster.free())
        return [start for run in cluster.in_order() if (start := shelf.start(run)) is not None], {}


class ShrinkingCapacity:
    """Free nodes that only become fewer: what found no place in it is not tried again."""

    def __init__(self, free: FreeNodes) -> None:
        self.free = free
        self._none: set[tuple[int, str]] = set()  # runs of one shape share the object, which the cluster keeps

    def start(self, run: Run) -> RunStart | None:
        key = id(run.demands), run.vc
        if key in self._none:
            return None
        placements = self.free.place(run.demands, run.id, vc=run.vc)
        if placements is None:
            self._none.add(key)
            return None
        return RunStart(run, placements)


class Easy(ReplayPolicy):
    """EASY backfill with foresight: it knows when every run ends. The first job that does not fit has the moment
    reserved at which it will; others start when that moment stays as it is: those that end before it anywhere, those
    that run longer only on room that the first one will not need."""

    name = "EASY backfill, knowing all ends"

    def decide(self, cluster: ReplayCluster) -> Chosen:
        starts, free, queue = _in_turn(cluster)
        return [*starts, *(_behind(cluster, starts, free, queue) if queue else ())], {}


def _behind(
    cluster: ReplayCluster, starts: Sequence[RunStart], free: FreeNodes, queue: Sequence[Run]
) -> list[RunStart]:
    """What starts behind the first of the queue, which does not fit beside the ``starts``; ``free`` is what those leave
    of the nodes."""
    head, *others = queue
    fit = _first_fit(cluster, starts, free.copy(), head)
    short = ShrinkingCapacity(free)
    if fit is None:  # even idle nodes do not hold it: it keeps nobody waiting
        return [start for run in others if (start := short.start(run)) is not None]
    moment, reserved = fit
    beside = free.copy()
    _set_aside(beside, reserved)
    long, used, behind = ShrinkingCapacity(beside), _Amounts(), list[RunStart]()
    for run in others:
        is_short = cluster.now + run.seconds <= moment
        start = short.start(run) if is_short else long.start(run)
        if start is None:
            continue
        if is_short:  # until that moment it may use what is reserved: beside it goes only what it takes beyond that
            size = _amounts(run, start.placements)
            after = used + size
            _set_aside(beside, (after - reserved) - (used - reserved))
            used = after
        else:
            free.set_aside(run.demands, [place.node for place in start.placements])
        # Which GPUs is open: `free` and `beside` do not agree on that.
        behind.append(RunStart(run, [replace(place, gpu_ids=()) for place in start.placements]))
    return behind


def _first_fit(
    cluster: ReplayCluster, starts: Sequence[RunStart], free: FreeNodes, head: Run
) -> tuple[float, _Amounts] | None:
    """When the head fits if nothing else starts, and what of the room that is free now must be reserved for it."""
    ends = [(one.ends, one.run, one.placements) for one in cluster.running.values()]
    ends += [(cluster.now + start.run.seconds, start.run, start.placements) for start in starts]
    back = _Amounts()
    gpus = sum(len(node.gpus) - len(node.used_gpus) for node in cluster.nodes) - sum(one.run.gpus for one in starts)
    for at, run, placements in sorted(ends, key=lambda end: (end[0], end[1].id)):
        free.give_back(run.demands, placements)
        back.update(_amounts(run, placements))
        gpus += run.gpus  # a quick look before a real one
        if gpus >= head.gpus and (fit := free.place(head.demands, head.id, vc=head.vc)) is not None:
            return at, _amounts(head, fit) - back
    return None


def _amounts(run: Run, placements: Sequence[Placement]) -> _Amounts:
    """What a run takes of each node."""
    amounts = _Amounts()
    for demand, place in zip(run.demands, placements, strict=True):
        amounts.update({(place.node, what): getattr(demand, what) for what in _WHAT})
    return amounts


def _set_aside(free: FreeNodes, amounts: _Amounts) -> None:
    for node in dict.fromkeys(node for node, _ in amounts):
        cpus, memory_mb, gpus = (amounts[node, what] for what in _WHAT)
        free.set_aside([Demand("", "", 0, cpus, memory_mb, gpus, "")], [node])


class Longshore(ReplayPolicy):
    """The very turns that the planner executes."""

    name = "Longshore"

    def __init__(self, before: Sequence[tuple[LikeJobs, float]] = ()) -> None:
        """``before``: how long jobs ran that ended before the day, the newest first."""
        self._ended: deque[tuple[LikeJobs, float]] = deque(before, maxlen=LEARNT)  # the newest first
        self._lengths, self._learn_at = Lengths(self._ended), LEARN_EVERY
        self.idlings: Idlings = {}

    def decide(self, cluster: ReplayCluster) -> Chosen:
        if cluster.now >= self._learn_at:
            self._lengths, self._learn_at = Lengths(self._ended), cluster.now + LEARN_EVERY
        starts, evicted = list[RunStart](), dict[int, int]()
        waiting, scene = list(cluster.waiting.values()), self.scene(cluster)
        taken = list(turns(waiting, scene, only_tried=True))
        self.idlings = idled_after(waiting, taken, scene)
        for turn in taken:
            if turn.error is not None:
                raise turn.error
            evicted |= {runner.job.id: turn.job.id for runner in turn.victims}
            if turn.keeps:
                cluster.waiting[turn.job.id] = replace(turn.job, keeps_turn=True)
            if turn.move is Move.GO:
                starts.append(RunStart(turn.job, turn.placements, turn.is_guest))
        return starts, evicted

    def scene(self, cluster: ReplayCluster) -> Scene[Run]:
        return Scene(
            nodes=cluster.nodes,
            now=cluster.at(cluster.now),
            quotas=cluster.quotas,
            use=cluster.use,
            rests=cluster.rests,
            past=lambda: cluster.past,
            idlings=self.idlings,
            running=lambda: [placed.runner for placed in cluster.running.values()],
            holds=lambda: [hold for placed in cluster.running.values() for hold in placed.runner.holds],
            lengths=lambda: self._lengths,
            named=cluster.named,
        )

    def ended(self, placed: PlacedRun) -> None:
        run = placed.run
        gpus = run.demands[0].gpus if run.demands else 0
        self._ended.appendleft((LikeJobs(run.username, run.name, gpus, run.vc), run.seconds))
