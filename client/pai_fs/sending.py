"""Brings files to their place so that a broken connection does no harm.

A large file grows under another name, in parts whose length is compared, and gets its own name at the end. A copy that
was interrupted goes on where it was when it is started again. What failed for good leaves nothing. Small files go to a
portal many with one request, as a tar that is made while it is sent.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .bar import CopyProgress
from .checksums import is_same, sha1
from .errors import CheckFailed, GaveUp, NoRoom, PaiFsError, SignedOut, StillWritten, ThereAlready, Unreachable
from .patience import Patience, Stopped
from .places import LocalFile, Location, RemotePlace, part_of
from .running import only_copy

PART = 64 << 20  # bytes added at once to a large file
SMALL = 8 << 20  # a file up to this is written in one go
ANEW = 512 << 20  # a file up to this that a dead writer holds is sent again; for a larger one we wait
FEW = 4  # small files from which on they are copied together
MOST, ROOM = 1000, 64 << 20  # files of one request, and their bytes

Sending = tuple[str, int, Iterator[bytes]]  # the name of a file, how many bytes it has, and these


@dataclass(frozen=True)
class FileCopy:
    """One file on its way."""

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


class Worker:
    def __init__(self, progress: CopyProgress, patience: Patience, *, may_replace: bool) -> None:
        self._progress, self.patience, self.may_replace = progress, patience, may_replace
        self._is_full, self._again = False, set[str]()  # of which files it is not known whether they are there

    def copy_together(self, target: Location, jobs: list[FileCopy]) -> list[FileCopy]:
        """Copy small files to a portal, many with one request. Returns those that are left, to be copied one by one."""
        small = [job for job in jobs if job.is_small]
        if not (isinstance(target, RemotePlace) and target.compares and len(small) >= FEW):
            return jobs
        files = [(job.name, job.file.size, self._pieces(job, 0, job.file.size, [])) for job in small]
        done, tried = send_together(lambda tar: target.unpack(tar, replace=self.may_replace), files)
        self._again.update(job.name for job in small[done : done + tried])
        return small[done:] + [job for job in jobs if not job.is_small]

    def copy(self, job: FileCopy) -> None:
        """Copy it. Raises AlreadyRunning where another process does."""
        if job.is_small:
            return self._copy(job)
        with only_copy(job.target.where(job.part), job.there):
            self._copy(job)

    def _copy(self, job: FileCopy) -> None:
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

    def _persist(self, job: FileCopy) -> None:
        try:
            self.patience.until_done(lambda: self._try_again(job), lambda: self._arrived(job))
        except Unreachable as error:
            raise GaveUp(f"{job.file.name or job.source.path} could not be copied: {error}") from error

    def _try_again(self, job: FileCopy) -> None:
        try:
            self._try(job)
        except Unreachable:
            self._again.add(job.name)
            raise
        except ThereAlready:
            if not (job.name in self._again and self._is_ours(job)):
                raise
            job.target.remove(job.part)

    def _is_ours(self, job: FileCopy) -> bool:
        """Whether it is there because the answer to an earlier try was lost: the content says so."""
        try:
            theirs, mine = job.target.read(job.name, 0, None), job.source.read(job.file.name, 0, None)
            return sha1(theirs).digest() == sha1(mine).digest()
        except (PaiFsError, OSError):
            return False

    def _arrived(self, job: FileCopy) -> int:
        if job.is_small:
            return 0
        try:
            return job.target.size(job.part) or 0
        except PaiFsError:
            return 0

    def _try(self, job: FileCopy) -> None:
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

    def _add(self, job: FileCopy, part: str, done: int) -> int:
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

    def _pieces(self, job: FileCopy, offset: int, most: int, sent: list[int]) -> Iterator[bytes]:
        done = offset
        for piece in job.source.read(job.file.name, offset, most):
            if self.patience.stop.is_set():
                raise Stopped
            yield piece
            sent.append(len(piece))
            done += len(piece)
            self._progress.at(job.name, done)


def _check(job: FileCopy, found: int | None) -> None:
    if found != job.file.size:
        raise CheckFailed(f"{job.name} has {found} bytes there and {job.file.size} here. Did it change meanwhile?")


def send_together(unpack: Callable[[Iterable[bytes]], int], files: list[Sending]) -> tuple[int, int]:
    """``unpack`` sends a tar and returns how many files were written. Returns how many files are there, and how many
    of the next may be, since their request failed; after that none is sent."""
    done = 0
    while done < len(files):
        some = files[done : done + count(size for _, size, _ in files[done:])]
        try:
            is_whole = unpack(tar(some)) == len(some)
        except (PaiFsError, OSError, ValueError, KeyError):
            is_whole = False
        if not is_whole:
            return done, len(some)
        done += len(some)
    return done, 0


def count(sizes: Iterable[int]) -> int:
    """How many of the files, in their order, go into one request."""
    room = ROOM
    for at, size in enumerate(sizes):
        room -= size
        if room < 0 or at == MOST:
            return max(1, at)
    return MOST


def tar(files: Iterable[Sending]) -> Iterator[bytes]:
    """The tar of the files. Raises CheckFailed."""
    for name, size, pieces in files:
        header = tarfile.TarInfo(name)
        header.size = size
        yield header.tobuf(tarfile.PAX_FORMAT, "utf-8")
        sent = 0
        for piece in pieces:
            yield piece
            sent += len(piece)
        if sent != size:
            raise CheckFailed(f"{name} has {sent} bytes and had {size}. Did it change meanwhile?")
        yield bytes(-size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
