"""A slow engine is no node that cannot reach the portal."""

from __future__ import annotations

import shutil
import ssl
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.nodes import trial
from tests.bed.nginx_bed import certificate
from tests.helpers import LIMIT


class _Slow:
    """An engine whose clock goes on by ``seconds`` with each start."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def ensure(self, request: object) -> None:
        self.now += self.seconds

    def remove(self, name: str) -> None:
        pass


@pytest.mark.parametrize(("seconds", "patience"), [(0.5, 8.0), (10.0, 50.0)])
def test_a_container_may_take_some_times_as_long_as_its_start_took(
    monkeypatch: pytest.MonkeyPatch, settings: Any, seconds: float, patience: float
) -> None:
    settings.INSTANCE = "i"
    engine: Any = _Slow(seconds)
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: engine.now))
    with trial._container(engine, "portal", ("true",)) as one:
        assert one.patience == patience


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"instance": "i"}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")
def test_a_portal_with_a_certificate_of_its_own_knows_itself(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no node would be tried, and a mark of an older address would stay."""
    ask = urllib.request.urlopen  # a thread of this process, which may be slow to answer
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout, context: ask(url, None, LIMIT, context=context))
    server = HTTPServer(("127.0.0.1", 0), _Healthy)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(*certificate(tmp_path))
    server.socket = own.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.INSTANCE, settings.PUBLIC_URL = "i", f"https://127.0.0.1:{server.server_port}"
    try:
        assert trial.portal_answers()
        settings.INSTANCE = "another"
        assert not trial.portal_answers()
    finally:
        server.shutdown()
        server.server_close()
