"""How much is measured: as much as figures need, or as little as shows that a part still runs."""

from __future__ import annotations

import os
from typing import TypeVar

TINY = "BENCH_TINY"  # in the environment, so that the processes of a part have it too

T = TypeVar("T")


def size(usual: T, tiny: T) -> T:
    return tiny if os.environ.get(TINY) else usual
