"""Copies files and folders: what goes where, and that nothing is begun which cannot be done.

How each file is copied so that a broken connection does no harm, sending.py says. What cannot fit is not begun, and
what is there is not replaced unless that is asked for.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from .bar import CopyProgress
from .errors import CheckFailed, NoRoom, NoSuchPath, PaiFsError, ThereAlready, WrongUsage
from .patience import Patience
from .places import FoundFiles, Location, ThereFile, is_part, refuse_same_side
from .remote import CONNECTIONS
from .sending import FileCopy, Worker

LEFT_DAYS = 7  # after which an unfinished copy, to which nothing was added, is removed by the next into its folder
NAMED = 20  # of what is left out, or not followed; of more it is said how many
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

    def __str__(self) -> str:
        return f"{self.files} file{'' if self.files == 1 else 's'}, {self.size} bytes"


def copy(source: Location, target: Location, options: CopyOptions, progress: CopyProgress) -> CopyTotals:
    """Like ``cp``: into ``target`` if it is a folder, else under that name. What of a folder cannot be copied is noted
    and left out."""
    refuse_same_side(source, target)
    patience = Patience(options.patience, progress.note)
    found, folders, jobs = patience.until_done(lambda: _planned(source, target, options))
    _tell(found, progress)
    total = sum(job.file.size for job in jobs)
    progress.begin(total)
    gone = _work(jobs, progress, source, target, folders, Worker(progress, patience, may_replace=options.force))
    went_away = [f"{source.path_of(job.file.name)} (it went while the others were copied)" for job in gone]
    _tell_of_each("left out", went_away, progress)
    for job in jobs if options.checksum else ():
        if job not in gone and not job.is_same():
            raise CheckFailed(f"{job.there} has not the content of {source.path_of(job.file.name)}.")
    copied = total - sum(job.file.size for job in gone)
    return CopyTotals(len(jobs) - len(gone), copied, len(found.left_out) + len(gone))


def _planned(source: Location, target: Location, options: CopyOptions) -> tuple[FoundFiles, list[str], list[FileCopy]]:
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


def _tell_of_each(what: str, told: list[str], progress: CopyProgress) -> None:
    for each in told[:NAMED]:
        progress.note(f"{what}: {each}")
    if len(told) > NAMED:
        progress.note(f"{what}: {len(told) - NAMED} more")


def _tell(found: FoundFiles, progress: CopyProgress) -> None:
    _tell_of_each("left out", found.left_out, progress)
    _tell_of_each("not followed", [f"{each} (a link to a folder that it is in)" for each in found.loops], progress)
    if found.links:
        progress.note(f"links that are followed, so that what they lead to is copied: {found.links}")


def _folder(
    source: Location, target: Location, how: CopyOptions, found: FoundFiles
) -> tuple[list[str], list[FileCopy]]:
    """Folders to make, and files to copy."""
    there = target.is_dir()
    if there is False:
        raise PaiFsError(f"{target.path} is a file.")
    name = "" if how.contents or not (there or how.into) else source.split()[1]  # that of / is empty too
    base = f"{name}/" if name else ""
    return [name, *(base + folder for folder in found.folders)], [
        FileCopy(source, target, file, base + file.name) for file in found.files
    ]


def _single(source: Location, target: Location, found: FoundFiles, into: bool) -> FileCopy:
    (file,) = found.files
    folder, name = source.split()
    named = replace(file, name=name)
    is_dir = target.is_dir()
    if into and is_dir is False:
        raise PaiFsError(f"{target.path} is a file.")
    there, called = (target, name) if is_dir or into else target.split()
    return FileCopy(folder, there, named, called)


def _work(
    jobs: list[FileCopy], progress: CopyProgress, source: Location, target: Location, folders: list[str], worker: Worker
) -> list[FileCopy]:
    """Run the copies, and return those of a folder whose file is gone meanwhile. The first other failure, or Ctrl-C,
    ends all: those that run stop at their next piece, the rest is not begun."""
    gone: list[FileCopy] = []
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
    jobs: list[FileCopy],
    progress: CopyProgress,
    source: Location,
    target: Location,
    folders: list[str],
    may_replace: bool,
) -> None:
    fresh = bool(folders) and target.is_dir() is None
    there = {} if fresh else _there(jobs)
    _refuse(jobs, there, may_replace=may_replace)
    _remove_left(jobs, there, progress)
    _require_room(jobs, there, source)
    for folder in folders:
        target.mkdir(folder)


_There = dict[str, dict[str, ThereFile]]  # by folder, by name


def _there(jobs: list[FileCopy]) -> _There:
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


def _is_there(job: FileCopy, there: _There, checksum: bool) -> bool:
    has = _found(there, job.name)
    if has is None or has.size != job.file.size:
        return False
    return job.is_same() if checksum else has.modified >= job.file.modified


def _refuse(jobs: list[FileCopy], there: _There, *, may_replace: bool) -> None:
    """Refuse to replace what exists."""
    for job in jobs:
        if type(job.source) is type(job.target) and job.source.path_of(job.file.name) == job.target.path_of(job.name):
            raise PaiFsError(f"{job.there} cannot be copied onto itself.")
        if not may_replace and _found(there, job.name):
            raise ThereAlready(f"{job.there} exists already; -f replaces it.")


def _remove_left(jobs: list[FileCopy], there: _There, progress: CopyProgress) -> None:
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


def _require_room(jobs: list[FileCopy], there: _There, source: Location) -> None:
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
