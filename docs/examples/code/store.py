"""Files between a task and the file store, with the token that every task gets. Needs Python 3.8 and nothing else.

    python store.py get  $PAI_DATA_DIR data          a file, or a folder with all that is in it
    python store.py put  model.pt $PAI_OUTPUT_DIR/model.pt
    python store.py keep notebooks $PAI_OUTPUT_DIR/notebooks     get, then put what changes, until it is ended
    python store.py follow $PAI_OUTPUT_DIR/logs logs             get what changes, until it is ended

A place in the store is a path, or an address such as those in PAI_DATA_DIR and PAI_OUTPUT_DIR: its host does not count.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import quote, urlencode, urlsplit

T = TypeVar("T")
PATIENCE = 60  # seconds for which a store that is down is tried again
PAUSE = 5  # seconds between two looks at what has changed
AT_ONCE = 8  # files that are on their way
FEW = 4  # files from which on they go to the store together
MOST, TOGETHER = 1000, 64 << 20  # files of one request, and their bytes


class StoreError(Exception):
    """What the portal said."""


class NotThere(StoreError):
    """There is no such file or folder."""


class StoreDown(StoreError):
    """It is tried again."""


def get(remote: str, local: str | Path) -> list[Path]:
    """Copy a file or a folder from the store to ``local``; gives the files. Raises NotThere, StoreError."""
    places = {name: Path(local, name) if name else Path(local) for name, _ in _files(remote)}
    _each(places, lambda name: _fetch(_join(remote, name), places[name]))
    return list(places.values())


def put(local: str | Path, remote: str) -> None:
    """Copy a file or a folder to ``remote`` in the store. Readers see the old file or the new one.
    Raises StoreError."""
    if not Path(local).exists():
        raise StoreError(f"{local}: there is no such file or folder here")
    _put_files(local, remote, [name for name, _ in _local_files(Path(local))])


def keep(local: str | Path, remote: str) -> None:
    """Get the folder, then put every file that changes, until SIGTERM; what changed last is put then."""
    ending = _ending()
    folder = Path(local)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fetched = {path.relative_to(folder).as_posix() for path in get(remote, folder)}
    except NotThere:
        fetched = set()
    seen = {name: version for name, version in _local_files(folder) if name in fetched}
    while True:
        is_last = _pause(ending)
        now = dict(_local_files(folder))
        _put_files(folder, remote, [name for name, version in now.items() if seen.get(name) != version])
        seen = now
        if is_last:
            return


def follow(remote: str, local: str | Path) -> None:
    """Get every file of the folder that changes, until SIGTERM. It need not be there yet. To a file that only grew the
    rest is added, so that a program which has it open reads on, as TensorBoard does."""
    ending = _ending()
    Path(local).mkdir(parents=True, exist_ok=True)
    seen: dict[str, str] = {}
    while True:
        try:
            now = dict(_files(remote))
        except NotThere:
            now = {}
        changed = [name for name, version in now.items() if seen.get(name) != version]
        _each(changed, lambda name: _fetch(_join(remote, name), Path(local, name), _grow))
        seen = now
        if _pause(ending):
            return


# --- what is there ---------------------------------------------------------------------------------------------------


def _files(remote: str) -> list[tuple[str, str]]:
    """The files below a place with something that differs when they do: names relative to it, "" for a file itself."""
    found = []
    for status in _list(remote):
        name = status["pathSuffix"]
        if status["type"] == "DIRECTORY":
            found += [(f"{name}/{below}", version) for below, version in _files(_join(remote, name))]
        else:
            found.append((name, f"{status['length']} {status['modificationTime']}"))
    return found


def _list(remote: str) -> list[dict[str, str]]:
    def once() -> list[dict[str, str]]:
        with _asked("GET", remote, {"op": "LISTSTATUS"}) as answer:
            statuses: list[dict[str, str]] = json.load(answer)["FileStatuses"]["FileStatus"]
            return statuses

    return _patiently(remote, once)


def _local_files(local: Path) -> list[tuple[str, str]]:
    paths = [local] if local.is_file() else [path for path in sorted(local.rglob("*")) if path.is_file()]
    names = [("" if path == local else path.relative_to(local).as_posix(), path.stat()) for path in paths]
    return [(name, f"{about.st_size} {about.st_mtime_ns}") for name, about in names]


def _join(remote: str, name: str) -> str:
    return f"{remote.rstrip('/')}/{name}" if name else remote


# --- one request -----------------------------------------------------------------------------------------------------


def _fetch(remote: str, local: Path, take: Callable[[Path, Path], object] = Path.replace) -> None:
    """Whoever reads the file meanwhile sees the old one or the new one. ``take`` makes what was fetched the file."""
    local.parent.mkdir(parents=True, exist_ok=True)
    part = local.with_name(f".{local.name}.part")

    def once() -> None:
        with _asked("GET", remote, {"op": "OPEN"}) as answer, part.open("wb") as file:
            length = answer.length
            shutil.copyfileobj(answer, file, 1 << 20)
            if length is not None and file.tell() != length:
                raise ConnectionError("the connection broke")

    _patiently(remote, once)
    take(part, local)


def _grow(part: Path, local: Path) -> None:
    """Adds what the file lacks, if what it has is how the new one begins; else the new one takes its place."""
    with part.open("rb") as new:
        if local.is_file() and _begins_with(new, local):
            with local.open("ab") as old:
                shutil.copyfileobj(new, old, 1 << 20)
            part.unlink()
            return
    part.replace(local)


def _begins_with(new: BinaryIO, local: Path) -> bool:
    """Whether it does; ``new`` then stands behind that beginning."""
    with local.open("rb") as old:
        while piece := old.read(1 << 20):
            if new.read(len(piece)) != piece:
                return False
    return True


def _put_files(local: str | Path, remote: str, names: Iterable[str]) -> None:
    left = list(names)
    while len(left) >= FEW:
        some = _up_to(Path(local), left)
        if not _put_together(Path(local), remote, some):
            break
        left = left[len(some) :]
    _each(left, lambda name: _put_file(Path(local, name) if name else Path(local), _join(remote, name)))


def _up_to(local: Path, names: list[str]) -> list[str]:
    """The first of the names, as many as go into one request: at least one."""
    room = TOGETHER
    for at, name in enumerate(names[:MOST]):
        room -= Path(local, name).stat().st_size
        if room < 0:
            return names[: at or 1]
    return names[:MOST]


def _put_together(local: Path, remote: str, names: list[str]) -> bool:
    """Put these files as one tar. False where that cannot be done, as with an older portal."""
    with tempfile.TemporaryFile() as body:
        try:
            with tarfile.open(fileobj=body, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as tar:
                for name in names:
                    tar.add(Path(local, name), name)
            _patiently(remote, lambda: _send_whole(body, remote, {"op": "UNPACK", "overwrite": "true"}))
        except (OSError, StoreError):
            return False
    return True


def _send_whole(content: BinaryIO, remote: str, query: dict[str, str]) -> None:
    content.seek(0)
    with _asked("PUT", remote, query, content) as answer:
        answer.read()


def _put_file(local: Path, remote: str) -> None:
    def once() -> None:
        with local.open("rb") as content:
            _send_whole(content, remote, {"op": "CREATE", "overwrite": "true", "data": "true"})

    _patiently(remote, once)


def _each(names: Iterable[str], act: Callable[[str], None]) -> None:
    """Several at once, since most of the time of a small file is waiting. Raises the first error, once all have ended
    that had begun."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(act, name) for name in names]
        try:
            for each in running:
                each.result()
        finally:
            for each in running:
                each.cancel()


