"""What gc looks through in a scheduler. The many values of a pass live either for a moment, and leave nothing that only
gc can free, or for hours, and then take it a fifth of a second each time it looks."""

from __future__ import annotations

import gc
import time

THRESHOLDS = (300_000, 20, 20)
MANY_KEPT = 10_000  # objects of passes that stay, and that gc need not look at
MANY_FROZEN = 200_000  # so many more that it leaves alone, and it looks through all of them once
LOOK_EVERY = 600.0  # seconds between two looks at how many they are


class Garbage:
    def __init__(self) -> None:
        self._frozen = 0  # objects, when all of them had been looked through
        self._look_at = time.monotonic() + LOOK_EVERY

    def begin(self) -> None:
        gc.set_threshold(*THRESHOLDS)

    def freeze(self) -> None:
        """Let gc look once at what is there and not frozen, and then no more. What the supervisor froze stays so: to
        look at an object means to write to it, and this process would have its own copy of all that is loaded."""
        gc.collect()
        gc.freeze()
        self._frozen = gc.get_freeze_count()

    def after_pass(self) -> None:
        if gc.get_count()[0] > MANY_KEPT:
            gc.freeze()

    def look_if_due(self) -> None:
        """Free what only gc can free, once there may be much of it."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_EVERY
            if gc.get_freeze_count() - self._frozen > MANY_FROZEN:
                gc.unfreeze()
                self.freeze()
