"""How many containers an engine may be asked to start at once, by how fast it answered so far. Pure.

An engine on a busy host that has too many starts at once answers nobody in time, not even who asks for its list, and
all of them take longer. So each quick answer lets a little more start there, and a slow one much less.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

FIRST, LEAST, MOST = 8.0, 4.0, 32.0  # starts of one node at once
QUICK, SLOW = timedelta(seconds=2), timedelta(seconds=6)  # from an order to the worker's answer
FEWER = 0.5  # times as many after a slow answer


@dataclass(frozen=True, slots=True)
class Pace:
    """What the scheduler learnt of one engine. ``under_way``: when each start was ordered that is not answered yet, by
    id of the task. Starts that were ordered before ``cut_at`` were slow together, and count once."""

    limit: float = FIRST
    under_way: Mapping[int, datetime] = field(default_factory=dict)
    cut_at: datetime | None = None

    def after(self, now: datetime, under_way: Mapping[int, datetime], pulling: Collection[int]) -> Pace:
        """Return the pace with what was answered since. Starts that pull their image say nothing about the engine."""
        left = {id: self.under_way.get(id, at) for id, at in under_way.items()}
        answered = [at for id, at in self.under_way.items() if id not in left and id not in pulling]
        slow = [at for at in (*answered, *left.values()) if now - at >= SLOW]
        if any(self.cut_at is None or at > self.cut_at for at in slow):
            return Pace(max(LEAST, self.limit * FEWER), left, now)
        was_full = len(self.under_way) + 1 >= self.limit
        quick = sum(now - at <= QUICK for at in answered) if was_full else 0
        return Pace(min(MOST, self.limit + quick / self.limit), left, self.cut_at)


NO_PACES: Mapping[str, Pace] = MappingProxyType({})
