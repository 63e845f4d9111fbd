"""Where a task's log is: in the store, on an engine, not there yet, or never.

The folder of an attempt bears its application id, which is never used twice: a job submitted again under its old name
does not meet its predecessor's logs.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args

from clusters.engines.runtime import Stream
from jobs.logs.lines import LogView
from jobs.models import Task
from jobs.planning.lifecycle import TASK_ENDS, TaskState
from portal.core.errors import NoLog
from portal.files.store import open_store
from portal.files.store.base import PathNotFound, Store

_LONGEST = 230  # characters of a name; jobs and roles may have more than the 255 bytes that a file system takes
HEAD_GONE = "A node keeps the newest part of a log, about 500 MB: the beginning of this one is gone."
STREAMS: tuple[Stream, ...] = get_args(Stream)


class LogPhase(StrEnum):
    WAITING = "waiting"  # not placed: no container, no log
    STARTING = "starting"  # placed; a container may exist or not
    RUNNING = "running"  # its container has started
    ENDED = "ended"  # nothing more will be written


@dataclass(frozen=True, slots=True)
class LogPlace:
    """What the rows say of one task's log right now. ``folder`` is its path in the store."""

    task_id: int
    label: str  # worker-0
    phase: LogPhase
    node: str
    container: str  # name; empty while none was ever asked for
    folder: str


@dataclass(frozen=True, slots=True)
class Archive:
    """The index of an archived log. ``complete`` is False when not all of it could be read; ``reason`` then says why.
    ``streams``: {"stdout": {"bytes", "newlines", "blocks"}, ...}."""

    complete: bool
    reason: str
    streams: dict[str, dict[str, Any]]

    def view(self, place: LogPlace, stream: Stream) -> LogView:
        index = self.streams[stream]
        path = f"{place.folder}/{stream}"

        def read(offset: int, limit: int) -> bytes:
            with open_store().open_read(path, offset) as file:
                return file.read(max(0, limit))

        return LogView(index["bytes"], index["newlines"], array("Q", index["blocks"]), read)


def place_of(task: Task) -> LogPlace:
    """Reads the attempt and the job; select them with the task."""
    return LogPlace(task.pk, task.label, _phase(task), task.node, task.container_name, folder_of(task))


def current_place(task_id: int) -> LogPlace:
    """Raises NoLog when the task was purged meanwhile."""
    task = Task.objects.select_related("attempt", "job").filter(pk=task_id).first()
    if task is None:
        raise NoLog("The job was deleted.")
    return place_of(task)


def folder_of(task: Task) -> str:
    job = task.job
    return f"{attempt_folder(job.username, job.full_name, task.attempt.app_id)}/{as_file_name(task.label)}"


def attempt_folder(username: str, full_name: str, app_id: str) -> str:
    return f"{job_folder(username, full_name)}/log/{_as_name(app_id)}"


def job_folder(username: str, full_name: str) -> str:
    """Of all that Longshore keeps of a job in the store (v1 contract, 1.7)."""
    return f"/Container/{_as_name(username)}/{as_file_name(full_name)}"


def as_file_name(full_name: str) -> str:
    """The job's name itself, unless it is longer than a store's names may be (a key adds ``.pub``, a part its mark)."""
    if len(full_name) <= _LONGEST:
        return _as_name(full_name)
    return f"{full_name[: _LONGEST - 17]}~{hashlib.sha256(full_name.encode()).hexdigest()[:16]}"


def _as_name(text: str) -> str:
    return "%2E" * len(text) if text in (".", "..") else text


def find_archive(place: LogPlace, store: Store | None = None) -> Archive | None:
    try:
        with (store or open_store()).open_read(f"{place.folder}/index.json") as file:
            index = json.load(file)
    except PathNotFound:
        return None
    return Archive(index["complete"], index["reason"], {stream: index[stream] for stream in STREAMS})


def _phase(task: Task) -> LogPhase:
    state = TaskState(task.state)
    if state in TASK_ENDS:
        return LogPhase.ENDED
    if state is TaskState.WAITING:
        return LogPhase.WAITING
    return LogPhase.STARTING if state is TaskState.STARTING else LogPhase.RUNNING
