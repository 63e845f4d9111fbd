"""The threads that write the files of all tars of a process, user by user."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from django.db import close_old_connections


class Writers:
    """So many threads for all users together. Each takes the next work of the user whose turn it is, and then that of
    another one: so nobody waits for more than one work of each user who came before."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="unpack")  # which starts them when they are needed
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()  # the user whose turn is next first
        self._lock = Lock()

    def submit(self, user: str, work: Callable[[], None]) -> None:
        """``work`` raises nothing."""
        with self._lock:
            self._waiting.setdefault(user, deque()).append(work)
        self._pool.submit(self._next)

    def _next(self) -> None:
        """Do what is next, which need not be what this call was made for."""
        with self._lock:
            user, works = self._waiting.popitem(last=False)
            work = works.popleft()
            if works:
                self._waiting[user] = works
        close_old_connections()
        work()
