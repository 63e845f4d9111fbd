"""Copies that survive a broken connection: a large file grows under another name, in parts that are compared by their
length, and gets its own name at the end. Interrupted and begun again, a copy goes on where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from portal.pai_fs.errors import CheckFailed, GaveUp, NotFound, PaiFsError, Unreachable, Usage
from portal.pai_fs.places import File, Place, part_of, refuse_same_side

PART = 64 << 20  # bytes added at once to a large file
SMALL = 8 << 20  # a file up to this is written in one go
TRIES, FIRST_PAUSE = 6, 0.5  # seconds, doubled each time
THREADS = 4
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Copied:
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class _Job:
    source: Place
    target: Place
    file: File
    name: str  # in the target


def copy(source: Place, target: Place, *, contents: bool, recursive: bool, force: bool, progress: Progress) -> Copied:
    """As ``cp``: into ``target`` if it is a folder, else under that name. ``contents``: what is in the folder only."""
    refuse_same_side(source, target)
    kind = source.is_dir()
    if kind is None:
        raise NotFound(f"{source.path} does not exist.")
    if kind and not recursive:
        raise Usage(f"{source.path} is a folder; use -r.")
    jobs = _folder(source, target, contents) if kind else [_single(source, target)]
    if not force:
        _refuse_existing(jobs)
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(_copy_one, job, progress) for job in jobs]:
            done.result()
    return Copied(len(jobs), sum(job.file.size for job in jobs))


def _folder(source: Place, target: Place, contents: bool) -> list[_Job]:
    if target.is_dir() is False:
        raise PaiFsError(f"{target.path} is a file.")
    base = ""
    if target.is_dir() and not contents:
        base = f"{source.split()[1]}/"
    folders, files = source.files()
    target.mkdir(base.rstrip("/"))
    for folder in folders:
        target.mkdir(base + folder)
    return [_Job(source, target, file, base + file.name) for file in files]


def _single(source: Place, target: Place) -> _Job:
    (file,) = source.files()[1]
    folder, name = source.split()
    named = File(name, file.size, file.mark)
    if target.is_dir():
        return _Job(folder, target, named, name)
    into, called = target.split()
    return _Job(folder, into, named, called)


def _refuse_existing(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.target.size(job.name) is not None:
            raise PaiFsError(f"{job.target.path.rstrip('/')}/{job.name} exists already; -f replaces it.")


def _copy_one(job: _Job, progress: Progress) -> None:
    pause = FIRST_PAUSE
    for left in reversed(range(TRIES)):
        try:
            return _try(job, progress)
        except (Unreachable, OSError) as error:
            if not left:
                raise GaveUp(f"{job.file.name} could not be copied: {error}") from None
            time.sleep(pause)
            pause *= 2


def _try(job: _Job, progress: Progress) -> None:
    file = job.file
    if file.size <= SMALL:
        job.target.put(job.name, _counted(job.source.read(file.name, 0), progress))
        _check(job, job.name)
        return
    part = part_of(job.name, file.mark)
    done = job.target.size(part)
    if done is None or done > file.size:
        job.target.start(part)
        done = 0
    progress(done)
    while done < file.size:
        job.target.add(part, _counted(_some(job.source.read(file.name, done), PART), progress))
        now = job.target.size(part) or 0
        if now <= done:
            raise Unreachable("nothing of the last part arrived")
        done = now
    _check(job, part)
    job.target.rename(part, job.name)


def _check(job: _Job, name: str) -> None:
    found = job.target.size(name)
    if found != job.file.size:
        raise CheckFailed(f"{job.name} has {found} bytes there and {job.file.size} here. Did it change meanwhile?")


def _some(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    """The first ``most`` bytes, and the source closed afterwards."""
    try:
        for piece in pieces:
            yield piece[:most]
            most -= len(piece)
            if most <= 0:
                return
    finally:
        if hasattr(pieces, "close"):
            pieces.close()


def _counted(pieces: Iterator[bytes], progress: Progress) -> Iterator[bytes]:
    for piece in chain(pieces):
        yield piece
        progress(len(piece))
