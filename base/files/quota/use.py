"""How much a user's trees may hold, and do: counted by a thread now and then, plus what this process has written since.

Each process of the portal counts for itself. What another one writes, and what jobs leave (logs, configs), is noticed
at the next count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, Thread

import structlog
from django.conf import settings

from base.core.errors import LongshoreError
from base.core.signals import store_quotas
from base.core.words import UNLIMITED
from base.files.store import rules
from base.files.store.base import BadPath, PathNotFound, Store
from base.models import User

AGE = 300.0  # seconds a count holds
RECENT = 5.0  # seconds it holds when a write is about to be refused
PATIENCE = 3.0  # seconds a write waits for a count
_SHARE = 10  # a count that took a second holds for ten at least
log = structlog.get_logger()


class QuotaUse:
    """The bytes in one user's trees. ``count`` walks them and may take long; it runs in one thread at a time."""

    def __init__(self, count: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock = count, clock
        self._lock = Lock()
        self._thread: Thread | None = None
        self._began = self._took = 0.0  # the last count: when, and for how long
        self._counted: int | None = None
        self._written = 0  # growth of files that were finished after the last count began
        self._writing = 0  # room taken by files under way, which a count does not see
        self._is_outdated = True

    def total(self, wait: float = PATIENCE) -> int | None:
        """The bytes, files under way included, as of the last minutes. The first count, and one after a deletion, is
        waited for up to ``wait`` seconds. None while nothing is counted yet."""
        is_old = self._counted is None or self._is_outdated
        self._refresh(0.0 if is_old else AGE, wait if is_old else 0.0)
        with self._lock:
            return None if self._counted is None else self._counted + self._written + self._writing

    def known(self) -> int:
        """The bytes as far as they are known, without counting."""
        return (self._counted or 0) + self._written + self._writing

    def take(self, size: int, limit: int) -> int | None:
        """Take room for ``size`` more bytes. Where ``limit`` does not have it, returns how much it has, which is less.
        Before that the trees are counted again, as something may have been deleted. While nothing is counted yet,
        everything has room."""
        self._refresh(AGE, PATIENCE if self._counted is None else 0.0)
        if self._take(size, limit) is None:
            return None
        self._refresh(0.0 if self._is_outdated else RECENT, PATIENCE)
        return self._take(size, limit)

    def give_back(self, size: int) -> None:
        """What was taken is not needed: the file was dropped."""
        with self._lock:
            self._writing -= size

    def keep(self, size: int) -> None:
        """What was taken is in the trees now."""
        with self._lock:
            self._writing -= size
            self._written += size

    def outdate(self) -> None:
        """Something was deleted or became smaller: the next total, and the next refusal, need a new count."""
        self._is_outdated = True

    def _take(self, size: int, limit: int) -> int | None:
        with self._lock:
            if self._counted is None or (free := limit - self._counted - self._written - self._writing) >= size:
                self._writing += size
                return None
            return free

    def _refresh(self, age: float, wait: float) -> None:
        with self._lock:
            if self._is_due(age):
                self._began, self._is_outdated = self._clock(), False
                self._thread = Thread(target=self._look, args=(self._written,), name="store use", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread and wait:
            thread.join(wait)

    def _is_due(self, age: float) -> bool:
        if self._thread is None:
            return True
        pause = max(age, _SHARE * self._took) if age else 0.0
        return not self._thread.is_alive() and self._clock() - self._began >= pause

    def _look(self, written_before: int) -> None:
        try:
            counted = self._count()
        except LongshoreError as error:
            log.warning("what a user's files hold could not be counted", error=error.message)
            self._is_outdated = True
            return
        finally:
            self._took = self._clock() - self._began
        with self._lock:
            self._counted = counted
            self._written -= written_before


def limit_of(username: str) -> int | None:
    """The quota: bytes that all trees of a user together may hold; None for no limit.

    An admin may set the quota of one user. Without it the largest quota among the virtual clusters that the user may
    use counts; where none of them has one, LONGSHORE_STORE_QUOTA does.
    """
    user = User.objects.filter(username=username).values("store_quota", "is_admin").first()
    if user is None:
        return settings.STORE_QUOTA
    if user["store_quota"] is not None:
        return None if user["store_quota"] == UNLIMITED else int(user["store_quota"])
    quotas = store_quotas(username, user["is_admin"])
    if not quotas:
        return settings.STORE_QUOTA
    return None if UNLIMITED in quotas else max(quotas)


_uses: dict[str, QuotaUse] = {}


def use_of(username: str, store: Store) -> QuotaUse:
    """The one of this process."""
    return _uses.setdefault(username, QuotaUse(lambda: _count(username, store)))


def outdate_count(username: str) -> None:
    """Something of that user's was deleted or became smaller."""
    if use := _uses.get(username):
        use.outdate()


def drop_count(username: str) -> None:
    """The user has no limit now, and what they write is not counted: with a new limit the count begins anew."""
    _uses.pop(username, None)


def _count(username: str, store: Store) -> int:
    return sum(_size(store, tree) for tree in rules.trees_of(username))


def _size(store: Store, tree: str) -> int:
    try:
        return store.usage(tree).size
    except (PathNotFound, BadPath):
        return 0
