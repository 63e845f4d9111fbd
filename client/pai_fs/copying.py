"""Copies files so that a broken connection does no harm.

A large file grows under another name, in parts whose length is compared, and gets its own name at the end. A copy that
was interrupted goes on where it was when it is started again. What cannot fit is not begun, and what failed for good
leaves nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from . import together
from .bar import CopyProgress
from .checksums import is_same, sha1
from .errors import (
    CheckFailed,
    GaveUp,
    NoRoom,
    NoSuchPath,
    PaiFsError,
    SignedOut,
    StillWritten,
    ThereAlready,
    Unreachable,
    WrongUsage,
)
from .patience import Patience, Stopped
from .places import FoundFiles, LocalFile, Location, RemotePlace, ThereFile, is_part, part_of, refuse_same_side
from .remote import CONNECTIONS
from .running import only_copy

PART = 64 << 20  # bytes added at once to a large file
SMALL = 8 << 20  # a file up to this is written in one go
ANEW = 512 << 20  # a file up to this that a dead writer holds is sent again; for a larger one we wait
LEFT_DAYS = 7  # after which an unfinished copy, to which nothing was added, is removed by the next into its folder
NAMED = 20  # of what is left out; of more it is said how many
THREADS = CONNECTIONS  # HDFS may take 0.4 s to close a small file


@dataclass(frozen=True)
class CopyOptions:
    """``contents``: only what is in the folder, and ``recursive`` takes the folders among it. ``into``: the target is a
    folder, also if it must be made. ``force``: what is there is replaced. ``missing``: but for what is there as long as
    here, and not older. ``checksum``: but for what has the same content; what was copied is compared. ``patience``:
    seconds for which a server that is away is waited for."""

    contents: bool = False
    recursive: bool = False
    into: bool = False
    force: bool = False
    missing: bool = False
    checksum: bool = False
    patience: float = 0


@dataclass(frozen=True)
class CopyTotals:
    files: int
    size: int
    left_out: int = 0


@dataclass(frozen=True)
class _Job:
    source: Location
    target: Location
    file: LocalFile
    name: str  # in the target

    @property
    def is_small(self) -> bool:
        return self.file.size <= SMALL

    @property
    def part(self) -> str:
        """Nobody goes on with a small one, so each process has its own."""
        return part_of(self.name, f"{self.file.mark}-{os.getpid()}" if self.is_small else self.file.mark)

    @property
    def there(self) -> str:
        return f"{self.target.path.rstrip('/')}/{self.name}"

    def is_same(self) -> bool:
        return is_same(self.source, self.file.name, self.target, self.name, self.file.size)


def copy(source: Location, target: Location, options: CopyOptions, progress: CopyProgress) -> CopyTotals:
    """Like ``cp``: into ``target`` if it is a folder, else under that name. What of a folder cannot be copied is noted
    and left out."""
    refuse_same_side(source, target)
    patience = Patience(options.patience, progress.note)
    found, folders, jobs = patience.until_done(lambda: _planned(source, target, options))
    _tell(found, progress)
    total = sum(job.file.size for job in jobs)
    progress.begin(total)
    gone = _work(jobs, progress, source, target, folders, _Worker(progress, patience, may_replace=options.force))
    went_away = [f"{source.path_of(job.file.name)} (it went while the others were copied)" for job in gone]
    _tell_left_out(went_away, progress)
    for job in jobs if options.checksum else ():
        if job not in gone and not job.is_same():
            raise CheckFailed(f"{job.there} has not the content of {source.path_of(job.file.name)}.")
    copied = total - sum(job.file.size for job in gone)
    return CopyTotals(len(jobs) - len(gone), copied, len(found.left_out) + len(gone))


def _planned(source: Location, target: Location, options: CopyOptions) -> tuple[FoundFiles, list[str], list[_Job]]:
    """What was found, folders to make, and files to copy."""
    kind = source.is_dir()
    if kind is None:
        raise NoSuchPath(f"{source.path} does not exist.")
    if kind and not options.recursive and not options.contents:
        raise WrongUsage(f"{source.path} is a folder; use -r.")
    if options.contents and not kind:
        raise PaiFsError(f"{source.path} is no folder.")
    found = source.files()
    if options.contents and found.folders and not options.recursive:
        raise WrongUsage(f"{source.path} has folders in it, as {min(found.folders)}; use -r.")
    single = [] if kind else [_single(source, target, found, options.into)]
    folders, jobs = _folder(source, target, options, found) if kind else ([], single)
    if options.missing or options.checksum:
        there = _there(jobs)
        jobs = [job for job in jobs if not _is_there(job, there, options.checksum)]
    return found, folders, jobs


def _tell_left_out(told: list[str], progress: CopyProgress) -> None:
    for each in told[:NAMED]:
        progress.note(f"left out: {each}")
    if len(told) > NAMED:
        progress.note(f"left out: {len(told) - NAMED} more")


def _tell(found: FoundFiles, progress: CopyProgress) -> None:
    _tell_left_out([*found.left_out, *(f"{each} (a link to a folder that it is in)" for each in found.loops)], progress)
    if found.links:
        progress.note(f"links that are followed, so that what they lead to is copied: {found.links}")


def _folder(source: Location, target: Location, how: CopyOptions, found: FoundFiles) -> tuple[list[str], list[_Job]]:
    """Folders to make, and files to copy."""
    there = target.is_dir()
    if there is False:
        raise PaiFsError(f"{target.path} is a file.")
    name = "" if how.contents or not (there or how.into) else source.split()[1]  # that of / is empty too
    base = f"{name}/" if name else ""
    return [name, *(base + folder for folder in found.folders)], [
        _Job(source, target, file, base + file.name) for file in found.files
    ]


def _single(source: Location, target: Location, found: FoundFiles, into: bool) -> _Job:
    (file,) = found.files
    folder, name = source.split()
    named = replace(file, name=name)
    is_dir = target.is_dir()
    if into and is_dir is False:
        raise PaiFsError(f"{target.path} is a file.")
    there, called = (target, name) if is_dir or into else target.split()
    return _Job(folder, there, named, called)


def _work(
    jobs: list[_Job], progress: CopyProgress, source: Location, target: Location, folders: list[str], worker: _Worker
) -> list[_Job]:
    """Run the copies, and return those of a folder whose file is gone meanwhile. The first other failure, or Ctrl-C,
    ends all: those that run stop at their next piece, the rest is not begun."""
    gone: list[_Job] = []
    pool, stop = ThreadPoolExecutor(THREADS), worker.patience.stop
    try:
        worker.patience.until_done(lambda: _make_ready(jobs, progress, source, target, folders, worker.may_replace))
        left = worker.copy_together(target, jobs)
        for job, done in [(job, pool.submit(worker.copy, job)) for job in left]:
            try:
                done.result()
            except (FileNotFoundError, NoSuchPath):
                if not folders or source.size(job.file.name) is not None:
                    raise
                gone.append(job)
    except KeyboardInterrupt:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    except BaseException:
        stop.set()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
    return gone


def _make_ready(
    jobs: list[_Job], progress: CopyProgress, source: Location, target: Location, folders: list[str], may_replace: bool
) -> None:
    fresh = bool(folders) and target.is_dir() is None
    there = {} if fresh else _there(jobs)
    _refuse(jobs, there, may_replace=may_replace)
    _remove_left(jobs, there, progress)
    _require_room(jobs, there, source)
    for folder in folders:
        target.mkdir(folder)


_There = dict[str, dict[str, ThereFile]]  # by folder, by name


def _there(jobs: list[_Job]) -> _There:
    """What is in the folders into which they go; each is listed once, and none below one that is not there."""
    listed: dict[str, dict[str, ThereFile] | None] = {}

    def look(target: Location, folder: str) -> dict[str, ThereFile] | None:
        if folder not in listed:
            above = look(target, folder.rpartition("/")[0]) if "/" in folder else {}
            listed[folder] = None if above is None else target.there(folder)
        return listed[folder]

    for job in jobs:
        look(job.target, job.name.rpartition("/")[0])
    return {folder: files for folder, files in listed.items() if files}


def _found(there: _There, name: str) -> ThereFile | None:
    folder, _, base = name.rpartition("/")
    return there.get(folder, {}).get(base)


def _is_there(job: _Job, there: _There, checksum: bool) -> bool:
    has = _found(there, job.name)
    if has is None or has.size != job.file.size:
        return False
    return job.is_same() if checksum else has.modified >= job.file.modified


def _refuse(jobs: list[_Job], there: _There, *, may_replace: bool) -> None:
    """Refuse to replace what exists."""
    for job in jobs:
        if type(job.source) is type(job.target) and job.source.path_of(job.file.name) == job.target.path_of(job.name):
            raise PaiFsError(f"{job.there} cannot be copied onto itself.")
        if not may_replace and _found(there, job.name):
            raise ThereAlready(f"{job.there} exists already; -f replaces it.")


def _remove_left(jobs: list[_Job], there: _There, progress: CopyProgress) -> None:
    """Remove unfinished copies that nobody goes on with: they take room, and no list of files to copy names them."""
    mine, now, removed = {job.part for job in jobs}, time.time(), 0
    for folder, files in there.items():
        for base, file in list(files.items()):
            name = f"{folder}/{base}" if folder else base
            if is_part(base) and name not in mine and now - file.modified > LEFT_DAYS * 24 * 3600:
                jobs[0].target.remove(name)
                removed += 1
    if removed:
        progress.note(f"removed unfinished copies to which nothing was added for {LEFT_DAYS} days: {removed}")


def _require_room(jobs: list[_Job], there: _There, source: Location) -> None:
    """Refuse what cannot fit before the first byte of it. What has arrived of a large file takes no more room, and a
    small one takes that of the file which it replaces."""
    more = 0
    for job in jobs:
        has = _found(there, job.name if job.is_small else job.part)
        more += job.file.size - (has.size if has else 0)
    if more <= 0:
        return
    try:
        jobs[0].target.require_room(jobs[0].name, more)
    except NoRoom as error:
        what = jobs[0].there if len(jobs) == 1 else f"All {len(jobs)} files of {source.path} together"
        raise NoRoom(f"{what} cannot be copied, nothing was begun. {error}") from None


class _Worker:
    def __init__(self, progress: CopyProgress, patience: Patience, *, may_replace: bool) -> None:
        self._progress, self.patience, self.may_replace = progress, patience, may_replace
        self._is_full, self._again = False, set[str]()  # of which files it is not known whether they are there

    def copy_together(self, target: Location, jobs: list[_Job]) -> list[_Job]:
        """Copy small files to a portal, many with one request. Returns those that are left, to be copied one by one."""
        small = [job for job in jobs if job.is_small]
        if not (isinstance(target, RemotePlace) and target.compares and len(small) >= together.FEW):
            return jobs
        files = [(job.name, job.file.size, self._pieces(job, 0, job.file.size, [])) for job in small]
        done, tried = together.send(lambda tar: target.unpack(tar, replace=self.may_replace), files)
        self._again.update(job.name for job in small[done : done + tried])
        return small[done:] + [job for job in jobs if not job.is_small]

    def copy(self, job: _Job) -> None:
        """Copy it. Raises AlreadyRunning where another process does."""
        if job.is_small:
            return self._copy(job)
        with only_copy(job.target.where(job.part), job.there):
            self._copy(job)

    def _copy(self, job: _Job) -> None:
        """What has arrived stays for the next try when the connection broke, when one must sign in again, or when
        another file failed; it does not when this one failed for good, nor where room is what lacks."""
        try:
            self._persist(job)
        except (GaveUp, SignedOut):
            raise
        except Stopped:
            if self._is_full:
                job.target.remove(job.part)
            raise
        except Exception as error:
            self._is_full |= isinstance(error, NoRoom)
            job.target.remove(job.part)
            if isinstance(error, ThereAlready):
                raise ThereAlready(f"{job.there} came there meanwhile, and stays as it is; -f replaces it.") from error
            if isinstance(error, NoRoom):
                raise NoRoom(f"{job.there} could not be copied, nothing of it was kept. {error}") from error
            raise

    def _persist(self, job: _Job) -> None:
        try:
            self.patience.until_done(lambda: self._try_again(job), lambda: self._arrived(job))
        except Unreachable as error:
            raise GaveUp(f"{job.file.name or job.source.path} could not be copied: {error}") from error

    def _try_again(self, job: _Job) -> None:
        try:
            self._try(job)
        except Unreachable:
            self._again.add(job.name)
            raise
        except ThereAlready:
            if not (job.name in self._again and self._is_ours(job)):
                raise
            job.target.remove(job.part)

    def _is_ours(self, job: _Job) -> bool:
        """Whether it is there because the answer to an earlier try was lost: the content says so."""
        try:
            theirs, mine = job.target.read(job.name, 0, None), job.source.read(job.file.name, 0, None)
            return sha1(theirs).digest() == sha1(mine).digest()
        except (PaiFsError, OSError):
            return False

    def _arrived(self, job: _Job) -> int:
        if job.is_small:
            return 0
        try:
            return job.target.size(job.part) or 0
        except PaiFsError:
            return 0

    def _try(self, job: _Job) -> None:
        file, part = job.file, job.part
        if job.is_small:
            sent: list[int] = []
            job.target.put(job.name, part, self._pieces(job, 0, file.size, sent), replace=self.may_replace)
            _check(job, sum(sent) if job.target.compares else job.target.size(job.name))
            return
        done = job.target.size(part)
        if done is None or done > file.size:
            job.target.start(part)
            done = 0
        while done < file.size:
            done = self._add(job, part, done)
        _check(job, job.target.size(part))
        job.target.rename(part, job.name, replace=self.may_replace)

    def _add(self, job: _Job, part: str, done: int) -> int:
        """Add a part; returns the length afterwards. If the file was longer than it seemed, the bytes would be in the
        wrong place (HDFS shows the whole length of a file only some time after its writer died): then the copy of the
        file begins anew."""
        sent: list[int] = []
        try:
            job.target.add(part, self._pieces(job, done, min(PART, job.file.size - done), sent))
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
        self.patience.answered()
        return now

    def _pieces(self, job: _Job, offset: int, most: int, sent: list[int]) -> Iterator[bytes]:
        done = offset
        for piece in job.source.read(job.file.name, offset, most):
            if self.patience.stop.is_set():
                raise Stopped
            yield piece
            sent.append(len(piece))
            done += len(piece)
            self._progress.at(job.name, done)


def _check(job: _Job, found: int | None) -> None:
    if found != job.file.size:
        raise CheckFailed(f"{job.name} has {found} bytes there and {job.file.size} here. Did it change meanwhile?")
