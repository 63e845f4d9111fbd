"""Follows the logs that have viewers: one thread and one engine connection for each stream, however many viewers.

A ``LogFollower`` copies its stream from the engine into a spool (jobs/logs/spool.py) and wakes its viewers. It begins
with the first viewer, goes on through reconnects, engine restarts and silent nodes, and ends some time after the last
viewer left. At most MOST followers run in one process. What they have copied is in the store too, where other hosts
have the same one (jobs/logs/mirror.py).
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

from base.core.errors import DiskFull, LongshoreError, NoLog, is_disk_full
from clusters.engines.runtime import ContainerRuntime, FaultReason, Phase, RuntimeFault, Stream
from clusters.engines.schemes import runtime_for
from jobs.logs import mirror
from jobs.logs.mirror import Mirror
from jobs.logs.places import LogPhase, LogPlace, current_place, find_archive, why_none
from jobs.logs.spool import Anchor, Spool, clean_up

MOST = 512
REREAD = 1.0  # seconds until a log that was read again from its beginning is followed again
LINGER = 60.0  # seconds a follower outlives its last viewer, as pages are reloaded and clients poll

_FULL = "The disk of this host of the portal is full. The rest of the log comes when it has room."
_log = structlog.get_logger("jobs.logs")


class TooManyLogs(LongshoreError):
    """Too many logs are being watched at the moment. Try again in a minute."""

    code, status = "TooManyLogsError", 503


class LogFollower:
    """Copies one stream of one task in a thread of its own. Viewers read its ``spool``."""

    def __init__(self, task_id: int, stream: Stream) -> None:
        self.task_id, self.stream = task_id, stream
        self.viewers = 0
        self.shared: dict[Any, Any] = {}  # what viewers at the same place need alike (jobs/logs/together/live.py)
        self.spool = Spool(spool_folder(task_id, stream))
        self._wakers: set[Callable[[], None]] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._reading: Any = None
        self._mirror: Mirror | None = None
        self._thread = threading.Thread(target=self._run, name=f"log-{task_id}-{stream}", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> None:
        """Block until something has changed, or for ``timeout`` seconds."""
        with self._changed:
            self._changed.wait(timeout if self.spool.copies else min(timeout, 0.1))

    def subscribe(self, waker: Callable[[], None]) -> None:
        """``waker`` is called from the follower's thread at each change and must return at once."""
        with self._changed:
            self._wakers = self._wakers | {waker}

    def unsubscribe(self, waker: Callable[[], None]) -> None:
        with self._changed:
            self._wakers = self._wakers - {waker}

    def flush(self) -> None:
        """Write what has been copied to the store that hosts share."""
        if self._mirror is not None and self.spool.copies:
            self._mirror.flush(self.spool)

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
                pause = self._step()
                self._wake()
                if self.spool.state().ended:
                    self._stop.wait()
                self._stop.wait(pause)
        finally:
            if self._mirror is not None:
                self._mirror.close(self.spool)
            self.spool.close()
            connections.close_all()

    def _step(self) -> float:
        """Copy until the stream ends; returns the seconds to wait before the next step."""
        try:
            if not self.spool.acquire():
                return 0.5
            place = current_place(self.task_id)
            try:
                return self._copy_all(place)
            except RuntimeFault as fault:
                return self._after_fault(fault, place)
        except NoLog as gone:
            self.spool.mark(gone.message, ended=True)
            return 0.0
        except Exception as error:  # a defect, or no database: the viewers wait, the next step may succeed
            if is_disk_full(error):
                return self._after_full_disk()
            _log.warning("following a log failed", task=self.task_id, stream=self.stream, exc_info=error)
            return 2.0

    def _copy_all(self, place: LogPlace) -> float:
        if not place.container or not place.node:
            if place.phase is LogPhase.ENDED:
                raise NoLog(f"{place.label} never had a container, so it has no log.")
            return 0.5 if place.phase is LogPhase.WAITING else 0.2
        if self._mirror is None:
            copy = Mirror(place, self.stream)
            copy.begin(self.spool)
            self._mirror = copy
        runtime = runtime_for(place.node)
        connections.close_all()  # the copying may take days
        if not self.spool.state().caught_up:
            self._catch_up(runtime, place, self.spool.state().anchor)
            self.spool.mark("", caught_up=True)
            self._wake()
        if unclear := self._copy(runtime, place, self.spool.state().anchor, follow=True):
            self._catch_up(runtime, place, unclear)
            return REREAD
        if not self._stop.is_set() and _is_over(runtime, place):
            self._catch_up(runtime, place, self.spool.state().anchor)
            self.spool.mark("", ended=True)
        return 0.1

    def _catch_up(self, runtime: ContainerRuntime, place: LogPlace, start: Anchor) -> None:
        """Copy everything that the engine has now, from ``start`` on."""
        anchor = self.spool.state().anchor
        if self._copy(runtime, place, start):  # the engine dropped the beginning: bytes cannot be counted from there
            self._copy(runtime, place, Anchor(anchor.newest, anchor.bytes if anchor.at else 0))

    def _copy(
        self, runtime: ContainerRuntime, place: LogPlace, start: Anchor, *, follow: bool = False
    ) -> Anchor | None:
        """Copy the engine's log from ``start`` on. The engine first repeats ``start.bytes`` bytes, which are passed
        over.

        Stops early when it is unclear which bytes are repeated, and returns from where to read again without following:
        then an engine gives each byte once, and counting them tells what is new. It is unclear when the whole log does
        not begin as the copy does, and when a followed log goes back to a stamp it has passed or begun at: the chunk
        may be new (the node's clock was set back, a long line comes in pieces of one stamp) or old (the engine sends a
        file again that it has just rotated). A clock that is set back behind ``start`` is not noticed; the archive will
        have the whole log.
        """
        repeated, first = start.bytes, True
        self._reading = reading = runtime.logs(place.container, self.stream, since=start.at, follow=follow)
        try:
            if self.spool.state().caught_up and self.spool.state().problem:  # the engine answers again
                self.spool.mark("")
                self._wake()
            for chunk in reading:
                anchor = self.spool.state().anchor
                if self._stop.is_set():
                    return None
                if first and start.at and chunk.at != start.at:
                    repeated = 0  # the engine has thrown that part of its log away
                if first and not start.at and repeated and chunk.at != anchor.first:
                    return Anchor("", self.spool.size())
                first = False
                skipped = min(repeated, len(chunk.data))
                repeated -= skipped
                if follow and not skipped and chunk.at < anchor.last:
                    return Anchor("", self.spool.size())
                if skipped < len(chunk.data):
                    if follow and chunk.at == start.at:
                        return anchor
                    self.spool.append(chunk, skipped)
                    self._wake()
        finally:
            self._reading = None
            reading.close()  # type: ignore[attr-defined]
        return None

    def _after_fault(self, fault: RuntimeFault, asked: LogPlace) -> float:
        """Note why nothing comes; returns the seconds to wait before the next step. ``asked`` is what was known when
        the engine was asked: a container that it did not have then may have been made since."""
        if fault.reason is not FaultReason.GONE:
            self.spool.mark(fault.sentence)
            return 1.0
        archived = find_archive(current_place(self.task_id)) is not None
        if asked.phase is LogPhase.STARTING and not archived:
            return 0.2  # the container is about to be created
        self.spool.mark("" if archived else why_none(self.task_id), ended=True)
        return 0.0

    def _after_full_disk(self) -> float:
        """What was copied stays; the rest is asked for again once there is room."""
        if self.spool.copies and self.spool.state().problem != _FULL:
            _log.warning("a log is not copied: the disk of this host is full", task=self.task_id, stream=self.stream)
            self.spool.mark(_FULL)
        return 2.0

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
        self._followers: dict[tuple[int, Stream], LogFollower] = {}
        self._timers: dict[tuple[int, Stream], threading.Timer] = {}
        self._cleaned = False
        self._closed = threading.Event()

    def attach(self, task_id: int, stream: Stream) -> LogFollower:
        """The follower of this stream, started if there is none. Pair each call with ``release``. Raises
        TooManyLogs, DiskFull."""
        key = (task_id, stream)
        with self._lock:
            if not self._cleaned:
                clean_up(_spools())
                self._cleaned = True
                self._closed = threading.Event()
                if mirror.is_shared():
                    threading.Thread(target=self._flush, args=(self._closed,), name="log-mirror", daemon=True).start()
            if timer := self._timers.pop(key, None):
                timer.cancel()
            follower = self._followers.get(key)
            if follower is None:
                self._make_room()
                follower = self._followers[key] = _started(task_id, stream)
            follower.viewers += 1
            return follower

    def release(self, follower: LogFollower) -> None:
        key = (follower.task_id, follower.stream)
        with self._lock:
            follower.viewers -= 1
            if follower.viewers == 0 and self._followers.get(key) is follower:
                self._timers[key] = timer = threading.Timer(LINGER, self._expire, [follower])
                timer.daemon = True
                timer.start()

    def close(self) -> None:
        """Stop every follower."""
        self._closed.set()
        with self._lock:
            self._cleaned = False
            followers, self._followers = list(self._followers.values()), {}
            timers, self._timers = list(self._timers.values()), {}
        for timer in timers:
            timer.cancel()
        for follower in followers:
            follower.stop()

    def _flush(self, closed: threading.Event) -> None:
        """The thread that writes all copies to the store that hosts share."""
        while not closed.wait(mirror.EVERY):
            for follower in list(self._followers.values()):
                try:
                    follower.flush()
                except Exception as error:  # a defect, or the spool has just gone
                    _log.warning("a log's copy was not written", task=follower.task_id, exc_info=error)

    def _make_room(self) -> None:
        """Stop a follower without viewers when there are too many. Call it with the lock held. Raises TooManyLogs."""
        if len(self._followers) < MOST:
            return
        for key, follower in self._followers.items():
            if follower.viewers == 0:
                self._timers.pop(key).cancel()
                del self._followers[key]
                follower.stop(timeout=0)
                return
        raise TooManyLogs

    def _expire(self, follower: LogFollower) -> None:
        key = (follower.task_id, follower.stream)
        with self._lock:
            if follower.viewers or self._followers.get(key) is not follower:
                return
            del self._followers[key]
            self._timers.pop(key, None)
        follower.stop()


hub = Followers()


def _started(task_id: int, stream: Stream) -> LogFollower:
    try:
        return LogFollower(task_id, stream)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull from error
        raise


def spool_folder(task_id: int, stream: Stream) -> Path:
    return _spools() / f"{task_id}-{stream}"


def _spools() -> Path:
    """The folder of all spools. Everything in it that nobody has open is deleted."""
    return Path(settings.HOME) / "spool" / "logs"


def _is_over(runtime: ContainerRuntime, place: LogPlace) -> bool:
    """Whether the container has ended: a followed log also ends when the engine goes away for a while. Raises
    RuntimeFault (GONE)."""
    for status in runtime.list(doubted=True):
        if status.name == place.container:
            return status.phase is Phase.EXITED
    raise RuntimeFault("The container is gone.", reason=FaultReason.GONE, permanent=True)
