"""Says where a task's log is: in the store, on an engine, nowhere yet, or nowhere for good.

In the store the folder of an attempt is named by its application id, which is never used twice: a job that is
submitted again under its old name does not see the logs of the older one. The folder is the user's own, so the index of
an archive is signed: one that they put there themselves is none.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import sub
from typing import Any, get_args

from django.db.models import Max, Q
from django.utils.crypto import constant_time_compare, salted_hmac

from base.core.errors import NoLog
from base.files.store import open_store
from base.files.store.base import BadPath, PathNotFound, Store
from base.models import Shared
from clusters.engines.runtime import Stream
from jobs.logs.lines import BLOCK, LogView
from jobs.logs.times import EVERY, WIDTH, Times
from jobs.models import Task
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_END_STATES, TaskState

_LONGEST = 230  # characters of a file's name; names of jobs and roles may be longer than a file system takes
LARGEST_INDEX = 8 << 20  # bytes; that of a log of some 40 GB
HEAD_GONE = "A node keeps the newest part of a log, about 500 MB: the beginning of this one is gone."
UNSIGNED = "unsigned logs"  # the name of a row of Shared: the last task whose archive may be unsigned
_INDEX = "index.json"
_ELSEWHERE = (
    "This log was kept, and the file store does not have it. If the files were moved to another store, some are "
    "missing there: an admin finds the rest where they were."
)
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
    """Return the place of a task's log. It needs the task's attempt and job: select them with the task."""
    return LogPlace(task.pk, task.label, _phase(task), task.node, task.container_name, folder_of(task))


def current_place(task_id: int) -> LogPlace:
    """The place of its log as the row says now. Raises NoLog when the task was purged meanwhile."""
    task = Task.objects.select_related("attempt", "job").filter(pk=task_id).first()
    if task is None:
        raise NoLog("The job was deleted.")
    return place_of(task)


def why_none(task_id: int) -> str:
    """Why an ended task has no log, in a sentence. One that was stopped, or refused, before its container ran never had
    any; of one that was lost nobody knows. An attempt whose logs were archived, and not deleted since, had one."""
    began = Q(container_started_at__isnull=False) | Q(exit_code__in=(exits.NODE_LOST, exits.CONTAINER_LOST))
    if Task.objects.filter(pk=task_id, state__in=sorted(TASK_END_STATES)).exclude(began).exists():
        return "Its command never began, so there is no log."
    if Task.objects.filter(pk=task_id, attempt__log_bytes__gt=0).exists():
        return _ELSEWHERE
    return "The container is gone and its log was not kept."


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


def write_index(
    store: Store, folder: str, streams: Mapping[Stream, Mapping[str, Any]], *, complete: bool, reason: str
) -> None:
    """Write the index of the archive in that folder, signed; its parts are those of an Archive."""
    head = {"version": 1, "complete": complete, "reason": reason, "archivedAt": int(time.time() * 1000)}
    body = json.dumps({**head, **streams}).encode()
    store.write(f"{folder}/{_INDEX}", [body[:-1] + _signature(folder, body)])


def find_archive(place: LogPlace, store: Store | None = None) -> Archive | None:
    """The archive of a log; None while there is none. What is no index of an archive, or of somebody else's making, is
    none. Raises StoreUnavailable."""
    try:
        with (store or open_store()).open_read(f"{place.folder}/{_INDEX}") as file:
            text = file.read(LARGEST_INDEX + 1)
    except (PathNotFound, BadPath):
        return None
    archive = _archive_in(text)
    return archive if archive and (_is_signed(text, place.folder) or _is_of_before(place)) else None


def sign_from_now_on() -> None:
    """Archives of tasks that are there already count without a signature, or with one by keys that are lost."""
    newest = Task.objects.aggregate(newest=Max("pk"))["newest"] or 0
    Shared.objects.update_or_create(name=UNSIGNED, defaults={"value": str(newest)})


def _signature(folder: str, body: bytes) -> bytes:
    """The end of an index, in the place of its last brace."""
    signature = salted_hmac("jobs.logs.index", folder.encode() + b"\0" + body, algorithm="sha256").hexdigest()
    return f', "signature": "{signature}"}}'.encode()


def _is_signed(text: bytes, folder: str) -> bool:
    length = len(_signature("", b""))
    return constant_time_compare(text[-length:], _signature(folder, text[:-length] + b"}"))


def _is_of_before(place: LogPlace) -> bool:
    """Whether its archive may be of a release that signed none."""
    newest = Shared.objects.filter(name=UNSIGNED).values_list("value", flat=True).first()
    return newest is not None and place.task_id <= int(newest)


def _archive_in(text: bytes) -> Archive | None:
    if len(text) > LARGEST_INDEX:
        return None
    try:
        index = json.loads(text)
        archive = Archive(index["complete"], index["reason"], {stream: index[stream] for stream in STREAMS})
        is_one = type(archive.complete) is bool and type(archive.reason) is str
        return archive if is_one and all(map(_is_index, archive.streams.values())) else None
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
    if state in TASK_END_STATES:
        return LogPhase.ENDED
    if state is TaskState.WAITING:
        return LogPhase.WAITING
    return LogPhase.STARTING if state is TaskState.STARTING else LogPhase.RUNNING
