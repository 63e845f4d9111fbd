"""An OpenID provider on a port of its own: it signs with RS256, and checks PKCE, the client's secret, the address to
come back to and that a code is used once. ``lies`` are what it does wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

from base.accounts.providers.config import Provider

SECRET = "the secret: of %the client"


@cache
def key(name: str) -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@dataclass(eq=False)
class OidcProvider:
    """``person``: the claims of whoever signs in next. ``asked`` has the paths that were asked for, in order."""

    url: str
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "1", "preferred_username": "mira"})
    lies: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    kid: str = "first"

    def settings(self, name: str = "lab", **more: Any) -> dict[str, Provider]:
        table = {"title": "Lab account", "issuer": self.url, "client_id": "longshore", "client_secret": SECRET}
        return {name: Provider.model_validate({**table, "name": name, **more})}

    def sign_in(self, address: str) -> str:
        """What a browser gets at this address when its person signs in: the address to go back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self.codes[code] = {**query, "person": json.dumps(self.person)}
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.url})}"

    def get(self, path: str, headers: Any) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            ends = {"authorization": "authorize", "token": "token", "userinfo": "userinfo", "end_session": "leave"}
            found = {f"{name}_endpoint": f"{self.url}/{end}" for name, end in ends.items()}
            return 200, {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **found, **self.lies.get("addresses", {})}
        if path == "/keys":
            public = json.loads(RSAAlgorithm.to_jwk(key(self.kid).public_key()))
            return 200, {"keys": [{**public, "kid": self.kid, "use": "sig"}]}
        if path == "/userinfo":
            return 200, self.lies.get("userinfo", json.loads(headers["Authorization"].removeprefix("Bearer ")))
        return 404, {}

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        basic = "Basic " + base64.b64encode(f"longshore:{quote_plus(SECRET)}".encode()).decode()
        if authorization != basic and form.get("client_secret") != SECRET:
            return 401, {"error": "invalid_client"}
        begun = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if begun is None or begun["code_challenge"] != challenge or begun["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        person = json.loads(begun["person"])
        within = {name: value for name, value in person.items() if name not in self.lies.get("only in userinfo", ())}
        now = int(time.time()) + self.lies.get("clock", 0)
        claims = {"iss": self.url, "aud": form["client_id"], "iat": now, "exp": now + 300, "nonce": begun["nonce"]}
        claims |= within | self.lies.get("claims", {})
        signer = key(self.lies.get("signer", self.kid))
        token = self.lies.get("token") or jwt.encode(claims, signer, "RS256", {"kid": self.kid})
        return 200, {"id_token": token, "access_token": json.dumps(person), "token_type": "Bearer"}


@contextmanager
def oidc_provider() -> Iterator[OidcProvider]:
    provider: OidcProvider

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(lambda path: provider.get(path, self.headers))

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(text).items()}
            self.answer(lambda _: provider.token(form, self.headers.get("Authorization", "")))

        def answer(self, work: Callable[[str], tuple[int, Any]]) -> None:
            provider.asked.append(self.path)
            if (hold := provider.lies.get("hold")) is not None:
                hold.wait(60)
            status, body = work(self.path)
            status, body = provider.lies.get("answers", {}).get(self.path, (status, json.dumps(body)))
            self.send_response(status)
            if status in (302, 307):
                self.send_header("Location", body)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = OidcProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
