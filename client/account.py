"""Where the portal is and who asks: a file of the user, which ``longshore login`` writes; the variables LONGSHORE_URL
and LONGSHORE_TOKEN win over it."""

from __future__ import annotations

import base64
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .errors import ClientError, NotAllowed, NotSignedIn
from .pai_fs.kept import config_folder, keep

LOGIN = "longshore login http://portal.lab:9186"
_LEFT_OUT = (("http", 80), ("https", 443))


@dataclass(frozen=True)
class PortalAccount:
    url: str
    token: str = ""

    @property
    def user(self) -> str:
        """Whose token it is: tokens say it themselves. Raises NotAllowed for what is no token, or has ended."""
        claims = self._claims()
        if float(claims.get("exp", 0)) < time.time():
            raise NotSignedIn(f"Your token for {self.url} has ended: longshore login")
        return str(claims["username"])

    def _claims(self) -> dict[str, Any]:
        if not self.token:
            raise NotSignedIn(f"You are not signed in to {self.url}: longshore login")
        try:
            body = self.token.split(".")[1]
            claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            claims["username"]
        except (ValueError, IndexError, KeyError, TypeError):
            raise NotAllowed(f"This is no token of a portal. Make one on its page API tokens, or: {LOGIN}") from None
        return claims


def account_file() -> Path:
    return config_folder() / "longshore" / "account.json"


def load(url: str = "", token: str = "") -> PortalAccount:
    """What is given wins over the variables, and they over the file. A token is sent only to the portal that gave it.
    Raises ClientError."""
    url, token = url or os.environ.get("LONGSHORE_URL", ""), token or os.environ.get("LONGSHORE_TOKEN", "").strip()
    given = address(url) if url else ""
    if given and token:
        return PortalAccount(given, token)
    kept = _kept()
    if not given and not kept.get("url"):
        raise NotAllowed(f"Nothing says yet where the portal is: {LOGIN}, or set LONGSHORE_URL and LONGSHORE_TOKEN.")
    known = kept.get("token", "") if given in ("", kept.get("url")) else ""
    return PortalAccount(given or kept["url"], token or known)


def _kept() -> dict[str, str]:
    try:
        kept = json.loads(account_file().read_text())
        return {"url": kept["url"] and address(str(kept["url"])), "token": str(kept["token"])}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClientError(f"{account_file()} cannot be read ({error}). Sign in again: {LOGIN}") from None


def address(text: str) -> str:
    """The address of a portal, without what stands behind its port, and without the port that a browser leaves out.
    Raises ClientError."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        scheme, name, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, name, port = "", None, None
    if scheme not in ("http", "https") or not name:
        raise ClientError(f"{text} is no address of a portal. One is like http://portal.lab:9186")
    host = f"[{name}]" if ":" in name else name
    return f"{scheme}://{host}" + (f":{port}" if port and (scheme, port) not in _LEFT_OUT else "")


def save(account: PortalAccount) -> Path:
    keep(account_file(), json.dumps(asdict(account)).encode())
    return account_file()
