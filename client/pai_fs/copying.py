"""Copies files so that a broken connection does no harm.

A large file grows under another name, in parts whose length is compared, and gets its own name at the end. A copy that
was interrupted goes on where it was when it is started again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from client.pai_fs.errors import CheckFailed, GaveUp, NoSuchPath, PaiFsError, StillWritten, Unreachable, WrongUsage
from client.pai_fs.places import LocalFile, Location, part_of, refuse_same_side
from client.pai_fs.remote import CONNECTIONS

PART = 64 << 20  # bytes added at once to a large file
SMALL = 8 << 20  # a file up to this is written in one go
ANEW = 512 << 20  # a file up to this that a dead writer holds is sent again; for a larger one we wait
# In sum 127 seconds: HDFS lets nobody else write to a file for a minute after its writer died.
TRIES, FIRST_PAUSE = 9, 0.5  # seconds, doubled each time; from the first again when more has arrived
THREADS = CONNECTIONS  # HDFS may take 0.4 s to close a small file


class CopyProgress(Protocol):
    def begin(self, total: int) -> None:
        """Called with the number of bytes to copy."""

    def at(self, name: str, done: int) -> None:
        """Called with the number of bytes of this file that are in the target."""


@dataclass(frozen=True, slots=True)
class CopyTotals:
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class _Job:
    source: Location
    target: Location
    file: LocalFile
    name: str  # in the target

    @property
    def there(self) -> str:
        return f"{self.target.path.rstrip('/')}/{self.name}"


def copy(
    source: Location, target: Location, *, contents: bool, recursive: bool, force: bool, progress: CopyProgress
) -> CopyTotals:
    """Like ``cp``: into ``target`` if it is a folder, else under that name. ``contents``: only what is in the
    folder."""
    refuse_same_side(source, target)
    kind = source.is_dir()
    if kind is None:
        raise NoSuchPath(f"{source.path} does not exist.")
    if kind and not recursive:
        raise WrongUsage(f"{source.path} is a folder; use -r.")
    if contents and not kind:
        raise PaiFsError(f"{source.path} is no folder.")
    folders, jobs = _folder(source, target, contents) if kind else ([], [_single(source, target)])
    total = sum(job.file.size for job in jobs)
    progress.begin(total)
    _work(jobs, _Worker(progress), target, folders, force)
    return CopyTotals(len(jobs), total)


def _folder(source: Location, target: Location, contents: bool) -> tuple[list[str], list[_Job]]:
    """Folders to make, and files to copy."""
    there = target.is_dir()
    if there is False:
        raise PaiFsError(f"{target.path} is a file.")
    base = f"{source.split()[1]}/" if there and not contents else ""
    folders, files = source.files()
    return [base.rstrip("/"), *(base + folder for folder in folders)], [
        _Job(source, target, file, base + file.name) for file in files
    ]


def _single(source: Location, target: Location) -> _Job:
    (file,) = source.files()[1]
    folder, name = source.split()
    named = LocalFile(name, file.size, file.mark)
    into, called = (target, name) if target.is_dir() else target.split()
    return _Job(folder, into, named, called)


def _work(jobs: list[_Job], worker: _Worker, target: Location, folders: list[str], force: bool) -> None:
    """Run the copies. The first failure, or Ctrl-C, ends all: those that run stop at their next piece, the rest is not
    begun."""
    pool = ThreadPoolExecutor(THREADS)
    try:
        fresh = bool(folders) and target.is_dir() is None
        _refuse(jobs, force or fresh)
        for folder in folders:
            target.mkdir(folder)
        for done in [pool.submit(worker.copy, job) for job in jobs]:
            done.result()
    except KeyboardInterrupt:
        worker.stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    except BaseException:
        worker.stop.set()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _refuse(jobs: list[_Job], may_replace: bool) -> None:
    """Refuse to replace what exists; each folder is listed once."""
    listed: dict[str, set[str]] = {}
    for job in jobs:
        if type(job.source) is type(job.target) and job.source.path_of(job.file.name) == job.target.path_of(job.name):
            raise PaiFsError(f"{job.there} cannot be copied onto itself.")
        if may_replace:
            continue
        folder, _, name = job.name.rpartition("/")
        if folder not in listed:
            listed[folder] = job.target.names(folder)
        if name in listed[folder]:
            raise PaiFsError(f"{job.there} exists already; -f replaces it.")


class _Stopped(Exception):
    """Another file failed."""


class _Worker:
    def __init__(self, progress: CopyProgress) -> None:
        self._progress = progress
        self.stop = threading.Event()

    def copy(self, job: _Job) -> None:
        left, pause, most = TRIES, FIRST_PAUSE, 0
        while True:
            try:
                return self._try(job)
            except Unreachable as error:
                done = self._arrived(job)
                if done > most:
                    left, pause, most = TRIES, FIRST_PAUSE, done
                left -= 1
                if not left:
                    raise GaveUp(f"{job.file.name or job.source.path} could not be copied: {error}") from error
                if self.stop.wait(pause):
                    raise _Stopped from None
                pause *= 2

    def _arrived(self, job: _Job) -> int:
        if job.file.size <= SMALL:
            return 0
        try:
            return job.target.size(part_of(job.name, job.file.mark)) or 0
        except PaiFsError:
            return 0

    def _try(self, job: _Job) -> None:
        file, part = job.file, part_of(job.name, job.file.mark)
        if file.size <= SMALL:
            sent: list[int] = []
            job.target.put(job.name, part, self._pieces(job, 0, file.size, sent))
            _check(job, sum(sent) if job.target.compares else job.target.size(job.name))
            return
        done = job.target.size(part)
        if done is None or done > file.size:
            job.target.start(part)
            done = 0
        while done < file.size:
            done = self._add(job, part, done)
        _check(job, job.target.size(part))
        job.target.rename(part, job.name)

    def _add(self, job: _Job, part: str, done: int) -> int:
        """Add a part; returns the length afterwards. If the file was longer than it seemed, the bytes would be in the
        wrong place (HDFS shows the whole length of a file only some time after its writer died): then the copy of the
        file begins anew."""
        sent: list[int] = []
        try:
            job.target.add(part, self._pieces(job, done, PART, sent))
        except StillWritten:
            if done <= ANEW:
                job.target.start(part)
            raise
        if not sent:
            raise CheckFailed(f"{job.file.name} has become shorter.")
        now = job.target.size(part)
        if now != done + sum(sent):
            job.target.start(part)
            raise Unreachable(f"{done + sum(sent)} bytes should have arrived, {now} did")
        return now

    def _pieces(self, job: _Job, offset: int, most: int, sent: list[int]) -> Iterator[bytes]:
        done = offset
        for piece in job.source.read(job.file.name, offset, most):
            if self.stop.is_set():
                raise _Stopped
            yield piece
            sent.append(len(piece))
            done += len(piece)
            self._progress.at(job.name, done)


def _check(job: _Job, found: int | None) -> None:
    if found != job.file.size:
        raise CheckFailed(f"{job.name} has {found} bytes there and {job.file.size} here. Did it change meanwhile?")
