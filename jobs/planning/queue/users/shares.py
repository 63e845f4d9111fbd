"""Whose turn it is among the jobs of one priority in a virtual cluster: that of the user with the smallest share. Pure.

A share is what a user holds and what they used lately, as a part of what the virtual cluster is guaranteed, in cores,
memory or GPUs, whichever is the largest; of the pool where it is guaranteed none. What was used is an average: who held
8 GPUs for long has used 8 lately. So it adds up to the same however a user splits, stops or repeats what they run. The
half-life is a setting of the virtual cluster; with 0 only what is held counts.

Users who have used nothing could come without end, so a job is overdue, and before the shares, once it has waited for
OVERDUE and none of its user's has begun or ended there as long: who banks old jobs has one turn for their age, not all.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from clusters.placement.fit import NodeView
from clusters.placement.shares import Amount, Hold, pool_totals
from jobs.planning.queue.scene import LAST, OVERDUE, JobT, Runner, since_text
from jobs.planning.queue.users.used_lately import WHAT, UsedLately, UsesLately, after_use, counts, grows

_DIGITS = 9  # of a share: a difference beyond this digit is an error of rounding
_NOT = timedelta(0)


def after_run(past: dict[tuple[str, str], UsedLately], runner: Runner[JobT], now: datetime, hours: float) -> None:
    """Add to ``past`` that this job ends now."""
    job, began = runner.job, runner.job.started_at or now
    whose, use = (job.username, job.vc), (_held(runner.holds), (now - began).total_seconds())
    past[whose] = after_use(past.get(whose), [use], now, hours)


def _held(holds: Iterable[Hold]) -> dict[str, float]:
    amount = dict.fromkeys(WHAT, 0.0)
    for hold in holds:
        amount["cpu"] += hold.cpus
        amount["memory"] += hold.memory_mb
        amount["gpu"] += len(hold.gpu_ids)
    return amount


class UserShares:
    """The share of each user in one virtual cluster; ``whole`` is what they are parts of."""

    def __init__(self, whole: Amount) -> None:
        self._whole = {what: float(whole[what]) for what in WHAT if whole.get(what)}
        self._used: dict[str, dict[str, float]] = {}
        self.of: dict[str, float] = {}  # who is not there has none
        self._last: dict[str, str] = {}  # when a job of theirs began or ended last, as ``since_text``
        self._limit = ""  # the same for the moment since which an overdue one has waited

    @classmethod
    def parts_of(cls, guarantee: Amount, nodes: Iterable[NodeView]) -> UserShares:
        """Of what a virtual cluster is guaranteed, or of the pool where that is nothing."""
        pool = {} if all(guarantee.get(what) for what in WHAT) else pool_totals(nodes)[0]
        return cls({what: guarantee.get(what) or pool.get(what, 0.0) for what in WHAT})

    def used(self, user: str) -> Amount:
        """What they hold and what they used lately, added up."""
        return self._used.get(user, {})

    def copy(self) -> UserShares:
        other = UserShares(self._whole)
        other._used, other.of = {user: dict(used) for user, used in self._used.items()}, dict(self.of)
        other._last, other._limit = dict(self._last), self._limit
        return other

    def overdue_since(self, job: JobT) -> str:
        """Since when it has waited without a turn of its user, if that is too long; else empty."""
        if job.since >= self._limit:
            return ""
        since = max(job.since, self._last.get(job.share_of, ""))
        return since if since < self._limit else ""

    def start(self, user: str, amount: Amount) -> None:
        """Add what a job takes that starts now."""
        self._last[user] = LAST
        self.add(user, amount)

    def add(self, user: str, amount: Amount, times: float = 1.0) -> None:
        used = self._used.setdefault(user, dict.fromkeys(WHAT, 0.0))
        for what in WHAT:
            used[what] += times * amount.get(what, 0)
        parts = (used[what] / whole for what, whole in self._whole.items())
        self.of[user] = round(max(parts, default=0.0), _DIGITS)

    def add_all(
        self,
        running: Iterable[Runner[JobT]],
        past: UsesLately,
        vc: str,
        now: datetime,
        half_life: float,
        clock_ahead: timedelta = _NOT,
    ) -> None:
        """Add what everybody holds in this virtual cluster and what they used lately. By the clock of the day, by which
        jobs came, it is ``clock_ahead`` later."""
        self._limit, last = since_text(now + clock_ahead - OVERDUE), dict[str, datetime]()
        grown: dict[datetime, float] = {}  # by when it began: a pass starts many at one moment
        for runner in running:  # of which there may be very many
            began, username = runner.job.started_at or now, runner.job.username
            if (times := grown.get(began)) is None:
                times = grown[began] = 1.0 + grows((now - began).total_seconds(), half_life)
            if (sums := self._used.get(username)) is None:
                sums = self._used[username] = dict.fromkeys(WHAT, 0.0)
            for hold in runner.holds:
                sums["cpu"] += times * hold.cpus
                sums["memory"] += times * hold.memory_mb
                sums["gpu"] += times * len(hold.gpu_ids)
            if began is not now:
                last[username] = max(began, last.get(username, began))
        for user in list(self._used):
            self.add(user, {})
        for (user, of_vc), used in past.items():
            if of_vc == vc:
                part = counts((now - used.at).total_seconds(), half_life)
                self.add(user, dict(zip(WHAT, used[:3], strict=True)), part)
                last[user] = max(used.at, last.get(user, used.at))
        self._last = {user: since_text(moment + clock_ahead) for user, moment in last.items()}
