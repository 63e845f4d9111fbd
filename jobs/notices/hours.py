"""When a notice is sent: at once, when quiet hours are over, or with the next digest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo


@dataclass(frozen=True, slots=True)
class Hours:
    """Minutes since midnight in ``zone``. From ``begin`` to ``end`` it is quiet, over midnight where that is earlier;
    on ``weekends`` all day."""

    begin: int
    end: int
    digest: int
    zone: tzinfo
    is_on: bool = True
    weekends: bool = False

    def is_quiet(self, now: datetime) -> bool:
        local = now.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        if not self.is_on:
            return False
        if self.weekends and local.weekday() >= 5:
            return True
        if self.begin <= self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def after_quiet(self, now: datetime) -> datetime:
        """The next moment at which it is not quiet, which may be ``now``. Some always comes: it is never quiet for a
        whole working day, as ``begin`` and ``end`` differ or there is no quiet between them."""
        for _ in range(5):
            if not self.is_quiet(now):
                return now
            now = self._next(now, 0 if self._is_weekend(now) else self.end)
        return now

    def next_digest(self, now: datetime) -> datetime:
        return self.after_quiet(self._next(now, self.digest))

    def _is_weekend(self, now: datetime) -> bool:
        return self.weekends and now.astimezone(self.zone).weekday() >= 5

    def _next(self, now: datetime, minute: int) -> datetime:
        """When the clock next shows that minute of a day."""
        local = now.astimezone(self.zone).replace(tzinfo=None)
        at = local.replace(hour=minute // 60, minute=minute % 60, second=0, microsecond=0)
        at = at if at > local else at + timedelta(days=1)
        return at.replace(tzinfo=self.zone).astimezone(now.tzinfo)
