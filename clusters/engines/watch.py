"""Looks at every engine: a list at once, then again whenever the engine reports an event, and every few seconds anyway.

The list is the truth, events only say when to look. Each engine has a thread that follows its events; lists are
taken in threads of their own (clusters/engines/watcher_pool.py). An engine that does not answer delays no other. An
engine may stand for several nodes; its containers say then which node each of them is on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from django.conf import settings

from base.core import clock
from base.core.threads import KeptThread
from clusters.engines import schemes
from clusters.engines.runtime import LABEL_INSTANCE, ContainerRuntime, ContainerStatus, Look, RuntimeFault
from clusters.engines.watcher_pool import WatcherPool

LIST_EVERY = 5.0  # seconds between two looks without an event
PER_SECOND = 100  # looks at most without events: with more than 500 engines each waits longer for its next one
FIRST_PAUSE = 0.04  # seconds between the first two looks after an event; the pauses then double up to LIST_EVERY
LEAST_PAUSE = 0.01  # seconds between two looks however many events there are
EVENT_WINDOW = 180.0  # seconds one event stream is followed before it is opened anew
RETRY_EVERY = 2.0  # seconds between two tries at a node that does not answer
OLD = timedelta(seconds=30)  # a look of this age is not acted on; a silent engine is noticed within 15 s
LONGEST_LOOK = 120.0  # seconds after which a look counts as stuck, and another one is taken
LONGEST_WINDOW = 240.0  # the same for a thread that follows events: a connection may take its time to break
MOST_PAUSE = 10.0  # seconds: less than OLD by what an engine may take to answer


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Watched:
    """The engine of a node: where it is and, if that is known already, for how long it has not answered."""

    endpoint: str
    tls_dir: str = ""
    silent_for: timedelta | None = field(default=None, compare=False)

    def runtime(self) -> ContainerRuntime:
        return schemes.connect(self.endpoint, self.tls_dir or None)


class Watcher:
    """Watches one engine from the first ``ensure_running`` to ``stop``. ``node`` is one of its nodes. ``look`` is the
    last Look, None before the first. A Watcher never asks the database, so it goes on looking while the database is
    away."""

    def __init__(
        self, node: str, watched: Watched, changed: Callable[[], None], turns: WatcherPool | None = None
    ) -> None:
        self.node = node
        self.watched = watched
        self.look: Look | None = None
        self.every = LIST_EVERY
        self._changed = changed
        self._turns = turns
        self._since = clock.monotonic_now() - watched.silent_for if watched.silent_for is not None else None
        self._asked = False
        self.has_new_images = False  # since somebody last set it to False
        self._pause = LIST_EVERY  # after the next look
        self._failures = 0  # looks in a row that raised what nobody expects
        self._turn = 0  # of the next look: an older one in the queue is void
        self._looking: float | None = None  # since when
        self._wanted = False  # an event came during a look
        self._ended = 0.0  # when the last look did
        self._lock = threading.Lock()
        self._of: dict[str, tuple[Look, Look]] = {}  # by node: the last look, and what it says about the node
        self._stopped = threading.Event()
        self.thread = KeptThread(f"follow-{node}", self._follow, longest=LONGEST_WINDOW)

    def ensure_running(self) -> None:
        """Follow and look, by threads that work."""
        self.thread.ensure_running()
        with self._lock:
            stuck = self._looking is not None and time.monotonic() - self._looking > LONGEST_LOOK
            if stuck:
                log.error("a look is taken anew", node=self.node)
                self._looking = None
            begins = stuck or self._turn == 0
        if begins:
            self._look_in(0.0)

    def stop(self) -> None:
        self._stopped.set()
        self.thread.stop()

    def again(self) -> None:
        """Look once more, and report the look also when nothing is new: the caller needs a younger picture."""
        self._asked = True
        self._look_soon()

    def look_now(self, *, doubted: bool = False) -> Look:
        """Ask the engine and remember the answer, unless a younger one came meanwhile. ``doubted`` is that of
        ContainerRuntime.list."""
        look = self._ask(doubted)
        if self.look is None or look.at >= self.look.at:
            self.look = look
        return look

    def look_at(self, node: str) -> Look | None:
        """What the last look says about this node; the same object as long as it is the last."""
        look, known = self.look, self._of.get(node)
        if look is None:
            return None
        if known is None or known[0] is not look:
            known = self._of[node] = look, look.of(node)
        return known[1]

    def _look_soon(self) -> None:
        """After an event looks follow quickly at first, then more and more slowly: Docker reports a container's end up
        to some 100 ms before its list shows it (measured on 20.10). Where that is not so one look is enough."""
        with self._lock:
            self._pause = self._first_pause()
            if self._looking is not None:
                self._wanted = True
                return
        self._look_in(max(0.0, self._ended + LEAST_PAUSE - time.monotonic()))

    def _note_images(self) -> None:
        self.has_new_images = True
        self._changed()

    def _first_pause(self) -> float:
        return self.every if schemes.stands_for_many(self.watched.endpoint) else FIRST_PAUSE

    def _look_in(self, seconds: float) -> None:
        if self._turns is None or self._stopped.is_set():
            return
        with self._lock:
            self._turn += 1
            turn = self._turn
        self._turns.at(time.monotonic() + seconds, lambda: self._take(turn))

    def _take(self, turn: int) -> None:
        """One look, and the time of the next one."""
        with self._lock:
            if turn != self._turn or self._looking is not None or self._stopped.is_set():
                return
            began = self._looking = time.monotonic()
            self._wanted, asked, self._asked = False, self._asked, False
        pause = RETRY_EVERY
        try:
            before, now = self.look, self.look_now(doubted=asked)
            self._failures = 0
            if now.reachable:
                pause = self._pause
            if asked or before is None or _news(before) != _news(now):
                self._changed()
        except BaseException:
            self._failures += 1
            pause = min(MOST_PAUSE, FIRST_PAUSE * 2**self._failures)
            raise
        finally:
            with self._lock:
                mine = self._looking == began  # else it was stuck, and another look is under way
                if mine:
                    self._looking, self._ended = None, time.monotonic()
                    pause = LEAST_PAUSE if self._wanted else pause
                    self._pause = self._first_pause() if self._wanted else min(self.every, 2 * self._pause)
            if mine:
                self._look_in(pause)

    def _ask(self, doubted: bool) -> Look:
        at, last = clock.monotonic_now(), self.look
        try:
            runtime = self.watched.runtime()
            info = None if last is not None and last.reachable else runtime.info()
            statuses = runtime.list(doubted=doubted)
            containers: Mapping[str, ContainerStatus] = {each.name: each for each in statuses if _is_ours(each)}
        except RuntimeFault as fault:
            self._since = self._since or at
            last_known = last.containers if last is not None else {}
            away = schemes.stands_for_many(self.watched.endpoint)
            return Look(self.node, at, False, last_known, self._since, fault.sentence, away=away, slow=fault.late)
        if last is not None and last.containers == containers:
            containers = last.containers  # the same mapping: who has looked through it need not do so again
        known = last.answers_since if last is not None and last.reachable else None
        answers_since = at if self._since is not None else known
        self._since = None
        return Look(self.node, at, True, containers, info=info, answers_since=answers_since)

    def _follow(self) -> None:
        """One window of the engine's events."""
        try:
            orderly = self.watched.runtime().wait_event(EVENT_WINDOW, self._look_soon, self._note_images)
        except RuntimeFault:
            orderly = False
        self._wanted = True  # there was no stream for a moment, so events may have been missed
        if self._looking is None:
            self._look_in(0.0)
        if not orderly:
            self._stopped.wait(RETRY_EVERY)


