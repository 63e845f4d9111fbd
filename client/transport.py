"""Speaks HTTP with the portal, by the standard library alone: other libraries take longer to import than ``longshore
ls`` may last. No proxy is asked, since the portal is in the same network, and no redirect is followed, since the token
is for the portal alone."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from .account import PortalAccount
from .errors import BY_STATUS, ClientError, NotSignedIn, PortalAway
from .words import VERSION

SECONDS = 30.0  # that the portal may be silent
PATIENCE = 600.0  # seconds for which it may be away while somebody waits for it


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Transport:
    """``json`` and ``data`` raise the errors of ``errors``, with the portal's own sentence."""

    def __init__(self, account: PortalAccount) -> None:
        self.account, self._has_answered = account, False
        self._opener = build_opener(ProxyHandler({}), _NoRedirect, HTTPSHandler(context=trusted()))

    def json(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        data, _ = self.data(method, path, body, **params)
        try:
            return json.loads(data) if data else {}
        except ValueError:
            raise PortalAway(f"{self.account.url} does not answer as a portal of Longshore does.") from None

    def patiently(self, ask: Any, tell: Any = None, seconds: float = PATIENCE) -> Any:
        """What ``ask`` returns, asked again while the portal is away, unless it never was there. ``tell`` is called
        once with the reason, and with an empty text when it is back."""
        until, pause, is_away = time.monotonic() + seconds, 0.5, False
        while True:
            try:
                found = ask()
            except PortalAway as error:
                if not self._has_answered or time.monotonic() + pause > until:
                    raise
                if tell is not None and not is_away:
                    tell(str(error))
                is_away = True
                time.sleep(pause)
                pause = min(5.0, 2 * pause)
                continue
            if is_away and tell is not None:
                tell("")
            return found

    def data(self, method: str, path: str, body: Any = None, **params: Any) -> tuple[bytes, Any]:
        """The body of the answer, and its headers. ``body``: a config as text, or what becomes JSON."""
        with self._answer(method, path, body, params) as answer:
            return answer.read(), answer.headers

    def pieces(self, path: str, **params: Any) -> Iterator[Any]:
        """The headers of an answer of any size, then its bytes. One that breaks off may just end."""
        with self._answer("GET", path, None, params) as answer:
            yield answer.headers
            while data := answer.read(1 << 20):
                yield data

    @contextmanager
    def _answer(self, method: str, path: str, body: Any, params: dict[str, Any]) -> Iterator[Any]:
        asked = {name: value for name, value in params.items() if value not in (None, "")}
        url = f"{self.account.url}{path}{'?' if asked else ''}{urlencode(asked)}"
        headers = {"User-Agent": f"longshore/{VERSION}", "Accept": "application/json"}
        if self.account.token:
            headers["Authorization"] = f"Bearer {self.account.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        try:
            with self._opener.open(Request(url, body, headers, method=method), timeout=SECONDS) as answer:
                if "invalid_token" in answer.headers.get("WWW-Authenticate", ""):  # it is what guests may read
                    raise NotSignedIn
                self._has_answered = True
                yield answer
        except HTTPError as error:
            raise self._refusal(error) from None
        except (URLError, OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            told = reason if isinstance(reason, ssl.SSLError) else getattr(reason, "strerror", None) or reason
            told = " ".join(str(told).split()) or type(reason).__name__
            raise PortalAway(f"{self.account.url} does not answer ({told}).") from None

    def _refusal(self, error: HTTPError) -> ClientError:
        if moved := error.headers.get("Location"):
            return PortalAway(f"{self.account.url} sends to {moved}: sign in with that address.")
        try:
            body = json.loads(error.read())
            told = body.get("RemoteException", body)["message"]
        except (ValueError, KeyError, TypeError, AttributeError, OSError, http.client.HTTPException):
            if error.code == 404:
                return PortalAway(f"{self.account.url} is no portal of Longshore, or one of an earlier release.")
            told = f"{self.account.url} answered {error.code}."
        if error.code == 401:
            self.account.user  # noqa: B018 - it raises where there is none, or it has ended
            return NotSignedIn()
        return BY_STATUS.get(error.code, ClientError)(str(told))


def trusted() -> ssl.SSLContext:
    """Whom a portal must be certified by."""
    return ssl.create_default_context(cafile=os.environ.get("REQUESTS_CA_BUNDLE") or None)


def quoted(*names: object) -> str:
    """The names as parts of a path."""
    return "/".join(quote(str(name), safe="~") for name in names)
