"""Puts what is too large for an engine's API where containers fetch it: a tar in the folder of its attempt in the
store, at an address that is signed for this one file. The file goes when the job is purged, as its logs do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

from base.files.store import delegation, open_store
from base.files.store.base import find
from clusters.engines.runtime import LARGE
from jobs.containers.launch import Launch
from jobs.logs.places import attempt_folder

HELD = 3600  # seconds that an address holds: a start that waits longer for its image asks for another one
_PIECE = 1 << 20


def addresses_of(tars: tuple[Path, ...], launch: Launch) -> tuple[str, ...]:
    """The addresses of these tars; none when they are small enough to be handed over. Raises StoreUnavailable."""
    if sum(tar.stat().st_size for tar in tars) <= LARGE:
        return ()
    full_name = f"{launch.username}~{launch.spec.job_name}"
    folder = attempt_folder(launch.username, full_name, launch.app_id)
    return tuple(_offered(tar, f"{folder}/code-{nth}.tar", launch) for nth, tar in enumerate(tars))


def _offered(tar: Path, path: str, launch: Launch) -> str:
    store = open_store()
    there = find(store, path)
    if there is None or there.size != tar.stat().st_size:  # else another task of the attempt has put it there
        store.write(path, _pieces(tar), owner=launch.username, mode=0o600)
    token = delegation.issue(launch.username, seconds=HELD, path=path, ops=("OPEN",))
    return f"{launch.files_url}{quote(path)}?{urlencode({'op': 'OPEN', 'delegation': token})}"


def _pieces(tar: Path) -> Iterator[bytes]:
    with tar.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
