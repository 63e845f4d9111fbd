"""A WebHDFS client with the few operations that pai-fs needs.

Ours, because the library ``hdfs`` (and fsspec in the same way) sends the session's token to whatever host a redirect
names, and cannot write in one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from requests.adapters import HTTPAdapter

from .config import Config, session
from .errors import Denied, NoRoom, NoSuchPath, NotEmpty, PaiFsError, SignedOut, StillWritten, ThereAlready, Unreachable

PIECE = 1 << 20
TIMEOUT = (5, 60)
CONNECTIONS = 12  # that are used again: as many as there are files under way at once
# What an HDFS that has just started writes into a plain IOException.
_PASSING = ("could only be replicated to", "Failed to find datanode", "is in safe mode", "No live nodes contain")


@dataclass(frozen=True)
class RemoteEntry:
    """A file or folder; ``modified`` in milliseconds."""

    path: str
    is_dir: bool
    size: int
    modified: int
    owner: str
    group: str
    mode: int
    children: int

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class Remote:
    def __init__(self, config: Config) -> None:
        self._base = f"{config.url}/webhdfs/v1"
        self._origin = urlsplit(config.url)
        self.is_portal = bool(config.token)
        self._session = session()
        self._session.mount("http", HTTPAdapter(pool_maxsize=CONNECTIONS))
        if config.token:
            self._session.headers["Authorization"] = f"Bearer {config.token}"
        else:
            self._session.params = {"user.name": config.user}

    def where(self, path: str) -> str:
        """The address of a path."""
        return self._base + quote(path, "/=")

    def stat(self, path: str) -> RemoteEntry:
        return _entry(path, self._ask("GET", path, "GETFILESTATUS")["FileStatus"])

    def find(self, path: str) -> RemoteEntry | None:
        try:
            return self.stat(path)
        except NoSuchPath:
            return None

    def list(self, path: str) -> list[RemoteEntry]:
        rows = self._ask("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        base = path.rstrip("/")
        if any("/" in row["pathSuffix"] or row["pathSuffix"] in (".", "..") for row in rows):
            raise PaiFsError(f"The server names impossible files in {path}.")
        return [_entry(f"{base}/{row['pathSuffix']}" if row["pathSuffix"] else path, row) for row in rows]

    def checksum(self, path: str) -> tuple[int, str]:
        """How many pieces a block of it has, 0 for a file of one, and its MD5 over them (``checksums``)."""
        told = self._ask("GET", path, "GETFILECHECKSUM")["FileChecksum"]
        return int(told["algorithm"].partition("MD5-of-")[2].partition("MD5")[0]), str(told["bytes"])[-32:]

    def mkdirs(self, path: str) -> None:
        self._ask("PUT", path, "MKDIRS")

    def rename(self, source: str, target: str) -> None:
        """Raises ThereAlready for the second of two who give a file this name."""
        if not self._ask("PUT", source, "RENAME", destination=target).get("boolean"):
            kind = ThereAlready if self.find(target) else PaiFsError
            raise kind(f"{source} could not be moved to {target}.")

    def delete(self, path: str, *, recursive: bool) -> None:
        if not self._ask("DELETE", path, "DELETE", recursive="true" if recursive else "false").get("boolean"):
            raise NoSuchPath(f"{path} does not exist.")

    def read(self, path: str, offset: int = 0, most: int | None = None) -> Iterator[bytes]:
        span = {"offset": offset} if most is None else {"offset": offset, "length": most}
        answer = self._send("GET", self.where(path), {"op": "OPEN", **span}, stream=True)
        with closing(answer):
            try:
                yield from answer.iter_content(PIECE)
            except requests.RequestException as error:
                raise Unreachable(f"Reading {path} broke off ({type(error).__name__}).") from None

    def require_room(self, path: str, size: int) -> None:
        """NoRoom where the portal says that ``size`` bytes more do not fit below this path. A NameNode and a portal of
        an earlier release tell it only when the bytes come."""
        if self.is_portal:
            asked = {"op": "CREATE", "overwrite": "true", "length": size}  # the first step alone, which writes nothing
            self._send("PUT", self.where(path), asked, allow_redirects=False).close()

    def create_at_once(self, path: str, chunks: Iterable[bytes], *, replace: bool) -> None:
        """Write, or replace, in one request, which a portal accepts and a NameNode does not; for files that are small
        enough to be sent in vain. Raises ThereAlready."""
        asked = {"op": "CREATE", "overwrite": "true" if replace else "false", "data": "true"}
        self._send_data("PUT", self.where(path), asked, chunks)

    def unpack(self, folder: str, tar: Iterable[bytes], *, replace: bool) -> int:
        """Write the files of a tar into the folder in one request. Returns how many. A NameNode and a portal of an
        earlier release refuse it. Of what breaks off some files may be there."""
        asked = {"op": "UNPACK", "overwrite": "true" if replace else "false"}
        told = self._send_data("PUT", self.where(folder), asked, tar).json()
        return int(told["Unpacked"]["fileCount"])

    def create(self, path: str, chunks: Iterable[bytes]) -> None:
        self._write("PUT", path, {"op": "CREATE", "overwrite": "true"}, chunks)

    def append(self, path: str, chunks: Iterable[bytes]) -> None:
        self._write("POST", path, {"op": "APPEND"}, chunks)

    def _write(self, method: str, path: str, params: dict[str, str], chunks: Iterable[bytes]) -> None:
        first = self._send(method, self.where(path), params, allow_redirects=False)
        location = first.headers.get("Location", "")
        if first.status_code != 307 or not location:
            raise PaiFsError(f"The server did not say where to write {path}.")
        if self.is_portal:  # nobody else may see the token, also if a proxy writes another address
            location = urlsplit(location)._replace(scheme=self._origin.scheme, netloc=self._origin.netloc).geturl()
        self._send_data(method, location, {}, chunks)

    def _send_data(self, method: str, url: str, params: dict[str, str], chunks: Iterable[bytes]) -> requests.Response:
        data = _Chunks(chunks)
        try:
            return self._send(method, url, params, data=data, headers={"Content-Type": "application/octet-stream"})
        except Unreachable:
            if data.failure is not None:
                raise data.failure from None
            raise

    def _ask(self, method: str, path: str, op: str, **params: str) -> dict[str, Any]:
        answer = self._send(method, self.where(path), {"op": op, **params})
        try:
            return dict(answer.json()) if answer.content else {}
        except ValueError:
            raise PaiFsError(f"{self._base} does not speak WebHDFS.") from None

    def _send(self, method: str, url: str, params: dict[str, Any], **more: Any) -> requests.Response:
        try:
            answer = self._session.request(method, url, params=params, timeout=TIMEOUT, **more)
        except requests.RequestException as error:
            raise Unreachable(f"{self._base} does not answer ({type(error).__name__}).") from None
        if answer.status_code >= 400:
            raise _error(answer)
        return answer


class _Chunks:
    """An iterable that requests sends in chunks, also when it is empty. ``failure`` is what the source raised: urllib3
    would report it as a failure of the connection."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
        except Exception as error:
            self.failure = error
            raise


