"""Signs in by the portal's page, in the browser of this machine (portal/sign_in/command.py says how that is safe)."""

from __future__ import annotations

import hashlib
import http.server
import os
import secrets
import sys
import time
import webbrowser
from typing import Any, Callable
from urllib.parse import parse_qs, urlencode, urlsplit

from ..errors import NotSignedIn
from ..transport import Transport

SECONDS = 300.0  # that somebody may take to say yes
SIGNS = 6  # of the hash, which page and command show
_PAGE = b"<!doctype html><title>longshore</title><p>longshore has your answer. You can close this page."


class _Listener(http.server.ThreadingHTTPServer):
    """With threads, since a browser opens connections in advance on which it may say nothing."""

    challenge = ""
    code: str | None = None
    timeout = 0.2


class _Answers(http.server.BaseHTTPRequestHandler):
    server: _Listener

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        code = parse_qs(asked.query).get("code") if asked.path == f"/{self.server.challenge}" else None
        self.send_response(200 if code else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if code:
            self.wfile.write(_PAGE)
            self.server.code = code[0]

    def log_message(self, *_: Any) -> None:
        pass


def is_there() -> bool:
    """Whether this machine shows a browser."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))


def token(transport: Transport, tell: Callable[[str], None], seconds: float = SECONDS) -> str:
    """Open the page, and return the token of who says yes there. Raises ClientError."""
    verifier = secrets.token_urlsafe(48)
    with _Listener(("127.0.0.1", 0), _Answers) as listener:
        listener.challenge = hashlib.sha256(verifier.encode()).hexdigest()
        asked = {"port": listener.server_port, "challenge": listener.challenge}
        page = f"{transport.account.url}/account/command?{urlencode(asked)}"
        tell(f"Say yes in the browser if it shows {listener.challenge[:SIGNS]}: {page}")
        webbrowser.open(page)
        until = time.monotonic() + seconds
        while listener.code is None:
            if time.monotonic() > until:
                raise NotSignedIn("Nobody said yes in the browser. With --user you sign in by a password.")
            listener.handle_request()
    sent = {"code": listener.code, "verifier": verifier}
    return str(transport.json("POST", "/api/v1/token/code", sent)["token"])
