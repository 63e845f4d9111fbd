"""Reads a task's log, ended or live: the last lines, bytes from an offset, lines by number. Never holds a whole log.

An archived log is read from the store, even when its node is gone. A live one is read from the spool that its follower
fills (jobs/logs/follow.py): reading it again costs the engine nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from base.core.errors import NodeUnreachable, NoLog
from base.files.store.base import StoreUnavailable
from clusters.engines.runtime import Stream
from jobs.logs.follow import LogFollower, hub
from jobs.logs.lines import LogView
from jobs.logs.places import HEAD_GONE, LogPhase, LogPlace, current_place, find_archive, place_of
from jobs.logs.text import TextLine
from jobs.models import Attempt, Job, Task

PATIENCE = 2.5  # seconds without a byte until a node counts as silent
_LONGEST = 60.0  # seconds a request waits until a long log has arrived
_GLANCE = 2.0  # seconds a page waits for it: the page's event stream brings the rest


@dataclass(frozen=True, slots=True)
class Log:
    """A log to read from. ``ended``: nothing will be added. ``note``: a sentence that says why a part is missing, or
    empty."""

    view: LogView
    ended: bool
    note: str = ""

    def start_of_tail(self, lines: int) -> int:
        """The offset at which the last ``lines`` lines begin. Text behind the last newline counts as a line."""
        if lines <= 0:
            return self.view.size
        return self.view.start_of(max(1, self.view.line_count() - lines + 1))


def find_task(job: Job, role: str, index: int, number: int | None = None) -> Task:
    """The task of that attempt (default: the newest), read together with its attempt and job. Raises NoLog."""
    wanted = number or job.attempt_number
    task = (
        Task.objects.select_related("attempt", "job")
        .filter(attempt__job=job, attempt__number=wanted, role=role, index=index)
        .first()
    )
    if task is not None:
        return task
    if not Attempt.objects.filter(job=job, number=wanted).exists():
        raise NoLog(f"Job {job.name} has no attempt {wanted}.")
    raise NoLog(f"Job {job.name} has no task {role}-{index}.")


def open_log(task: Task, stream: Stream, *, stale: bool = False, patience: float = _GLANCE) -> Log:
    """The log as it is now.

    Raises NoLog with the reason when there is none, and NodeUnreachable within PATIENCE seconds when its node does not
    answer. With ``stale`` the part that was copied before is returned instead, with a note, and a long log is waited
    for only for ``patience`` seconds.
    """
    place = place_of(task)
    if (archived := _archived(task, place, stream)) is not None:
        return archived
    if place.phase is LogPhase.WAITING:
        raise NoLog(f"{place.label} waits for its turn, so it has no log yet.")
    if place.phase is LogPhase.ENDED and not (place.container and place.node):
        raise NoLog(f"{place.label} never had a container, so it has no log.")
    follower = hub.attach(task.pk, stream)
    try:
        return _when_ready(follower, place, patience if stale else _LONGEST, stale=stale)
    finally:
        hub.release(follower)


def _archived(task: Task, place: LogPlace, stream: Stream) -> Log | None:
    """The archived log; None when there is none yet. While the store is down, the log of an ended task is read from its
    container, which is removed only after the log is archived."""
    try:
        return open_archive(place, stream)
    except StoreUnavailable:
        if task.collected:
            raise
        return None


def open_archive(place: LogPlace, stream: Stream) -> Log | None:
    """The log in the store; None while it is not archived. Raises NoLog for an archive that says that there is no
    log."""
    if place.phase in (LogPhase.WAITING, LogPhase.STARTING):
        return None
    archive = find_archive(place)
    if archive is None:
        return None
    view = archive.view(place, stream)
    if not archive.complete and view.size == 0 and archive.reason != HEAD_GONE:
        raise NoLog(archive.reason)
    return Log(view, ended=True, note=archive.reason)


def tail(task: Task, stream: Stream, lines: int) -> bytes:
    """The last lines as one piece: only for so many as fit into memory."""
    log = open_log(task, stream)
    return b"".join(log.view.pieces(log.start_of_tail(lines)))


def last_lines(log: Log, count: int) -> list[TextLine]:
    total = log.view.line_count()
    return log.view.lines(max(1, total - count + 1), count)


def _when_ready(follower: LogFollower, place: LogPlace, longest: float, *, stale: bool) -> Log:
    try:
        _await_copy(follower, place, longest)
    except NodeUnreachable as silent:
        if not (stale and follower.spool.size()):
            raise
        return Log(follower.spool.view(), ended=False, note=silent.message)
    state = follower.spool.state()  # read before the view, so that the view has all that the state speaks of
    view = follower.spool.view()
    if state.ended:
        try:
            archived = open_archive(current_place(place.task_id), follower.stream)
        except StoreUnavailable:
            archived = None  # the spool has all of it
        if archived is not None:
            return archived
        if state.problem and not view.size:
            raise NoLog(state.problem)
    elif state.problem and not stale:
        raise NodeUnreachable(f"The log of {place.label} cannot be read now. {state.problem}")
    return Log(view, ended=state.ended, note=state.problem)


def _await_copy(follower: LogFollower, place: LogPlace, longest: float) -> None:
    """Wait until the spool has everything that the engine has. A log that keeps coming may take ``longest`` seconds."""
    begun = quiet_since = time.monotonic()
    size = 0
    while not ((state := follower.spool.state()).caught_up or state.ended):
        now, seen = time.monotonic(), follower.spool.size()
        if seen > size:
            size, quiet_since = seen, now
        if place.phase is LogPhase.STARTING and now - quiet_since > 0.5:
            raise NoLog(f"{place.label} is starting and has written nothing yet.")
        if state.problem:
            raise NodeUnreachable(f"The log of {place.label} cannot be read now. {state.problem}")
        if now - quiet_since > PATIENCE:
            raise NodeUnreachable(f"Node {place.node} does not answer, so the log of {place.label} cannot be read now.")
        if now - begun > longest:
            raise NodeUnreachable(f"The log of {place.label} is long and still on its way. Try again in a minute.")
        follower.wait(0.1)
