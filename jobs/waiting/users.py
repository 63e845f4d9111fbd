"""What each user has of a virtual cluster, and whose job is next there: the shares by which turns go, to be read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from clusters.placement.shares import Amount, add
from jobs.history import holdings
from jobs.planning.queue.lines import Queue
from jobs.planning.queue.users.shares import UserShares
from jobs.planning.queue.users.waiting_lines import is_ending
from jobs.waiting.queue import recent_queue

MOST_PLACES = 200  # jobs of the queue that are looked at for the next one of each user


@dataclass(frozen=True, slots=True)
class UserPart:
    """``held`` is what they hold now, ``lately`` what they held lately on the average. ``share`` is both as a part of
    the guarantee, or of the pool where that is none. ``next`` is the place of their first waiting job; None where that
    is not among the first, or none waits."""

    username: str
    held: Amount
    lately: Amount
    share: float
    waiting: int
    next: int | None


def parts_of(vc: str) -> list[UserPart]:
    """Of all users who hold something of the virtual cluster, held some lately or wait there: first those who are next,
    then those with the largest shares."""
    seen, past = recent_queue(), holdings.used_in(vc)
    scene = replace(seen.scene, past=lambda: past)
    quota, running = scene.quota(vc), [runner for runner in scene.running() if runner.job.vc == vc and runner.holds]
    shares = UserShares.parts_of(quota.guarantee, scene.nodes)
    shares.add_all(running, past, vc, scene.rounded_now, quota.half_life)
    held: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for runner in running:
        add(held[runner.job.username], scene.amount(runner.holds))
    jobs = [job for job in seen.waiting if job.vc == vc and not is_ending(job)]
    waiting, places = Counter(job.username for job in jobs), dict[str, int]()
    for line in Queue(jobs, scene).lines.values():
        for at, job in enumerate(islice(line.order(), MOST_PLACES), 1):
            places.setdefault(job.username, at)
    parts = [
        UserPart(user, held[user], _without(shares.used(user), held[user]), share, waiting[user], places.get(user))
        for user in {*shares.of, *waiting}
        if (share := shares.of.get(user, 0.0)) >= 0.0005 or waiting[user]
    ]
    return sorted(parts, key=lambda part: (part.next or MOST_PLACES + 1, -part.share, part.username))


def _without(used: Amount, held: Mapping[str, float]) -> Amount:
    return {what: max(0.0, number - held.get(what, 0.0)) for what, number in used.items()}