def _error(answer: requests.Response) -> PaiFsError:
    try:
        error = answer.json()["RemoteException"]
        kind, message = str(error["exception"]), str(error["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        kind, message = "", f"The server answered {answer.status_code}."
    answer.close()
    if kind == "FileNotFoundException" or answer.status_code == 404:
        return NoSuchPath(message)
    if kind == "PathIsNotEmptyDirectoryException" or "not empty" in message:
        return NotEmpty(message)
    if answer.status_code == 401:
        return SignedOut("You are not signed in, or your token has ended: pai-fs --config host=... port=... user=...")
    if kind == "FileAlreadyExistsException":
        return ThereAlready(message)
    if kind == "DSQuotaExceededException":
        return NoRoom(message)
    if kind in ("AccessControlException", "SecurityException"):
        return Denied(message)
    if kind in ("RecoveryInProgressException", "AlreadyBeingCreatedException"):
        return StillWritten(message)
    again = ("RetriableException", "StandbyException", "SafeModeException")
    if answer.status_code >= 500 or kind in again or any(sign in message for sign in _PASSING):
        return Unreachable(message)
    return PaiFsError(message)


def _entry(path: str, row: dict[str, Any]) -> RemoteEntry:
    return RemoteEntry(
        path=path,
        is_dir=row["type"] == "DIRECTORY",
        size=int(row["length"]),
        modified=int(row["modificationTime"]),
        owner=str(row["owner"]),
        group=str(row["group"]),
        mode=int(str(row["permission"]), 8),
        children=int(row.get("childrenNum", 0)),
    )
