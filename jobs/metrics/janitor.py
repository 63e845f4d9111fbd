"""Removes ring files that belong to nothing any more, that are too old, or for which there is no room.

The files of a job go with it (jobs.containers.discard). What comes back by a race, or stayed when a worker could not
remove it, goes here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import structlog
from django.conf import settings

from base.core.bulk import chunks
from clusters.models import Node
from jobs.metrics import places, sharing
from jobs.models import Attempt

log = structlog.get_logger()

_YOUNG = 3600.0  # seconds: what was written lately belongs to something


def clean_up(now: float) -> None:
    """``now``: seconds since 1970. What cannot be removed stays."""
    folders = sorted(_folders(places.root() / "attempts"), key=lambda folder: folder[1])
    old = [path for path, at, _ in folders if now - at > settings.METRICS_DAYS * 86_400]
    rest = [folder for folder in folders if folder[0] not in set(old)]
    lost = _unknown([path for path, at, _ in rest if now - at > _YOUNG])
    rest = [folder for folder in rest if folder[0] not in lost]
    many = list(_beyond(rest, settings.METRICS_MB << 20, now))
    for path in (*old, *lost, *many):
        shutil.rmtree(path, ignore_errors=True)
    if many:
        log.warning("there is no room for the metrics of the oldest jobs", removed=len(many), mb=settings.METRICS_MB)
    sharing.clean_up(_known, now - settings.METRICS_DAYS * 86_400)
    nodes = {places.of_node(name).parent for name in Node.objects.values_list("name", flat=True)}
    for path, at, _ in _folders(places.root() / "nodes"):
        if path not in nodes and now - at > _YOUNG:
            shutil.rmtree(path, ignore_errors=True)
        else:
            _remove_unfinished(path, now)


def _remove_unfinished(folder: Path, now: float) -> None:
    """What a writer left that was killed before its file was in its place. A node's folder stays for years."""
    for file in folder.glob(".*"):
        with contextlib.suppress(OSError):
            if now - file.stat().st_mtime > _YOUNG:
                file.unlink()


def _known(app_ids: set[str]) -> set[str]:
    known: set[str] = set()
    for some in chunks(sorted(app_ids)):
        known.update(Attempt.objects.filter(app_id__in=some).values_list("app_id", flat=True))
    return known


def _beyond(folders: list[tuple[Path, float, int]], limit: int, now: float) -> Iterator[Path]:
    """The oldest ones, until the others have room; never what is being written."""
    size = sum(size for _, _, size in folders)
    for path, at, own in folders:
        if size <= limit or now - at <= _YOUNG:
            return
        size -= own
        yield path


def _unknown(paths: list[Path]) -> set[Path]:
    """Those of attempts that are in no row."""
    known = _known({places.app_id_of(path) for path in paths})
    return {path for path in paths if places.app_id_of(path) not in known}


def _folders(root: Path) -> Iterator[tuple[Path, float, int]]:
    """Each folder with the time of its last write and the bytes it takes on the disk."""
    with contextlib.suppress(FileNotFoundError), os.scandir(root) as folders:
        for folder in folders:
            with contextlib.suppress(OSError), os.scandir(folder) as files:
                stats = [file.stat() for file in files]
                at = max((stat.st_mtime for stat in stats), default=folder.stat().st_mtime)
                yield Path(folder.path), at, sum(stat.st_blocks * 512 for stat in stats)
