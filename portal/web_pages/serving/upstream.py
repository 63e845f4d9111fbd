"""The hop from the portal to a page of a task: one HTTP client for all of them, over connections of our own making.

The client is aiohttp. It does the whole hop: HTTP/1.1 with bodies that stream both ways and are never decoded, and
WebSockets. The ready-made reverse proxies for ASGI were looked at first: asgi-proxy-lib has no WebSockets; asgiproxy
was last released in 2022 and decodes what it passes on; fastapi-proxy-lib (on httpx, httpx-ws, Starlette) streams, but
takes a query apart and writes it anew, opens sockets by itself alone, and refuses messages above 64 KiB by default. All
of them leave cookies, redirects and headers to their user, which is where the danger is (jobs/web_pages/headers.py).
aiohttp parses in C, and takes a connection from its ``connector``: here one that the node's engine has dialled, which
over SSH is a channel. So a URL is never resolved: what is connected to is the Target of a visit and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import aiohttp
from yarl import URL

from clusters.engines.runtime import RuntimeFault
from jobs.config.web_pages import PREFIX
from jobs.web_pages.visits import Target, any_certificate
from portal.web_pages.serving.headers import Headers

ANSWER = 20.0  # seconds a container may take to accept a connection
IDLE = 15.0  # seconds a connection without a request is kept
MESSAGE = 64 << 20  # bytes of one message of a WebSocket
_DIALS = 64  # connections being opened at once, each of which may take a thread for some seconds
_DIALS_OF_ONE = 4  # to one port: where nothing accepts them, others are not to wait
_MOST_TARGETS = 10_000
_HOST = "task"
FAULTS = (aiohttp.ClientError, RuntimeFault, TimeoutError, OSError, ValueError)


class Unanswered(Exception):
    """The container gave no answer."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class UpstreamClient:
    """Made and closed on one event loop."""

    def __init__(self) -> None:
        self._dials = ThreadPoolExecutor(_DIALS, thread_name_prefix="dial")
        self._targets: dict[str, Target] = {}
        self._keep_prefix: dict[tuple[int, int], bool] = {}
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._client = aiohttp.ClientSession(
            connector=_Connector(self._dial),
            connector_owner=True,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            requote_redirect_url=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            timeout=aiohttp.ClientTimeout(total=None, connect=ANSWER),
            max_line_size=65_536,
            max_field_size=65_536,
        )

    async def ask(self, target: Target, method: str, path: str, headers: Headers, body: Any) -> aiohttp.ClientResponse:
        """The answer, of which the head has come. ``path`` is sent as it is, with the query; ``body`` gives bytes, or
        is None. Raises aiohttp.ClientError, RuntimeFault, TimeoutError."""
        return await self._client.request(
            method, self._url(target, path), headers=_named(headers), data=body, allow_redirects=False
        )

    async def join(
        self, target: Target, path: str, headers: Headers, protocols: list[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket. Raises as ``ask``, and WSServerHandshakeError when the container wants none."""
        return await self._client.ws_connect(
            self._url(target, path),
            headers=_named(headers),
            protocols=protocols,
            max_msg_size=MESSAGE,
            autoclose=True,
            compress=0,
        )

    async def keeps_prefix(self, target: Target, key: str) -> bool:
        """Whether a page knows its prefix, where pages share a host name and each has a path of its own. Raises
        Unanswered while nothing answers.

        Most programs are told nothing and have their pages at ``/``: the portal takes the prefix off. Those that name
        their own addresses (Jupyter, or TensorBoard with --path_prefix) are started with the prefix, which stands in
        the environment as LONGSHORE_WEB_PATH_<label>, and are asked with it. Which of them it is, they show: what is at
        ``/`` leads below the prefix, or is missing while the prefix is there.
        """
        known = self._keep_prefix.get((target.task_id, target.port))
        if known is None:
            known = await self._ask_for_prefix(target, f"{PREFIX}{key}/")
            if len(self._keep_prefix) > _MOST_TARGETS:
                self._keep_prefix.clear()
            self._keep_prefix[target.task_id, target.port] = known
        return known

    async def _ask_for_prefix(self, target: Target, below: str) -> bool:
        asked = [
            (b"host", f"{target.address}:{target.port}".encode("latin-1", "replace")),
            (b"accept", b"text/html,*/*"),
        ]
        try:
            async with await self.ask(target, "GET", "/", asked, None) as answer:
                if answer.status in range(300, 400):
                    return answer.headers.get("Location", "").startswith(below.rstrip("/"))
                if answer.status != 404:
                    return False
            async with await self.ask(target, "GET", below, asked, None) as answer:
                return answer.status != 404
        except FAULTS as error:
            raise Unanswered(error) from error

    async def close(self) -> None:
        await self._client.close()
        self._dials.shutdown(wait=False, cancel_futures=True)

    def _url(self, target: Target, path: str) -> URL:
        host = f"{_HOST}-{target.task_id}-{target.port}"
        if len(self._targets) > _MOST_TARGETS:
            self._targets.clear()
        self._targets[host] = target
        scheme = "https" if target.is_tls else "http"
        return URL(f"{scheme}://{host}{path if path.startswith('/') else '/'}", encoded=True)

    async def _dial(self, host: str) -> Any:
        target = self._targets[host]
        loop = asyncio.get_running_loop()
        turns = self._turns.setdefault(host, asyncio.Semaphore(_DIALS_OF_ONE))
        await turns.acquire()
        dialling = self._dials.submit(target.dial)
        # Not when nobody waits for it any more: its thread goes on until it is through.
        dialling.add_done_callback(lambda _: _soon(loop, turns.release))
        dialled = await asyncio.wrap_future(dialling)
        dialled.setblocking(False)
        return dialled


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(call)


class _Connector(aiohttp.BaseConnector):
    """Connections that somebody else has dialled, in place of those by name and port."""

    def __init__(self, dial: Any) -> None:
        super().__init__(limit=0, limit_per_host=0, keepalive_timeout=IDLE)
        self._dial = dial

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109
        async with asyncio.timeout(ANSWER):
            dialled = await self._dial(req.url.host)
        more: dict[str, Any] = {}
        if req.is_ssl():
            more = {"ssl": any_certificate(), "server_hostname": _HOST}
        _, protocol = await self._loop.create_connection(self._factory, sock=dialled, **more)
        return protocol


def _named(headers: Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), _text(value)) for name, value in headers]


def _text(value: bytes) -> str:
    """The client writes headers in UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
