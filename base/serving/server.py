"""``python -m base.serving.server APPLICATION``: uvicorn with what Longshore needs of it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from types import FrameType

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from base.serving.connection import Connection
from base.serving.sockets import SocketProtocol

_BUSY = 30  # seconds for which one of several processes may be too busy to say that it lives
_GRACE = 3  # seconds for requests under way when the server ends


class SleepingServer(uvicorn.Server):
    """Sleeps until it is told to end, where uvicorn looks ten times a second whether it was and what time it is."""

    async def main_loop(self) -> None:
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        if not self.should_exit:
            await self._told.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if hasattr(self, "_told"):
            self._loop.call_soon_threadsafe(self._told.set)


def main() -> None:
    asked = _parser().parse_args()
    config = uvicorn.Config(
        asked.application,
        host=asked.host,
        port=asked.port,
        workers=asked.processes,
        ssl_certfile=asked.certificate,
        ssl_keyfile=asked.key,
        http=Connection,
        ws=SocketProtocol,
        ws_max_size=asked.largest_message,
        ws_per_message_deflate=False,  # what runs in a terminal or a container may compress by itself
        lifespan="on",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_worker_healthcheck=_BUSY,
    )
    if asked.processes > 1:
        Multiprocess(config, sockets=[config.bind_socket()]).run()
        return
    config.load_app()
    server = SleepingServer(config)
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m base.serving.server")
    parser.add_argument("application", help="module:name")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--processes", type=int, default=1, help="that share a socket and are started anew by a parent")
    parser.add_argument("--largest-message", type=int, required=True, help="bytes of one from a WebSocket, read whole")
    parser.add_argument("--certificate", help="a file: with it and --key it speaks HTTPS")
    parser.add_argument("--key")
    return parser


if __name__ == "__main__":
    main()
