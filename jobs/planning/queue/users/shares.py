"""Whose turn it is among the jobs of one priority in a virtual cluster: that of the user with the smallest share. Pure.

A share is what a user holds and what they used lately, as a part of what the virtual cluster is guaranteed, in cores,
memory or GPUs, whichever is the largest; of the pool where it is guaranteed none. What was used is an average: who held
8 GPUs for long has used 8 lately. So it adds up to the same however a user splits, stops or repeats what they run. The
half-life is a setting of the virtual cluster; with 0 only what is held counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from clusters.placement.fit import NodeView
from clusters.placement.shares import Amount, Hold, pool_totals
from jobs.planning.queue.scene import JobT, Runner
from jobs.planning.queue.users.used_lately import WHAT, UsedLately, UsesLately, after_use, counts, grows

_DIGITS = 9  # of a share: a difference beyond this digit is an error of rounding


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
        return other

    def add(self, user: str, amount: Amount, times: float = 1.0) -> None:
        used = self._used.setdefault(user, dict.fromkeys(WHAT, 0.0))
        for what in WHAT:
            used[what] += times * amount.get(what, 0)
        parts = (used[what] / whole for what, whole in self._whole.items())
        self.of[user] = round(max(parts, default=0.0), _DIGITS)

    def add_all(
        self, running: Iterable[Runner[JobT]], past: UsesLately, vc: str, now: datetime, half_life: float
    ) -> None:
        """Add what everybody holds in this virtual cluster and what they used lately."""
        for runner in running:  # of which there may be very many
            began, sums = runner.job.started_at, self._used.get(runner.job.username)
            times = 1.0 + grows((now - began).total_seconds() if began is not None else 0.0, half_life)
            if sums is None:
                sums = self._used[runner.job.username] = dict.fromkeys(WHAT, 0.0)
            for hold in runner.holds:
                sums["cpu"] += times * hold.cpus
                sums["memory"] += times * hold.memory_mb
                sums["gpu"] += times * len(hold.gpu_ids)
        for user in list(self._used):
            self.add(user, {})
        for (user, of_vc), used in past.items():
            if of_vc == vc:
                part = counts((now - used.at).total_seconds(), half_life)
                self.add(user, dict(zip(WHAT, used[:3], strict=True)), part)
