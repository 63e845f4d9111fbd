"""Makes parts of the portal forget what they know, as in a process that has just started."""

from __future__ import annotations

from base.files.quota import use as quota_use
from base.files.store import state
from base.wakes import processes


def who_lives() -> None:
    processes._last.clear()
    processes.seen.forget()


def the_store() -> None:
    quota_use._uses.clear()
    state._wrote_at = -state._WRITE_EVERY
    state._watch = state.Liveness(state._ask)
