"""Places of which each web process has few, for what holds one as long as its client likes."""

from __future__ import annotations

from collections import Counter
from threading import Lock


class Places:
    """So many at once, of which one user has half at most: who keeps theirs keeps nobody else out alone."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._taken: Counter[str] = Counter()

    def take(self, user: str) -> bool:
        """Whether there was one."""
        with self._lock:
            if self._taken.total() >= self._most or self._taken[user] >= max(1, self._most // 2):
                return False
            self._taken[user] += 1
            return True

    def give_back(self, user: str) -> None:
        with self._lock:
            self._taken -= Counter({user: 1})  # which leaves out who has none
