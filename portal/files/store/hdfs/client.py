"""Speaks with the NameNode: the library's client, and its errors as ours. No other module uses the library ``hdfs``.

A NameNode that did not answer is left alone for a moment; a DataNode that does not answer says nothing about the
others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import requests
from hdfs import HdfsError, InsecureClient
from hdfs.client import _Request
from requests.adapters import HTTPAdapter

from portal.core.errors import BadRequest, LongshoreError
from portal.files.store.base import BadPath, PathExists, PathNotFound, StoreFull, StoreUnavailable
from portal.files.store.breaker import Breaker
from portal.files.store.hdfs.datanode import ANSWERS, SENDS

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


class Client(InsecureClient):
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
        self.client = Client(";".join(urls), user=user, session=session)
        self._breaker = Breaker(REST, patience=sum(NAMENODE))

    def translated(self, path: str) -> AbstractContextManager[None]:
        """Errors of the library and of the network become those of the store."""
        return self._breaker.guarding(_FOREIGN, lambda error: self._error(path, error))

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


def refusal(body: bytes) -> HdfsError:
    try:
        error = json.loads(body)["RemoteException"]
        return HdfsError(error["message"], exception=error["exception"])
    except (ValueError, KeyError, TypeError):
        return HdfsError(body.decode(errors="replace"))