class Watchers:
    """The watchers of all registered nodes, one for each engine. ``changed`` is called from their threads whenever
    there is news."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._turns = WatcherPool()
        self._watchers: dict[str, Watcher] = {}  # by node; nodes of one engine have the same

    def keep_up(self, nodes: Mapping[str, Watched]) -> None:
        """Watch exactly the engines of these nodes, by threads that work."""
        watchers = {watcher.watched: watcher for watcher in self._watchers.values()}
        for name, watched in nodes.items():
            if watched not in watchers:
                watchers[watched] = Watcher(name, watched, self._changed, self._turns)
        for watched in watchers.keys() - set(nodes.values()):
            watchers.pop(watched).stop()
        self._watchers = {name: watchers[watched] for name, watched in nodes.items()}
        every = min(MOST_PAUSE, max(LIST_EVERY, len(watchers) / PER_SECOND))
        for watcher in watchers.values():
            watcher.every = every
            watcher.ensure_running()
        if watchers:
            self._turns.ensure_running()

    def looks(self) -> dict[str, Look]:
        """The last Look at each node, where it is young enough to act on. About a node without one nothing is known."""
        ages, looks = self._ages(), {name: watcher.look_at(name) for name, watcher in self._watchers.items()}
        return {name: look for name, look in looks.items() if look is not None and ages.get(name, OLD) <= OLD}

    def blind(self) -> dict[str, float]:
        """Nodes whose last look is too old, with its age in seconds."""
        return {name: age.total_seconds() for name, age in self._ages().items() if age > OLD}

    def oldest(self) -> float | None:
        """Age in seconds of the oldest look; None when there is none."""
        return max((age.total_seconds() for age in self._ages().values()), default=None)

    def _ages(self) -> dict[str, timedelta]:
        """How old the last look at each node is."""
        now = clock.monotonic_now()
        return {name: now - watcher.look.at for name, watcher in self._watchers.items() if watcher.look is not None}

    def threads(self) -> list[KeptThread]:
        """Those that must work: none while there is nothing to watch."""
        watchers = dict.fromkeys(self._watchers.values())
        return [self._turns.thread, *(watcher.thread for watcher in watchers)] if watchers else []

    def new_images(self) -> list[str]:
        """The nodes that have got or lost images since this was last asked."""
        names = sorted(name for name, watcher in self._watchers.items() if watcher.has_new_images)
        for name in names:
            self._watchers[name].has_new_images = False
        return names

    def look_again(self, nodes: set[str]) -> None:
        for name in nodes & self._watchers.keys():
            self._watchers[name].again()

    def stop(self) -> None:
        """Watch nothing, until the next ``keep_up``."""
        self.keep_up({})
        self._turns.stop()
        self._turns = WatcherPool()


def _is_ours(status: ContainerStatus) -> bool:
    """Whether it is this portal's: not that of another portal on the same engine, nor one that only has a label like
    ours."""
    return status.labels.get(LABEL_INSTANCE) == settings.INSTANCE


def _news(look: Look) -> tuple[object, ...]:
    """What the scheduler acts on. It is not woken by a look that has the same as the last."""
    containers = look.containers.items()
    return look.reachable, {name: (status.id, status.phase, status.held, status.paused) for name, status in containers}


def unseen(name: str, age: float) -> Look:
    """The look at a node of which the last one is too old to act on or to show."""
    now = clock.monotonic_now()
    return Look(name, now, False, since=now, reason=f"Nobody has seen it for {age:.0f} s.")
