"""Speaks with the NameNode: the library's client, its errors as ours, paths and entries as HDFS has them. No other
module uses the library ``hdfs``.

A NameNode that did not answer is left alone for a moment; a DataNode that does not answer says nothing about the
others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import requests
from hdfs import HdfsError, InsecureClient
from hdfs.client import _Request
from requests.adapters import HTTPAdapter
from requests.utils import requote_uri

from base.core.errors import BadRequest, LongshoreError
from base.files.store.base import (
    BadPath,
    Entry,
    PathExists,
    PathNotFound,
    StoreFull,
    StoreUnavailable,
    joined,
    names_of,
)
from base.files.store.remote import Breaker

SENDS, ANSWERS = 15.0, 30.0  # seconds a busy DataNode may take for a piece, and for its answer
# Seconds: to connect and to answer. Sending counts as connecting, and a busy DataNode takes its time.
NAMENODE = (3.0, 20.0)
DATANODE = (SENDS, ANSWERS)
REST = 2.0  # seconds that a NameNode is left alone after it did not answer
_CONNECTIONS = 64
_FOREIGN = (HdfsError, requests.RequestException, OSError, ValueError, KeyError, TypeError)

_KINDS: dict[str, type[LongshoreError]] = {
    "FileNotFoundException": PathNotFound,
    "FileAlreadyExistsException": PathExists,
    "PathIsNotEmptyDirectoryException": PathExists,
    "ParentNotDirectoryException": BadPath,
    "PathIsNotDirectoryException": BadPath,
    "InvalidPathException": BadPath,
    "IllegalArgumentException": BadPath,
    "PathComponentTooLongException": BadPath,
    "HadoopIllegalArgumentException": BadRequest,
}


class PlainClient(InsecureClient):
    _truncate = _Request("POST")

    def resolve(self, hdfs_path: str) -> str:
        """The path as it is: for the library ``#LATEST`` in a name has a meaning."""
        return hdfs_path

    def _request(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        timeout = NAMENODE if self.is_namenode(url) else DATANODE
        headers = {"content-type": "application/octet-stream"}  # HttpFS takes no other
        answer: requests.Response = self._session.request(method, url, timeout=timeout, headers=headers, **kwargs)
        return answer

    def is_namenode(self, url: str) -> bool:
        return any(url.startswith(f"{namenode}/") for namenode in self.urls)


class NameNode:
    """``urls``: the HTTP addresses of the NameNode, or of both of a pair (``http://nn1:9870``)."""

    def __init__(self, urls: Sequence[str], user: str) -> None:
        session = requests.Session()
        session.trust_env = False  # a proxy of the environment is for the world outside
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(pool_connections=8, pool_maxsize=_CONNECTIONS))
        self.client = PlainClient(";".join(urls), user=user, session=session)
        self._breaker = Breaker(REST, patience=sum(NAMENODE))

    def translated(self, path: str) -> AbstractContextManager[None]:
        """Errors of the library and of the network become those of the store."""
        return self._breaker.guarding(_FOREIGN, lambda error: self._error(path, error))

    def ask(self, path: str, question: str, *about: Any, **more: Any) -> Any:
        """Ask by a method of the library's client. ``path`` is for errors."""
        with self.translated(path):
            return getattr(self.client, question)(*about, **more)

    def _error(self, path: str, error: Exception) -> LongshoreError:
        if not isinstance(error, HdfsError):
            return self._unreachable(error)
        self._breaker.answered()
        return self._error_of(path, error)

    def _error_of(self, path: str, error: HdfsError) -> LongshoreError:
        text = str(error).partition("\n")[0]
        kind = _KINDS.get(error.exception or "")
        if kind is PathNotFound:
            return PathNotFound(f"{path} does not exist.")
        if kind is PathExists:
            return PathExists(f"{path} exists already, or is not empty.")
        if kind is not None:
            return kind(f"{path} cannot be used: {text}")
        if "safe mode" in text or error.exception in ("SafeModeException", "StandbyException", "RetriableException"):
            return StoreUnavailable("The file store (HDFS) takes no changes: it is in safe mode or on standby.")
        if "QuotaExceeded" in (error.exception or ""):
            return StoreFull(f"The file store (HDFS) has no room for {path}: a quota of its own is used up.")
        if error.exception == "AccessControlException":
            return StoreUnavailable("The file store (HDFS) does not let the portal's user (LONGSHORE_STORE_USER) in.")
        if error.exception is None:
            return StoreUnavailable("What answers at LONGSHORE_STORE_URL is no HDFS, or one that is still starting.")
        return StoreUnavailable(f"The file store (HDFS) cannot do that: {text}")

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        request = getattr(error, "request", None)
        if request is not None and not self.client.is_namenode(request.url):
            return StoreUnavailable(f"A DataNode of the file store (HDFS) cannot be reached ({type(error).__name__}).")
        reason = f"The file store (HDFS) cannot be reached ({type(error).__name__})."
        self._breaker.silent(reason)
        return StoreUnavailable(reason)


class Sending:
    """The body of one PUT or POST to ``url``, sent to a DataNode piece by piece. No thread is held between two
    pieces, as a library's request would do. Raises StoreUnavailable."""

    def __init__(self, method: str, url: str) -> None:
        parts = urlsplit(requote_uri(url))
        host, port = parts.hostname or "", parts.port
        with _translated():
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._http = kind(host, port, timeout=SENDS)
            self._http.putrequest(method, f"{parts.path}?{parts.query}")
            self._http.putheader("Content-Type", "application/octet-stream")  # HttpFS takes no other
            self._http.putheader("Transfer-Encoding", "chunked")
            self._http.endheaders()

    def add(self, piece: bytes) -> None:
        if piece:
            with _translated():
                self._http.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    def end(self) -> bytes | None:
        """End the body. The DataNode's error, None when it has taken all."""
        with _translated():
            self._http.send(b"0\r\n\r\n")
            if self._http.sock is not None:
                self._http.sock.settimeout(ANSWERS)
            answer = self._http.getresponse()
            status, body = answer.status, answer.read()
        self.close()
        return None if 200 <= status < 300 else body

    def close(self) -> None:
        """Close the connection. Before ``end`` the DataNode takes the body for broken off."""
        self._http.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (HTTPException, OSError) as error:
        reason = f"A DataNode of the file store (HDFS) cannot be reached ({type(error).__name__})."
        raise StoreUnavailable(reason) from None


def refusal(body: bytes) -> HdfsError:
    try:
        error = json.loads(body)["RemoteException"]
        return HdfsError(error["message"], exception=error["exception"])
    except (ValueError, KeyError, TypeError):
        return HdfsError(body.decode(errors="replace"))


def plain(path: str) -> str:
    """Return ``/a/b``. HDFS takes no colon, and its DataNode decodes a per cent sign twice."""
    names = names_of(path)
    if any(":" in name or "%" in name for name in names):
        raise BadPath(f"{path}: HDFS takes no colon and no per cent sign in a name.")
    return joined(names)


def entry_of(path: str, row: dict[str, Any]) -> Entry:
    is_dir = row["type"] == "DIRECTORY"
    return Entry(
        path=path or "/",
        is_dir=is_dir,
        size=0 if is_dir else row["length"],
        modified_at=datetime.fromtimestamp(row["modificationTime"] / 1000, UTC),
        owner=row["owner"],
        group=row["group"],
        mode=int(row["permission"], 8),
    )
