"""Looks at every node: a list at once, then again whenever its engine reports an event, and every few seconds anyway.

The list is the truth, events only say when to look. Two threads a node: one follows the events, one lists. A node
that does not answer costs nobody else anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from clusters import engines
from clusters.runtime import LABEL_INSTANCE, ContainerStatus, EngineInfo, RuntimeFault

LIST_EVERY = 5.0  # seconds between two looks without an event
FIRST_PAUSE = 0.04  # seconds between the first two looks after an event; the pauses then double up to LIST_EVERY
LEAST_PAUSE = 0.01  # seconds between two looks however many events there are
EVENT_WINDOW = 60.0  # seconds one event stream is followed before it is opened anew
RETRY_EVERY = 2.0  # seconds between two tries at a node that does not answer


@dataclass(frozen=True, slots=True)
class Look:
    """What one node's engine said. A failed one keeps the containers of the last that did not."""

    node: str
    at: datetime  # before the list was asked for
    reachable: bool
    containers: dict[str, ContainerStatus] = field(default_factory=dict)  # by name
    since: datetime | None = None  # when it stopped answering
    reason: str = ""
    info: EngineInfo | None = None  # of the first look after it began to answer


class Watcher:
    """Watches one node from ``start`` to ``stop``. ``look`` is the last Look, None before the first."""

    def __init__(self, node: str, changed: Callable[[], None], *, unreachable_since: datetime | None = None) -> None:
        self.node = node
        self.look: Look | None = None
        self._changed = changed
        self._since = unreachable_since
        self._asked = False
        self._stopped = threading.Event()
        self._wanted = threading.Event()

    def start(self) -> None:
        for target in (self._list, self._follow):
            threading.Thread(target=target, name=f"{target.__name__}-{self.node}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()

    def again(self) -> None:
        """Look once more and tell, also when nothing is new: the caller needs a younger picture."""
        self._asked = True
        self._wanted.set()

    def look_now(self, *, doubted: bool = False) -> Look:
        """Ask the engine and keep what it says. ``doubted`` is that of ContainerRuntime.list."""
        self.look = self._ask(doubted)
        return self.look

    def _list(self) -> None:
        """After each event the looks come at first quickly, then ever more slowly: an engine tells of a container's
        end up to some 100 ms before its list does (measured on Docker 20.10)."""
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            self._wanted.clear()
            asked, self._asked = self._asked, False
            before, now = self.look, self.look_now(doubted=asked)
            if asked or before is None or _told(before) != _told(now):
                self._changed()
            woken = self._wanted.wait(pause if now.reachable else RETRY_EVERY)
            pause = FIRST_PAUSE if woken else min(LIST_EVERY, 2 * pause)
            if woken:
                self._stopped.wait(LEAST_PAUSE)

    def _ask(self, doubted: bool) -> Look:
        at, last = timezone.now(), self.look
        try:
            runtime = engines.runtime_for(self.node)
            info = None if last is not None and last.reachable else runtime.info()
            containers = {status.name: status for status in runtime.list(doubted=doubted) if _is_ours(status)}
        except RuntimeFault as fault:
            self._since = self._since or at
            kept = last.containers if last is not None else {}
            return Look(self.node, at, False, kept, self._since, fault.sentence)
        self._since = None
        return Look(self.node, at, True, containers, info=info)

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                orderly = engines.runtime_for(self.node).wait_event(EVENT_WINDOW, self._wanted.set)
            except RuntimeFault:
                orderly = False
            self._wanted.set()  # what happened between two streams was missed
            if not orderly:
                self._stopped.wait(RETRY_EVERY)


class Watch:
    """The watchers of all registered nodes. ``changed`` is called from their threads whenever there is news."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._watchers: dict[str, Watcher] = {}

    def keep_up(self, nodes: dict[str, datetime | None]) -> None:
        """Watch exactly these nodes; the value is since when a node is known not to answer."""
        for name in self._watchers.keys() - nodes.keys():
            self._watchers.pop(name).stop()
        for name, since in nodes.items():
            if name not in self._watchers:
                self._watchers[name] = Watcher(name, self._changed, unreachable_since=since)
                self._watchers[name].start()

    def looks(self) -> dict[str, Look]:
        return {name: watcher.look for name, watcher in self._watchers.items() if watcher.look is not None}

    def look_again(self, nodes: set[str]) -> None:
        for name in nodes & self._watchers.keys():
            self._watchers[name].again()

    def stop(self) -> None:
        self.keep_up({})


def _is_ours(status: ContainerStatus) -> bool:
    """Not another portal's that shares the engine."""
    return status.labels.get(LABEL_INSTANCE, settings.INSTANCE) == settings.INSTANCE


def _told(look: Look) -> tuple[object, ...]:
    """What the scheduler acts on: a look that says the same as the last wakes nobody."""
    return look.reachable, {name: (status.id, status.phase, status.held) for name, status in look.containers.items()}