def _patiently(remote: str, once: Callable[[], T]) -> T:
    """What ``once`` gives. It is tried again while the portal, the store or the way to them is down."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return once()
        except (OSError, http.client.HTTPException, StoreDown) as error:
            if isinstance(error, FileNotFoundError) or getattr(error, "errno", None) == errno.ENOSPC:
                raise
            if time.monotonic() > deadline:
                raise StoreError(f"{remote}: {error}") from error
        time.sleep(min(1, PATIENCE))


_kept: list[http.client.HTTPConnection] = []  # open, and used by nobody now


@contextmanager
def _asked(
    method: str, remote: str, query: dict[str, str], body: BinaryIO | None = None
) -> Iterator[http.client.HTTPResponse]:
    """The answer, which is read to its end inside. Its connection is kept for the next request."""
    connection = _kept.pop() if _kept else _connection()
    try:
        answer = _send(connection, method, remote, query, body)
        if answer.status >= 400:
            raise _refusal(remote, answer)
        yield answer
        if not answer.isclosed():
            connection.close()
    except BaseException:
        connection.close()
        raise
    _kept.append(connection)


def _connection() -> http.client.HTTPConnection:
    gateway = urlsplit(os.environ["LONGSHORE_WEBHDFS_URL"])
    kind = http.client.HTTPSConnection if gateway.scheme == "https" else http.client.HTTPConnection
    return kind(gateway.hostname or "", gateway.port, timeout=60)


def _send(
    connection: http.client.HTTPConnection, method: str, remote: str, query: dict[str, str], body: BinaryIO | None
) -> http.client.HTTPResponse:
    token = Path(os.environ["LONGSHORE_WEBHDFS_TOKEN_FILE"]).read_text().strip()
    headers = {"Content-Type": "application/octet-stream"}
    if body is not None:
        headers["Content-Length"] = str(os.fstat(body.fileno()).st_size)
    path = urlsplit(os.environ["LONGSHORE_WEBHDFS_URL"]).path + quote(_path(remote))
    address = f"{path}?{urlencode({**query, 'delegation': token})}"
    was_open = connection.sock is not None
    try:
        connection.request(method, address, body, headers)
    except (BrokenPipeError, ConnectionResetError):
        pass  # what is refused is not read to its end: the answer may be there
    try:
        return connection.getresponse()
    except (http.client.HTTPException, ConnectionError):
        connection.close()
        if not was_open:
            raise
    # The portal had closed the connection meanwhile, as it does with those that nobody uses.
    if body is not None:
        body.seek(0)
    return _send(connection, method, remote, query, body)


def _path(remote: str) -> str:
    """``webhdfs://host:port/a/b`` and ``/a/b`` are the same place."""
    path = remote.partition("://")[2].partition("/")[2] if "://" in remote else remote
    return "/" + path.strip("/")


