"""Sums a day up, whether it was played or really happened: how much was used, who waited how long, how fair it was.
Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from clusters.placement.shares import Quota
from jobs.replay.day import EndedRun, Run

CLASSES: Mapping[str, tuple[float, float]] = {
    "no GPU": (0, 0),
    "1 GPU": (1, 1),
    "2-8 GPUs": (2, 8),
    "9-64 GPUs": (9, 64),
    "more GPUs": (65, inf),
}
COLUMNS = 96  # of the use over the day


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the runs of one class of sizes waited, in seconds until the last start. ``number`` counts all, also
    those that have not started: they waited until the end at least."""

    number: int
    mean: float
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class DayOutcome:
    """``waits`` are by size (``no GPU``, ``1 GPU``, ``2-8 GPUs``, ``9-64 GPUs``, ``more GPUs``). ``fairness`` is Jain's
    index over the virtual clusters of the GPU-time each got beside what it was entitled to, the smaller of its demand
    and its guarantee; 1 is fair, null: nobody was entitled to anything. ``got`` has that part of each. On a cluster
    without GPUs cores stand for them. ``lost`` are hours of evicted runs, ``used`` the part in use, in 96 columns."""

    utilisation: float
    waits: Mapping[str, Waits]
    fairness: float | None
    got: Mapping[str, float]
    evictions: int
    lost: float
    not_started: int
    used: Sequence[float]


@dataclass(frozen=True, slots=True)
class Numbers:
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """``before`` is what really happened, ``after`` what would have. ``by`` says what was counted, gpu or cpu, of
    which there are ``whole``. ``until``: how far it was played, in milliseconds; ``took``: seconds."""

    by: str
    jobs: int
    until: int
    took: float
    nodes: Numbers
    whole: Numbers
    before: DayOutcome
    after: DayOutcome
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a day is measured by: its length in seconds, the GPUs (or cores, ``by`` says which), and the quotas."""

    seconds: float
    whole: float
    by: str  # gpu | cpu
    quotas: Mapping[str, Quota]

    def size(self, run: Run) -> int:
        return run.gpus if self.by == "gpu" else run.cpus


def sum_up(runs: Iterable[Run], spans: Iterable[EndedRun], setting: Setting, until: float = inf) -> DayOutcome:
    """Sum up all runs that waited or ran in the day, and of what they held. A wait counts until the last start, or
    where there is none up to ``until``; those that ran when the day began did not wait."""
    by_id = {run.id: run for run in runs}
    spans = [span for span in spans if span.id in by_id]
    starts: dict[int, float] = {}
    for span in spans:
        if not _is_evicted(span, setting):
            starts[span.id] = max(span.began, starts.get(span.id, -inf))
    waited = [run for run in by_id.values() if run.submitted < until and starts.get(run.id, inf) >= 0]
    late = [run for run in waited if starts.get(run.id, inf) >= until]
    ends = {run.id: min(starts.get(run.id, inf), until) for run in waited}
    waits = {id: max(0.0, end - by_id[id].submitted) for id, end in ends.items() if end < inf}
    evicted = [span for span in spans if _is_evicted(span, setting)]
    got = _got(by_id, spans, setting)
    used = sum(setting.size(by_id[span.id]) * _within(span, 0, setting.seconds) for span in spans)
    return DayOutcome(
        utilisation=used / max(1.0, setting.whole * setting.seconds),
        waits=_by_class(by_id, waits),
        fairness=_jain(list(got.values())),
        got=got,
        evictions=len(evicted),
        lost=sum(setting.size(by_id[span.id]) * (span.ended - span.began) for span in evicted) / 3600,
        not_started=len(late),
        used=_columns(by_id, spans, setting),
    )


def _is_evicted(span: EndedRun, setting: Setting) -> bool:
    return span.is_evicted and 0 <= span.ended <= setting.seconds


def _within(span: EndedRun, first: float, last: float) -> float:
    return max(0.0, min(span.ended, last) - max(span.began, first))


def _by_class(runs: Mapping[int, Run], waits: Mapping[int, float]) -> dict[str, Waits]:
    by_class: dict[str, list[float]] = {name: [] for name in CLASSES}
    for id, wait in waits.items():
        gpus = runs[id].gpus
        by_class[next(name for name, (least, most) in CLASSES.items() if least <= gpus <= most)].append(wait)
    waited = {name: sorted(each) for name, each in by_class.items() if each}
    return {
        name: Waits(len(each), sum(each) / len(each), _rank(each, 0.5), _rank(each, 0.95))
        for name, each in waited.items()
    }


def _rank(waits: Sequence[float], part: float) -> float:
    """The nearest rank: at least this part of them is no longer."""
    return waits[max(0, ceil(part * len(waits)) - 1)]


def _got(runs: Mapping[int, Run], spans: Iterable[EndedRun], setting: Setting) -> dict[str, float]:
    """What each virtual cluster got of what it was entitled to, 1 at most."""
    wanted: Counter[str] = Counter()
    for run in runs.values():
        time = min(run.seconds, setting.seconds - max(0.0, run.submitted))
        wanted[run.vc] += round(setting.size(run) * max(0.0, time))
    served: defaultdict[str, float] = defaultdict(float)
    for span in spans:
        served[runs[span.id].vc] += setting.size(runs[span.id]) * _within(span, 0, setting.seconds)
    parts = {}
    for vc, demand in sorted(wanted.items()):
        guarantee = setting.quotas[vc].guarantee.get(setting.by, 0.0) if vc in setting.quotas else 0.0
        due = min(float(demand), guarantee * setting.seconds)
        if due > 0:
            parts[vc] = min(1.0, served[vc] / due)
    return parts


def _jain(parts: Sequence[float]) -> float | None:
    squares = sum(part * part for part in parts)
    return sum(parts) ** 2 / (len(parts) * squares) if squares else None


def _columns(runs: Mapping[int, Run], spans: Iterable[EndedRun], setting: Setting) -> list[float]:
    wide = setting.seconds / COLUMNS
    used = [0.0] * COLUMNS
    for span in spans:
        size = setting.size(runs[span.id])
        first, last = max(0, int(span.began / wide)), min(COLUMNS - 1, int(span.ended / wide))
        for at in range(first, last + 1) if size else ():
            used[at] += size * _within(span, at * wide, (at + 1) * wide)
    return [each / max(1.0, setting.whole * wide) for each in used]
