"""Signs somebody in by an OpenID provider: authorization code with PKCE (RFC 7636), state and nonce.

The provider is asked with short timeouts, by few threads at once: one that hangs holds up only who signs in there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import jwt
import requests
import urllib3

from base.accounts.providers.config import Provider
from base.accounts.providers.said import Said, claim, said_by
from base.accounts.providers.state import broken, turn, works
from base.core.errors import NotLetIn

TIMEOUT = 5.0  # seconds that a provider may take to connect, and between two pieces of its answer
DEADLINE = 10.0  # seconds for the whole of an answer
SKEW = 60  # seconds by which its clock and ours may differ
FRESH = 3600.0  # seconds for which its addresses and keys are believed
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_MOST = 1_000_000  # bytes of an answer
_LONGEST_HINT = 4_000  # characters of a token in an address: servers take no longer ones
_CODE = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that has begun. Whoever ends it must bring the same ``state``; the rest stays with us."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def now(cls) -> Begun:
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))


@dataclass(slots=True)
class _Found:
    """What a provider has said of itself."""

    addresses: Mapping[str, Any] | None = None
    keys: Mapping[str, Any] | None = None
    at: float = 0.0  # time.monotonic() when the addresses were read


def address(provider: Provider, begun: Begun, back: str) -> str:
    """Where the browser goes to sign in. Raises ProviderUnavailable."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": back,
        "scope": " ".join(provider.scopes),
        "state": begun.state,
        "nonce": begun.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return _with_query(_addresses(provider)["authorization_endpoint"], query)


def finish(provider: Provider, begun: Begun, back: str, home: str, answer: Mapping[str, str]) -> Said:
    """Who came back with this answer. ``home`` is where signing out of the provider ends. Raises NotLetIn where it is
    not what was begun, ProviderUnavailable."""
    if not hmac.compare_digest(begun.state.encode(), answer.get("state", "").encode()):
        raise NotLetIn("This sign-in was not begun in this browser, or another was begun since. Begin again.")
    if answer.get("iss", provider.issuer) != provider.issuer:
        raise NotLetIn(f"The answer is not of {provider.title} but of another provider. Begin again.")
    if "error" in answer:
        raise NotLetIn(f"{provider.title} did not sign you in ({_code(answer['error'])}). Begin again.")
    tokens = _redeem(provider, begun, back, answer.get("code", ""))
    id_token = str(tokens.get("id_token", ""))
    claims = _claims(provider, id_token, begun.nonce)
    wanted = [name for name in (provider.username, provider.groups) if name]
    if any(claim(claims, name) is None for name in wanted) and "userinfo_endpoint" in _addresses(provider):
        bearer = {"Authorization": f"Bearer {tokens.get('access_token', '')}"}
        status, more = _ask(provider, "GET", _addresses(provider)["userinfo_endpoint"], headers=bearer)
        if status == 200 and more.get("sub") == claims.get("sub"):
            claims = {**more, **claims}
    return replace(said_by(provider, claims), sign_out=_sign_out(provider, id_token, home))


def _sign_out(provider: Provider, id_token: str, home: str) -> str:
    """OpenID Connect RP-Initiated Logout 1.0, or "" where the provider has none that can be believed."""
    at = _addresses(provider).get("end_session_endpoint")
    if not isinstance(at, str) or not at.startswith(f"{urlsplit(provider.issuer).scheme}://"):
        return ""
    query = {"client_id": provider.client_id, "post_logout_redirect_uri": home}
    if len(id_token) <= _LONGEST_HINT:
        query["id_token_hint"] = id_token
    return _with_query(at, query)


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def measure(provider: Provider) -> int:
    """Read its addresses and keys anew; the milliseconds that took. Raises ProviderUnavailable."""
    began = time.monotonic()
    _of(provider).addresses = None
    _keys(provider, anew=True)
    return round((time.monotonic() - began) * 1000)


@cache
def _of(provider: Provider) -> _Found:
    return _Found()


def _addresses(provider: Provider) -> Mapping[str, Any]:
    known = _of(provider)
    if known.addresses is None or time.monotonic() - known.at > FRESH:
        url = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        status, found = _ask(provider, "GET", url)
        needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        if status != 200 or not all(isinstance(found.get(name), str) for name in needed):
            raise broken(provider, f"{url} is no OpenID configuration")
        if found.get("issuer") != provider.issuer:
            raise broken(provider, f"it calls itself {str(found.get('issuer'))[:200]}, the settings {provider.issuer}")
        known.addresses, known.keys, known.at = found, None, time.monotonic()
    return known.addresses