def _refusal(remote: str, answer: http.client.HTTPResponse) -> StoreError:
    body = answer.read().decode(errors="replace")
    try:
        body = json.loads(body)["RemoteException"]["message"]
    except (ValueError, KeyError, TypeError):
        pass
    kinds = {404: NotThere, 503: StoreDown}
    return kinds.get(answer.status, StoreError)(f"{remote}: {body.strip() or answer.reason}")


# --- until it is ended -----------------------------------------------------------------------------------------------


def _ending() -> list[int]:
    """A list that gets a member with SIGTERM or SIGINT."""
    ending: list[int] = []
    for which in (signal.SIGTERM, signal.SIGINT):
        signal.signal(which, lambda number, _: ending.append(number))
    return ending


def _pause(ending: list[int]) -> bool:
    """Waits a little; whether it is time to end."""
    until = time.monotonic() + PAUSE
    while not ending and time.monotonic() < until:
        time.sleep(0.2)
    return bool(ending)


VERBS = {"get": get, "put": put, "keep": keep, "follow": follow}


def main(arguments: list[str]) -> int:
    if len(arguments) != 3 or arguments[0] not in VERBS:
        sys.exit(f"{__doc__}")
    try:
        VERBS[arguments[0]](arguments[1], arguments[2])
    except StoreError as error:
        sys.exit(f"store.py: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
