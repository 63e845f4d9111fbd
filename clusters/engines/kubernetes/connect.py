"""Speaks with the API of a Kubernetes cluster, in plain JSON: ``ask`` for one answer, ``stream`` for logs and watches.

Nothing waits without end, and nothing is tried again here: who asks knows whether asking twice does harm. Objects stay
dictionaries, as the library takes about a millisecond to make its own objects of one pod.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.config.kube_config import load_kube_config_from_dict

from clusters.engines.kubernetes import kubeconfig
from clusters.engines.kubernetes.errors import EXPIRED, FOREIGN, Refused, refused, unreachable
from clusters.engines.runtime import FaultReason, RuntimeFault

CONNECT, READ = 3.0, 30.0  # seconds
POOL = 64  # open connections that are used again
PAGE = 500  # objects in one answer of a list
MOST_OF_AN_ANSWER = 256 << 20  # bytes
Json = dict[str, Any]
Query = Mapping[str, str | int]

_ENDPOINT = re.compile(r"kubernetes://([a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?)/([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)")


def parts_of(endpoint: str) -> tuple[str, str]:
    """The cluster's name and the namespace of ``kubernetes://cluster/namespace``. Raises ValueError."""
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None:
        raise ValueError("must name a cluster and a namespace, such as kubernetes://lab/longshore")
    return found[1], found[3]


class Cluster:
    """The API of one cluster, from one namespace. ``folder`` holds the file ``kubeconfig``; without a folder the
    service account of the pod that Longshore runs in is used. Nothing is sent yet. Threads may share it."""

    def __init__(self, endpoint: str, folder: Path | None = None, *, timeout: float = READ) -> None:
        self.endpoint = endpoint
        self.name, self.namespace = parts_of(endpoint)
        self.folder = folder
        self.timeout = timeout
        self._lock = threading.Lock()
        self._process = 0
        self._api: Any = None

    def here(self, kind: str, name: str = "", part: str = "") -> str:
        """The path of objects of a kind in the namespace (``pods``), of one of them, and of a part of it (``log``)."""
        return "/".join(filter(None, (f"/api/v1/namespaces/{self.namespace}", kind, name, part)))

    def ask(self, method: str, path: str, query: Query | None = None, body: Json | None = None) -> Json:
        """The answer's JSON. Raises Refused, a RuntimeFault, for an error that the API answers, and RuntimeFault
        (UNREACHABLE) when it does not answer."""
        try:
            answer = self._send(method, path, query, body, self.timeout)
            data = answer.read(MOST_OF_AN_ANSWER)
            answer.release_conn()
        except FOREIGN as error:
            raise unreachable(error, self.name) from error
        if not 200 <= answer.status <= 299:
            raise refused(answer.status, _message(data), self.name)
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise RuntimeFault(
                f"What answers for the cluster {self.name} is no Kubernetes API.",
                reason=FaultReason.REFUSED,
                permanent=True,
            )
        return said

    def listed(self, path: str, query: Query | None = None) -> tuple[list[Json], str]:
        """All objects of a list, read in pages, and the list's resourceVersion. Raises what ``ask`` does."""
        try:
            return self._pages(path, query or {})
        except Refused as fault:
            if fault.status != EXPIRED:  # else reading took longer than the API keeps its pages
                raise
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

    @contextmanager
    def stream(self, path: str, query: Query, silence: float) -> Iterator[urllib3.HTTPResponse]:
        """An answer that is read while it is written. A read raises when nothing came for ``silence`` seconds. Only the
        beginning is translated: what a read raises is one of FOREIGN."""
        answer = self.opened(path, query, silence)
        try:
            yield answer
        finally:
            answer.close()  # not given back: there may be more to come

    def opened(self, path: str, query: Query, silence: float) -> urllib3.HTTPResponse:
        """The answer of ``stream``, which the caller closes."""
        try:
            answer = self._send("GET", path, query, None, silence)
            if 200 <= answer.status <= 299:
                return answer
            data = answer.read(MOST_OF_AN_ANSWER)
            answer.release_conn()
        except FOREIGN as error:
            raise unreachable(error, self.name) from error
        raise refused(answer.status, _message(data), self.name)

    def configuration(self) -> Any:
        """A new Configuration of the library with the credentials. It is not shared, since the library's own ``stream``
        changes the client that it gets. Raises RuntimeFault."""
        made = Configuration()
        made.retries = False
        made.connection_pool_maxsize = POOL
        try:
            if self.folder is None:
                load_incluster_config(made)
            else:
                read = kubeconfig.read((self.folder / kubeconfig.NAME).read_text())
                load_kube_config_from_dict(read, client_configuration=made, persist_config=False)
        except ValueError as error:
            sentence = f"The kubeconfig of the cluster {self.name} {error}."
            raise RuntimeFault(sentence, reason=FaultReason.UNREACHABLE, permanent=True) from None
        except FOREIGN as error:
            raise unreachable(error, self.name) from error
        return made

    def _send(
        self, method: str, path: str, query: Query | None, body: Json | None, silence: float
    ) -> urllib3.HTTPResponse:
        api = self._client()
        headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body is not None else {})}
        request = api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        return cast(urllib3.HTTPResponse, api.call_api(*request, _request_timeout=(CONNECT, silence)).response)

    def _client(self) -> Any:
        with self._lock:
            if self._api is None or self._process != os.getpid():
                self._api, self._process = ApiClient(self.configuration()), os.getpid()
            return self._api


def _message(data: bytes) -> str:
    """What an error says: the message of a Status, else all of it."""
    text = data[:10_000].decode("utf-8", "replace")
    try:
        said = json.loads(text)
        return str(said["message"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return text
