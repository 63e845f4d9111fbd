"""Speaks with the API of a Kubernetes cluster, in plain JSON: ``ask`` for one answer, ``stream`` for logs and watches.

Nothing waits without end, and nothing is tried again here: who asks knows whether asking twice does harm. Objects stay
the dictionaries that they are in JSON.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import urllib3
from requests.utils import get_environ_proxies, select_proxy

from base.core.errors import encodable_json
from clusters.engines.inventory import parts_of
from clusters.engines.kubernetes import access, kubeconfig
from clusters.engines.kubernetes.access import Access
from clusters.engines.kubernetes.errors import CONFLICT, EXPIRED, NOT_FOUND, Tolerated, refused, translated
from clusters.engines.runtime import FaultReason, RuntimeFault

CONNECT, READ = 3.0, 30.0  # seconds
POOL = 64  # open connections that are used again
PAGE = 500  # objects in one answer of a list
MOST_OF_AN_ANSWER = 256 << 20  # bytes
Json = dict[str, Any]
Query = Mapping[str, str | int]


class ClusterApi:
    """The API of one cluster, from one namespace. ``folder`` holds the file ``kubeconfig``; without a folder the
    service account of the pod that Longshore runs in is used. Nothing is sent yet. Threads may share it."""

    def __init__(self, endpoint: str, folder: Path | None = None, *, timeout: float = READ) -> None:
        self.endpoint = endpoint
        try:
            self.name, self.namespace = parts_of(endpoint)
        except ValueError as error:
            says = f"{endpoint} {error}."
            raise RuntimeFault(says, reason=FaultReason.UNREACHABLE, permanent=True) from None
        self.folder = folder
        self.timeout = timeout
        self._lock = threading.Lock()
        self._process = 0
        self._open: tuple[Access, urllib3.PoolManager] | None = None

    def here(self, kind: str, name: str = "", part: str = "") -> str:
        """The path of objects of a kind in the namespace (``pods``), of one of them, and of a part of it (``log``)."""
        return "/".join(filter(None, (f"/api/v1/namespaces/{self.namespace}", kind, name, part)))

    def ask(self, method: str, path: str, query: Query | None = None, body: Json | None = None) -> Json:
        """Return the answer's JSON. Raises Refused, a RuntimeFault, for an error that the API answers, and RuntimeFault
        (UNREACHABLE) when it does not answer."""
        with translated(self.name):
            answer = self.opened(path, query or {}, self.timeout, method=method, body=body)
            data = answer.read(MOST_OF_AN_ANSWER)
            answer.release_conn()
        try:
            said = json.loads(encodable_json(data))
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise RuntimeFault(
                f"What answers for the cluster {self.name} is no Kubernetes API.",
                reason=FaultReason.REFUSED,
                permanent=True,
            )
        return said

    def find(self, path: str) -> Json | None:
        """One object; None where there is none. Raises what ``ask`` does."""
        with Tolerated(NOT_FOUND):
            return self.ask("GET", path)
        return None

    def drop(self, path: str, body: Json | None = None) -> Json | None:
        """Delete one object: what the API answers, None where it is gone, or where ``body`` asks for another one than
        is there now. Raises what ``ask`` does."""
        with Tolerated(NOT_FOUND, CONFLICT):
            return self.ask("DELETE", path, body=body)
        return None

    def listed(self, path: str, query: Query | None = None) -> tuple[list[Json], str]:
        """All objects of a list, read in pages, and the list's resourceVersion. Raises what ``ask`` does."""
        with Tolerated(EXPIRED):  # reading took longer than the API keeps its pages
            return self._pages(path, query or {})
        return self._pages(path, query or {})

    def _pages(self, path: str, query: Query) -> tuple[list[Json], str]:
        items: list[Json] = []
        ask: dict[str, str | int] = {**query, "limit": PAGE}
        while True:
            page = self.ask("GET", path, ask)
            items += page.get("items") or []
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion") or "")
            ask["continue"] = str(meta["continue"])

    def stream(self, path: str, query: Query, silence: float) -> closing[urllib3.HTTPResponse]:
        """An answer that is read while it is written. A read raises when nothing came for ``silence`` seconds. Only the
        beginning is translated: what a read raises is one of FOREIGN. It is closed, and its connection not given back:
        there may be more to come."""
        return closing(self.opened(path, query, silence))

    def opened(
        self, path: str, query: Query, silence: float, *, method: str = "GET", body: Json | None = None
    ) -> urllib3.HTTPResponse:
        """An answer that is not read yet, which the caller closes. Raises what ``ask`` does."""
        with translated(self.name):
            way, pool = self._opened()
            headers = {"Accept": "application/json", **way.headers()}
            if body is not None:
                headers["Content-Type"] = "application/json"
            answer = pool.request(
                method,
                f"{way.server}{path}?{urlencode(query)}",
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT, read=silence),
                retries=False,
                preload_content=False,
            )
            if 200 <= answer.status <= 299:
                return cast(urllib3.HTTPResponse, answer)
            data = answer.read(MOST_OF_AN_ANSWER)
            answer.release_conn()
        raise refused(answer.status, _message(data), self.name)

    def access(self) -> Access:
        """The address of the API and the account that asks it. Raises RuntimeFault."""
        with translated(self.name):
            return self._opened()[0]

    def _opened(self) -> tuple[Access, urllib3.PoolManager]:
        with self._lock:
            if self._open is None or self._process != os.getpid():
                way = self._read()
                self._open, self._process = (way, _pool(way)), os.getpid()
            return self._open

    def _read(self) -> Access:
        if self.folder is None:
            return access.of_own_pod()
        try:
            return access.of_kubeconfig((self.folder / kubeconfig.NAME).read_text())
        except ValueError as error:
            sentence = f"The kubeconfig of the cluster {self.name} {error}."
            raise RuntimeFault(sentence, reason=FaultReason.UNREACHABLE, permanent=True) from None


def _pool(way: Access) -> urllib3.PoolManager:
    """Connections that are used again, by the proxy that the environment names for this server."""
    proxy = select_proxy(way.server, get_environ_proxies(way.server))
    of_each: dict[str, Any] = {"maxsize": POOL, "ssl_context": way.tls, "server_hostname": way.server_name}
    return urllib3.ProxyManager(proxy, **of_each) if proxy else urllib3.PoolManager(**of_each)


def _message(data: bytes) -> str:
    """What an error says: the message of a Status, else all of it."""
    text = data[:10_000].decode("utf-8", "replace")
    try:
        said = json.loads(text)
        return str(said["message"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return text
