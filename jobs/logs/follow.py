"""Follows the logs that somebody looks at: one thread and one engine connection a stream, however many look.

A ``Follower`` copies its stream from the engine into a spool (jobs/logs/spool.py) and wakes its viewers. It begins when
the first viewer comes, goes on through reconnects, engine restarts and silent nodes, and ends some time after the last
viewer left. At most MOST of them run in one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import connections

from clusters.engines.runtime import ContainerRuntime, FaultReason, RuntimeFault, Stream
from clusters.engines.runtime import Phase as ContainerPhase
from clusters.engines.schemes import runtime_for
from jobs.logs.lines import LogView
from jobs.logs.places import LogPhase, LogPlace, current_place, find_archive
from jobs.logs.spool import Anchor, Spool, SpoolState, sweep
from portal.core.errors import LongshoreError, NoLog

MOST = 64
REREAD = 1.0  # seconds until a log that was read anew from its beginning is followed again
LINGER = 60.0  # seconds a follower outlives its last viewer: page loads and polls find it again

_LOST = "The container is gone and its log was not kept."
_log = structlog.get_logger("jobs.logs")


class TooManyLogs(LongshoreError):
    """Too many logs are being watched at the moment. Try again in a minute."""

    code, status = "TooManyLogsError", 503


class Follower:
    def __init__(self, task_id: int, stream: Stream) -> None:
        self.task_id, self.stream = task_id, stream
        self.viewers = 0
        self._spool = Spool(spool_folder(task_id, stream))
        self._wakers: set[Callable[[], None]] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._reading: Any = None
        self._thread = threading.Thread(target=self._run, name=f"log-{task_id}-{stream}", daemon=True)
        self._thread.start()

    def view(self) -> LogView:
        return self._spool.view()

    def state(self) -> SpoolState:
        return self._spool.state()

    def size(self) -> int:
        """Bytes copied so far; cheaper than a view."""
        return self._spool.size()

    @property
    def copies(self) -> bool:
        """False while another process copies this stream: its progress must be looked for, it wakes nobody here."""
        return self._spool.copies

    def wait(self, timeout: float) -> None:
        """Until something changed; for threads."""
        with self._changed:
            self._changed.wait(timeout if self.copies else min(timeout, 0.1))

    def subscribe(self, waker: Callable[[], None]) -> None:
        """``waker`` is called from the follower's thread at each change and must return at once."""
        with self._changed:
            self._wakers = self._wakers | {waker}

    def unsubscribe(self, waker: Callable[[], None]) -> None:
        with self._changed:
            self._wakers = self._wakers - {waker}

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread and drop the spool."""
        self._stop.set()
        reading = self._reading
        if reading is not None:
            with suppress(Exception):
                reading.close()
        self._wake()
        self._thread.join(timeout)

    # --- inside the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                pause = self._step() if self._spool.acquire() else 0.5
                self._wake()
                if self._spool.state().ended:
                    self._stop.wait()
                self._stop.wait(pause)
        finally:
            self._spool.close()
            connections.close_all()

    def _step(self) -> float:
        """Copy what there is, until the stream ends; seconds to wait before the next step."""
        try:
            return self._copy_all(current_place(self.task_id))
        except RuntimeFault as fault:
            return self._after_fault(fault)
        except NoLog as gone:
            self._spool.mark(ended=True, problem=gone.message)
            return 0.0
        except Exception as error:  # a defect or a database away: the viewers wait, the next step may go well
            _log.warning("following a log failed", task=self.task_id, stream=self.stream, exc_info=error)
            return 2.0

    def _copy_all(self, place: LogPlace) -> float:
        if not place.container or not place.node:
            if place.phase is LogPhase.ENDED:
                raise NoLog(f"{place.label} never had a container, so it has no log.")
            return 0.5 if place.phase is LogPhase.WAITING else 0.2
        runtime = runtime_for(place.node)
        connections.close_all()  # what follows may take days
        if not self._spool.state().caught_up:
            self._catch_up(runtime, place, self._spool.state().anchor)
            self._spool.mark(caught_up=True, problem="")
            self._wake()
        if self._copy(runtime, place, self._spool.state().anchor, follow=True):
            # What comes may be new (the node's clock was set back) or old (the engine gives a file again that it has
            # just rotated). Read from its beginning, the log tells it by the count of its bytes.
            self._catch_up(runtime, place, Anchor("", self._spool.size()))
            return REREAD
        if not self._stop.is_set() and _is_over(runtime, place):
            self._catch_up(runtime, place, self._spool.state().anchor)
            self._spool.mark(ended=True, problem="")
        return 0.1

    def _catch_up(self, runtime: ContainerRuntime, place: LogPlace, start: Anchor) -> None:
        """Copy what there is."""
        anchor = self._spool.state().anchor
        if self._copy(runtime, place, start):  # its beginning is gone: what is counted from there has no meaning
            self._copy(runtime, place, Anchor(anchor.newest, anchor.bytes if anchor.at else 0))

    def _copy(self, runtime: ContainerRuntime, place: LogPlace, start: Anchor, *, follow: bool = False) -> bool:
        """From ``start`` on; what is known already comes again first and is passed over. Ends early, with True, where
        it is not certain any more what is known: a whole log does not begin as the copy does, or the stamps of a
        followed one go back. (Of a clock set back behind ``start`` nothing is noticed; the archive has all.)"""
        known, first = start.bytes, True
        self._reading = reading = runtime.logs(place.container, self.stream, since=start.at, follow=follow)
        try:
            for chunk in reading:
                anchor = self._spool.state().anchor
                if self._stop.is_set():
                    return False
                if first and start.at and chunk.at != start.at:
                    known = 0  # the engine has thrown that part of its log away
                if first and not start.at and known and chunk.at != anchor.first:
                    return True
                first = False
                skipped = min(known, len(chunk.data))
                known -= skipped
                if follow and not skipped and chunk.at < anchor.last:
                    return True
                if skipped < len(chunk.data):
                    self._spool.append(chunk, skipped)
                    self._wake()
        finally:
            self._reading = None
            reading.close()  # type: ignore[attr-defined]
        return False

    def _after_fault(self, fault: RuntimeFault) -> float:
        if fault.reason is not FaultReason.GONE:
            self._spool.mark(problem=fault.sentence)
            return 1.0
        place = current_place(self.task_id)
        archived = find_archive(place) is not None
        if place.phase is LogPhase.STARTING and not archived:
            return 0.2  # about to be created
        self._spool.mark(ended=True, problem="" if archived else _LOST)
        return 0.0

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
            wakers = self._wakers
        for waker in wakers:
            waker()


class Followers:
    """The followers of this process, by task and stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followers: dict[tuple[int, Stream], Follower] = {}
        self._timers: dict[tuple[int, Stream], threading.Timer] = {}
        self._swept = False

    def attach(self, task_id: int, stream: Stream) -> Follower:
        """Pair each call with ``release``. Raises TooManyLogs."""
        key = (task_id, stream)
        with self._lock:
            if not self._swept:
                sweep(_spools())
                self._swept = True
            if timer := self._timers.pop(key, None):
                timer.cancel()
            found = self._followers.get(key)
            if found is None:
                self._make_room()
                found = self._followers[key] = Follower(task_id, stream)
            found.viewers += 1
            return found

    def release(self, follower: Follower) -> None:
        key = (follower.task_id, follower.stream)
        with self._lock:
            follower.viewers -= 1
            if follower.viewers == 0 and self._followers.get(key) is follower:
                self._timers[key] = timer = threading.Timer(LINGER, self._expire, [follower])
                timer.daemon = True
                timer.start()

    def close(self) -> None:
        """Stop every follower."""
        with self._lock:
            followers, self._followers = list(self._followers.values()), {}
            timers, self._timers = list(self._timers.values()), {}
        for timer in timers:
            timer.cancel()
        for follower in followers:
            follower.stop()

    def _make_room(self) -> None:
        """With the lock held. One that only lingers makes way."""
        if len(self._followers) < MOST:
            return
        for key, follower in self._followers.items():
            if follower.viewers == 0:
                self._timers.pop(key).cancel()
                del self._followers[key]
                follower.stop(timeout=0)
                return
        raise TooManyLogs

    def _expire(self, follower: Follower) -> None:
        key = (follower.task_id, follower.stream)
        with self._lock:
            if follower.viewers or self._followers.get(key) is not follower:
                return
            del self._followers[key]
            self._timers.pop(key, None)
        follower.stop()


hub = Followers()


def spool_folder(task_id: int, stream: Stream) -> Path:
    return _spools() / f"{task_id}-{stream}"


def _spools() -> Path:
    """A folder of their own: whatever is in it and open to nobody is deleted."""
    return Path(settings.HOME) / "spool" / "logs"


def _is_over(runtime: ContainerRuntime, place: LogPlace) -> bool:
    """A followed log ends with its container, and also when the engine goes away for a while."""
    for status in runtime.list(doubted=True):
        if status.name == place.container:
            return status.phase is ContainerPhase.EXITED
    raise RuntimeFault("The container is gone.", reason=FaultReason.GONE, permanent=True)
