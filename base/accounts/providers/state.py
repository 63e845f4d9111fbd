"""What this process knows of how a provider does: few threads ask it at once, and whether it fails is on its button."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from django.utils import timezone

from base.accounts.providers.config import Directory, Provider
from base.core.errors import ProviderUnavailable

AT_ONCE = 4  # threads that ask one provider
TURN = 0.3  # seconds that others wait for their turn
PAUSE = 5.0  # seconds for which one that did not answer is not asked again: guests who click hold no thread


@dataclass(slots=True)
class _State:
    turns: threading.BoundedSemaphore
    fails: str = ""
    error: str = ""  # what was said last, until ``again`` (time.monotonic())
    again: float = 0.0


def fails(provider: Provider | Directory) -> str:
    """Since when it fails, and why; empty while it answers."""
    return _of(provider).fails


def works(provider: Provider | Directory) -> None:
    _of(provider).fails = ""


def broken(provider: Provider | Directory, why: str) -> ProviderUnavailable:
    """The error, which is remembered until it works again."""
    state = _of(provider)
    state.fails = state.fails or f"since {timezone.localtime():%d %b, %H:%M}: {why}"
    state.error = f"{provider.title} cannot sign anybody in: {why}. Try again later, or tell the admin."
    state.again = time.monotonic() + PAUSE
    return ProviderUnavailable(state.error)


def forget(provider: Provider | Directory) -> None:
    """Ask it again at once: an admin tests it."""
    _of(provider).again = 0.0


@contextmanager
def turn(provider: Provider | Directory) -> Iterator[None]:
    """Raises ProviderUnavailable where too many ask already, and for a while after it did not answer."""
    state = _of(provider)
    if time.monotonic() < state.again:
        raise ProviderUnavailable(state.error)
    turns = state.turns
    if not turns.acquire(timeout=TURN):
        raise ProviderUnavailable(f"{provider.title} is slow, and others wait for it already. Try again in a minute.")
    try:
        yield
    finally:
        turns.release()


@cache
def _of(provider: Provider | Directory) -> _State:
    return _State(threading.BoundedSemaphore(AT_ONCE))
