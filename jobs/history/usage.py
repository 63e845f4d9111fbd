"""Adds up what was used in a window: GPU-hours, CPU-hours, jobs, how long they waited, and what was for nothing.

The database adds up. Times are whole milliseconds, so the sums are exact; of a holding only the part inside the window
counts. Who may see what is decided here: admins see everybody; other users see themselves by name, and of the virtual
clusters that they may use, what others used as one sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from django.db.models import BigIntegerField, Case, Count, F, Max, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce, Greatest, Least

from base.accounts.viewer import Viewer, reads_all
from base.core.errors import Forbidden
from clusters.users.queries import load_user
from jobs.history.window import TimeWindow
from jobs.models import Holding

BY = ("user", "vc", "state", "day")
OTHERS = ""  # the key of what is summed without names
RUNNING = "RUNNING"  # the state of what has not ended
HOUR = 3_600_000
WASTES = (Holding.Outcome.FAILED, Holding.Outcome.EVICTED, Holding.Outcome.LOST)
_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Filter:
    """What is asked about; an empty text means any."""

    window: TimeWindow
    vc: str = ""
    username: str = ""


@dataclass(slots=True)
class UsageSum:
    """Sums of one user, virtual cluster, state or day (``key``; of a day its first moment in milliseconds).

    ``jobs`` are those that held something; of a day, those placed on it. ``waits`` has, for the attempts that were
    placed in the window, how many waited how many milliseconds, rounded down by at most 2 %. ``wasted`` has
    GPU-milliseconds by outcome."""

    key: str
    gpu_time: int = 0
    cpu_time: int = 0
    jobs: int = 0
    waited: int = 0
    waits: Counter[int] = field(default_factory=Counter)
    wasted: Counter[str] = field(default_factory=Counter)

    @property
    def waited_mean(self) -> float | None:
        return self.waited / self.waits.total() if self.waits else None

    @property
    def waited_p95(self) -> int | None:
        """The nearest rank: at least 95 % of the attempts waited no longer."""
        left: int = -(-self.waits.total() * 95 // 100)
        for wait, number in sorted(self.waits.items()):
            left -= number
            if left <= 0:
                return wait
        return None

    def add(self, other: UsageSum) -> None:
        """Add all but the jobs, of which one may be in several lines."""
        self.gpu_time, self.cpu_time = self.gpu_time + other.gpu_time, self.cpu_time + other.cpu_time
        self.waited += other.waited
        self.waits.update(other.waits)
        self.wasted.update(other.wasted)


def report(which: Filter, by: str, viewer: Viewer) -> tuple[list[UsageSum], UsageSum]:
    """One line for each key that used something, most GPU-hours first (by day all days, oldest first), and the sums of
    all. Raises Forbidden when the viewer may not see that user's."""
    held = _visible(which, viewer)
    lines = _of_days(held, which.window) if by == "day" else _of_keys(held, _key(by, viewer), which.window)
    total = UsageSum("", jobs=sum(line.jobs for line in lines))
    for line in lines:
        total.add(line)
    if by not in ("user", "vc"):  # a job may have several days and states
        total.jobs = held.aggregate(jobs=Count("job_id", distinct=True))["jobs"]
    return lines, total


def daily(which: Filter, by: str, viewer: Viewer) -> dict[str, list[int]]:
    """{key: GPU-milliseconds of each day of the window}, by user, vc or state that had GPUs. Raises Forbidden."""
    held = _visible(which, viewer).filter(gpus__gt=0).annotate(key=_key(by, viewer))
    sums = _daily(held, which.window, ["key"], ["gpus"])
    return {key: values["gpus"] for (key,), values in sums.items()}


def last_use(viewer: Viewer) -> int | None:
    """When anything last ended that the viewer may see, in milliseconds."""
    latest: int | None = _of_viewer("", viewer).aggregate(latest=Max("ended"))["latest"]
    return latest


# --- which rows ------------------------------------------------------------------------------------------------------


def _visible(which: Filter, viewer: Viewer) -> QuerySet[Holding]:
    """The rows in the window that the viewer may see, with ``held``, the milliseconds in it."""
    rows = _within(_of_viewer(which.username, viewer), which.window)
    if which.vc:
        rows = rows.filter(vc=which.vc)
    if which.username:
        rows = rows.filter(username=which.username)
    return rows


def _of_viewer(username: str, viewer: Viewer) -> QuerySet[Holding]:
    """All rows that the viewer may see. ``username`` is whom they ask about. Raises Forbidden."""
    if reads_all(viewer):
        return Holding.objects.all()
    if username not in ("", viewer.username):
        raise Forbidden("What another user used is for that user, for auditors and for admins.")
    user = load_user(viewer.username)
    return Holding.objects.filter(Q(username=viewer.username) | Q(vc__in=user.vcs if user is not None else ()))


def _within(rows: QuerySet[Holding], window: TimeWindow) -> QuerySet[Holding]:
    begin, until = Value(window.begin), Value(window.until)
    return rows.filter(Q(ended__gt=window.begin) | Q(ended=None), began__lt=window.until).annotate(
        first=Greatest(F("began"), begin, output_field=BigIntegerField()),
        last=Least(Coalesce(F("ended"), until), until, output_field=BigIntegerField()),
    )


def _key(by: str, viewer: Viewer) -> Any:
    if by == "vc":
        return F("vc")
    if by == "state":
        return Case(When(ended=None, then=Value(RUNNING)), default=F("outcome"))
    return (
        F("username")
        if reads_all(viewer)
        else Case(When(username=viewer.username, then=F("username")), default=Value(OTHERS))
    )


