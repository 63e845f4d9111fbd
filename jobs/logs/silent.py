"""Says which nodes do not answer now. All who wait for a log in this process ask the database together.

A log that stands still looks like one whose task is quiet. The connection to its engine takes a minute to notice that
nobody is there; the scheduler notices within seconds, and writes it down.
"""

from __future__ import annotations

import time

from django.db import DatabaseError

from base.core.threads import in_thread
from clusters.models import Node

EVERY = 3.0  # seconds
_known: tuple[float, frozenset[str]] = (-EVERY, frozenset())


async def nodes() -> frozenset[str]:
    """The names of the nodes that do not answer now."""
    global _known
    at, names = _known
    if time.monotonic() - at < EVERY:
        return names
    _known = time.monotonic(), names  # nobody else asks meanwhile
    names = await in_thread(_read)
    _known = time.monotonic(), names
    return names


def _read() -> frozenset[str]:
    try:
        return frozenset(Node.objects.filter(health=Node.Health.UNREACHABLE).values_list("name", flat=True))
    except DatabaseError:
        return frozenset()
