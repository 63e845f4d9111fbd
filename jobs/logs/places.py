"""Says where a task's log is: in the store, on an engine, nowhere yet, or nowhere for good.

In the store the folder of an attempt is named by its application id, which is never used twice: a job that is
submitted again under its old name does not see the logs of the older one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from array import array
from dataclasses import dataclass
from enum import StrEnum
from operator import sub
from typing import Any, get_args

from clusters.engines.runtime import Stream
from jobs.logs.lines import BLOCK, LogView
from jobs.logs.times import EVERY, WIDTH, Times
from jobs.models import Task
from jobs.planning.lifecycle import TASK_ENDS, TaskState
from portal.core.errors import NoLog
from portal.files.store import open_store
from portal.files.store.base import BadPath, PathNotFound, Store

_LONGEST = 230  # characters of a file's name; names of jobs and roles may be longer than a file system takes
LARGEST_INDEX = 8 << 20  # bytes; that of a log of some 40 GB
HEAD_GONE = "A node keeps the newest part of a log, about 500 MB: the beginning of this one is gone."
STREAMS: tuple[Stream, ...] = get_args(Stream)


class LogPhase(StrEnum):
    WAITING = "waiting"  # not placed: no container, no log
    STARTING = "starting"  # placed; a container may exist or not
    RUNNING = "running"  # its container has started
    ENDED = "ended"  # nothing more will be written


@dataclass(frozen=True, slots=True)
class LogPlace:
    """What the task's row says about its log at the moment. ``folder`` is the path of its archive in the store."""

    task_id: int
    label: str  # worker-0
    phase: LogPhase
    node: str
    container: str  # its name; empty when no container was ever ordered
    folder: str


@dataclass(frozen=True, slots=True)
class Archive:
    """The index of an archived log. When ``complete`` is False a part could not be read, and ``reason`` says why.
    ``streams``: {"stdout": {"bytes", "newlines", "blocks", "lines", "tops"}, ...}; older ones have no lines and tops,
    and no file of times."""

    complete: bool
    reason: str
    streams: dict[str, dict[str, Any]]

    def view(self, place: LogPlace, stream: Stream) -> LogView:
        index = self.streams[stream]
        path = f"{place.folder}/{stream}"

        def read(offset: int, limit: int) -> bytes:
            with open_store().open_read(path, offset) as file:
                return file.read(max(0, limit))

        return LogView(index["bytes"], index["newlines"], array("Q", index["blocks"]), read, _times(path, index))


def _times(path: str, index: dict[str, Any]) -> Times | None:
    if "tops" not in index:
        return None

    def read(first: int, count: int) -> array[int]:
        with open_store().open_read(f"{path}.times", first * WIDTH) as file:
            return array("q", file.read(count * WIDTH).ljust(count * WIDTH, b"\0"))

    return Times(index["lines"], array("q", base64.b64decode(index["tops"])), read, path)


def place_of(task: Task) -> LogPlace:
    """The place of a task's log. It needs the task's attempt and job: select them with the task."""
    return LogPlace(task.pk, task.label, _phase(task), task.node, task.container_name, folder_of(task))


def current_place(task_id: int) -> LogPlace:
    """The place of its log as the row says now. Raises NoLog when the task was purged meanwhile."""
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
    """The folder in the store for everything that Longshore writes there about a job (v1 contract, 1.7)."""
    return f"/Container/{_as_name(username)}/{as_file_name(full_name)}"


def as_file_name(full_name: str) -> str:
    """The name itself; a longer one than a store takes is cut and gets a hash. Endings such as ``.pub`` still fit."""
    if len(full_name) <= _LONGEST:
        return _as_name(full_name)
    return f"{full_name[: _LONGEST - 17]}~{hashlib.sha256(full_name.encode()).hexdigest()[:16]}"


def _as_name(text: str) -> str:
    return "%2E" * len(text) if text in (".", "..") else text


def find_archive(place: LogPlace, store: Store | None = None) -> Archive | None:
    """The archive of a log; None while there is none. Its folder is the user's own, who may write there too: what is no
    index of an archive is none. Raises StoreUnavailable."""
    try:
        with (store or open_store()).open_read(f"{place.folder}/index.json") as file:
            return _archive_in(file.read(LARGEST_INDEX + 1))
    except (PathNotFound, BadPath):
        return None


def _archive_in(text: bytes) -> Archive | None:
    if len(text) > LARGEST_INDEX:
        return None
    try:
        index = json.loads(text)
        found = Archive(index["complete"], index["reason"], {stream: index[stream] for stream in STREAMS})
        is_one = type(found.complete) is bool and type(found.reason) is str
        return found if is_one and all(map(_is_index, found.streams.values())) else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _is_index(index: dict[str, Any]) -> bool:
    """Whether the numbers of a stream agree with each other, as readers count on. Raises what Python raises of JSON
    that has another shape."""
    size, newlines, blocks = index["bytes"], index["newlines"], index["blocks"]
    edges = [*blocks, newlines]
    if {type(size), *map(type, edges)} != {int}:
        return False
    steps = list(map(sub, edges[1:], edges))  # a log of 10 GB has 150,000, which every look at it takes
    grows = min(steps, default=0) >= 0 and max(steps, default=0) <= BLOCK
    if not grows or edges[0] != 0 or len(blocks) != -(-size // BLOCK):
        return False
    if "tops" not in index:
        return True
    lines, tops = index["lines"], base64.b64decode(index["tops"], validate=True)
    return type(lines) is int and lines >= 0 and len(tops) == WIDTH * (lines // EVERY + 1)


def _phase(task: Task) -> LogPhase:
    state = TaskState(task.state)
    if state in TASK_ENDS:
        return LogPhase.ENDED
    if state is TaskState.WAITING:
        return LogPhase.WAITING
    return LogPhase.STARTING if state is TaskState.STARTING else LogPhase.RUNNING