def _redeem(provider: Provider, begun: Begun, back: str, code: str) -> Mapping[str, Any]:
    addresses = _addresses(provider)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": back,
        "code_verifier": begun.verifier,
        "client_id": provider.client_id,
    }
    basic = None
    if provider.client_secret and "client_secret_post" in (
        addresses.get("token_endpoint_auth_methods_supported") or ()
    ):
        form["client_secret"] = provider.client_secret
    elif provider.client_secret:  # RFC 6749, 2.3.1: as in a form
        basic = (quote_plus(provider.client_id), quote_plus(provider.client_secret))
    status, tokens = _ask(provider, "POST", addresses["token_endpoint"], data=form, auth=basic)
    if status == 200:
        return tokens
    error = _code(tokens.get("error"))
    if status >= 500 or error in ("invalid_client", "unauthorized_client"):
        raise broken(provider, f"it refuses this portal ({status}, {error})")
    used = "it was used before, or is too old" if error == "invalid_grant" else error
    raise NotLetIn(f"{provider.title} does not take this sign-in: {used}. Begin again.")


def _claims(provider: Provider, token: str, nonce: str) -> dict[str, Any]:
    """What the token says, once it is certain that the provider has made it for us and for this sign-in."""
    try:
        key = _key(provider, jwt.get_unverified_header(token))
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=_ALGORITHMS,
            audience=provider.client_id,
            issuer=provider.issuer,
            leeway=SKEW,
            options={"require": ["exp", "iat", "iss", "aud", "sub", "nonce"]},
        )
    except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError):
        says = f"What {provider.title} says of you is from another time: its clock and that of this portal differ."
        raise NotLetIn(f"{says} Tell the admin.") from None
    except (jwt.PyJWTError, ValueError, TypeError):
        says = f"What {provider.title} says of you cannot be believed: it is not signed by it, or not for this portal."
        raise NotLetIn(f"{says} Tell the admin.") from None
    if not hmac.compare_digest(nonce.encode(), str(claims["nonce"]).encode()):
        raise NotLetIn(f"What {provider.title} says belongs to another sign-in. Begin again.")
    if claims.get("azp", provider.client_id) != provider.client_id:
        raise NotLetIn(f"What {provider.title} says is not for this portal. Tell the admin.")
    return claims


def _key(provider: Provider, header: Mapping[str, Any]) -> Any:
    """The provider's key of this id; its keys are read once more where it is not among them, as they change."""
    for anew in (False, True):
        keys = [key for key in _keys(provider, anew=anew) if key.public_key_use in (None, "sig")]
        named = [key for key in keys if key.key_id == header.get("kid")] if header.get("kid") else keys
        if len(named) == 1:
            return named[0].key
    raise jwt.InvalidKeyError("no such key")


def _keys(provider: Provider, *, anew: bool) -> list[jwt.PyJWK]:
    addresses, known = _addresses(provider), _of(provider)
    if anew or known.keys is None:
        status, known.keys = _ask(provider, "GET", addresses["jwks_uri"])
        if status != 200:
            known.keys = None
            raise broken(provider, "its keys cannot be read")
    try:
        return jwt.PyJWKSet.from_dict(dict(known.keys or {})).keys
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        known.keys = None
        raise broken(provider, "its keys cannot be read") from None


def _ask(provider: Provider, method: str, url: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
    """The status and the object of the answer; no redirect is followed. Raises ProviderUnavailable."""
    with turn(provider):
        until = time.monotonic() + DEADLINE
        try:
            with requests.request(
                method,
                url,
                timeout=TIMEOUT,
                allow_redirects=False,
                stream=True,
                verify=provider.ca or True,
                **more,
            ) as answer:
                body = b""
                while piece := answer.raw.read1(65_536, decode_content=True):
                    body += piece
                    if len(body) > _MOST or time.monotonic() > until:
                        raise broken(provider, "its answer takes too long")
                found = json.loads(body or b"{}")
        except requests.exceptions.SSLError:
            raise broken(provider, "its certificate is not believed") from None
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:  # of requests, of JSON, of a body
            raise broken(provider, _why(error)) from None
        if not isinstance(found, dict):
            raise broken(provider, _why(None))
        if answer.status_code == 200:
            works(provider)
        return answer.status_code, found


def _why(error: Exception | None) -> str:
    if isinstance(error, (requests.Timeout, urllib3.exceptions.TimeoutError)):
        return "it is too slow"
    if isinstance(error, requests.ConnectionError):
        return "it cannot be reached"
    return "nothing that can be read comes back"


def _code(error: object) -> str:
    """A code of RFC 6749; nothing else of what comes back is shown."""
    return str(error) if _CODE.fullmatch(str(error)) else "no reason given"