# --- sums by key -----------------------------------------------------------------------------------------------------


def _of_keys(held: QuerySet[Holding], key: Any, window: TimeWindow) -> list[UsageSum]:
    time = F("last") - F("first")
    sums = {"gpu": Sum(time * F("gpus")), "cpu": Sum(time * F("cpus"))}
    lines: dict[str, UsageSum] = {}
    for name, outcome, wait, number, waited, gpu, cpu in _by_wait(held.annotate(key=key), window, sums):
        line = lines.setdefault(name, UsageSum(name))
        line.gpu_time, line.cpu_time = line.gpu_time + int(gpu), line.cpu_time + int(cpu)
        if outcome in WASTES:
            line.wasted[outcome] += int(gpu)
        _add_waits(line, wait, number, waited)
    for name, jobs in held.order_by().annotate(key=key).values_list("key").annotate(Count("job_id", distinct=True)):
        lines[name].jobs = jobs
    return sorted(lines.values(), key=lambda line: (-line.gpu_time, -line.cpu_time, line.key))


def _by_wait(held: QuerySet[Any], window: TimeWindow, sums: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(key, outcome, wait rounded down, number, sum of the waits, *sums), by the first three. The wait is None of what
    is no first task of an attempt, or was placed before the window."""
    steps = [When(waited__lt=6400 << at, then=F("waited") / (50 << at) * (50 << at)) for at in range(26)]
    # First what most rows are, of which the database then compares nothing else.
    steps.insert(0, When(Q(waited=None) | Q(began__lt=window.begin), then=None))
    grouped = held.order_by().annotate(wait=Case(*steps, output_field=BigIntegerField()))
    return list(grouped.values_list("key", "outcome", "wait").annotate(Count("id"), Sum("waited"), **sums))


def _add_waits(line: UsageSum, wait: int | None, number: int, waited: int | None) -> None:
    if wait is not None:
        line.waits[wait] += number
        line.waited += int(waited or 0)


# --- sums by day -----------------------------------------------------------------------------------------------------


def _of_days(held: QuerySet[Holding], window: TimeWindow) -> list[UsageSum]:
    lines, first = [UsageSum(str(edge)) for edge in window.days()[:-1]], _first_day(window)
    for (outcome,), values in _daily(held, window, ["outcome"], ["gpus", "cpus"]).items():
        for at, line in enumerate(lines):
            line.gpu_time, line.cpu_time = line.gpu_time + values["gpus"][at], line.cpu_time + values["cpus"][at]
            if outcome in WASTES:
                line.wasted[outcome] += values["gpus"][at]
    placed = held.filter(began__gte=window.begin).annotate(key=_day(F("began"), window))
    for day, _, wait, number, waited in _by_wait(placed, window, {}):
        _add_waits(lines[day - first], wait, number, waited)
    for day, jobs in placed.order_by().values_list("key").annotate(Count("job_id", distinct=True)):
        lines[day - first].jobs = jobs
    return lines


def _daily(
    held: QuerySet[Any], window: TimeWindow, keys: Sequence[str], amounts: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, list[int]]]:
    """{values of ``keys``: {name: amount x milliseconds of each day}}.

    No row is split into its days. Up to a moment t, what was used is the sum of amount x (t - first) over all that
    began before t, less that of amount x (t - last) over all that ended before t. Both follow from sums by the day of
    ``first`` and of ``last``; a day has what was used up to its end less what was used up to its begin."""
    edges, first = window.days(), _first_day(window)
    used: dict[tuple[Any, ...], dict[str, list[int]]] = {}
    for side, sign in (("first", 1), ("last", -1)):
        sums = {}
        for name in amounts:
            sums[f"{name}_n"] = Sum(name)
            sums[f"{name}_t"] = Sum(F(name) * (F(side) - window.begin), output_field=BigIntegerField())
        rows = held.order_by().annotate(day=_day(F(side), window)).values(*keys, "day").annotate(**sums)
        by_key: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
        for row in rows:
            by_key.setdefault(tuple(row[key] for key in keys), {})[row["day"] - first] = row
        for key, days in by_key.items():
            into = used.setdefault(key, {name: [0] * len(edges) for name in amounts})
            for name in amounts:
                _add(into[name], [days.get(at, {}) for at in range(len(edges) - 1)], name, edges, sign)
    return {
        key: {name: [after - before for before, after in pairwise(each)] for name, each in values.items()}
        for key, values in used.items()
    }


def _add(used: list[int], days: list[dict[str, Any]], name: str, edges: list[int], sign: int) -> None:
    """Add to what was used up to each edge the part of one side. What falls on the last edge itself adds nothing."""
    numbers = accumulate((int(day.get(f"{name}_n") or 0) for day in days), initial=0)
    times = accumulate((int(day.get(f"{name}_t") or 0) for day in days), initial=0)
    for at, (number, time) in enumerate(zip(numbers, times, strict=True)):
        used[at] += sign * (number * (edges[at] - edges[0]) - time)


def _day(time: Any, window: TimeWindow) -> Any:
    """Return the number of the day of a moment in the window's zone."""
    (_, first), *later = window.offsets()
    offset: Any = Value(first)
    if later:
        moments = [When(**{f"{time.name}__gte": at}, then=Value(ahead)) for at, ahead in reversed(later)]
        offset = Case(*moments, default=Value(first), output_field=BigIntegerField())
    return (time + offset) / Value(_DAY)


def _first_day(window: TimeWindow) -> int:
    return (window.begin + window.offsets()[0][1]) // _DAY
