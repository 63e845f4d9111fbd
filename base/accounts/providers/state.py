"""What this process knows of how a provider does: few threads ask it at once, and whether it fails is on its button."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from django.utils import timezone

from base.accounts.providers.config import Directory, Provider
from base.core.errors import ProviderUnavailable

AT_ONCE = 4  # threads that ask one provider
TURN = 1.0  # seconds that others wait for their turn


@dataclass(slots=True)
class _State:
    turns: threading.BoundedSemaphore
    fails: str = ""


def fails(provider: Provider | Directory) -> str:
    """Since when it fails, and why; empty while it answers."""
    return _of(provider).fails


def works(provider: Provider | Directory) -> None:
    _of(provider).fails = ""


def broken(provider: Provider | Directory, why: str) -> ProviderUnavailable:
    """The error, which is remembered until it works again."""
    state = _of(provider)
    state.fails = state.fails or f"since {timezone.localtime():%H:%M}: {why}"
    return ProviderUnavailable(f"{provider.title} cannot sign anybody in: {why}. Try again later, or tell the admin.")


@contextmanager
def turn(provider: Provider | Directory) -> Iterator[None]:
    """Raises ProviderUnavailable where too many ask already."""
    turns = _of(provider).turns
    if not turns.acquire(timeout=TURN):
        raise ProviderUnavailable(f"{provider.title} is slow, and others wait for it already. Try again in a minute.")
    try:
        yield
    finally:
        turns.release()


@cache
def _of(provider: Provider | Directory) -> _State:
    return _State(threading.BoundedSemaphore(AT_ONCE))
