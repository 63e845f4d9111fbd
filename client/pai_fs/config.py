"""Where the store is and who asks: a file of the user, which ``--config`` writes and options override."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from .errors import Denied, PaiFsError, Unreachable, WrongUsage
from .kept import config_folder, keep

PORTAL_PORT, NAMENODE_PORT = 9186, 50070
TOKEN_SECONDS = 7 * 24 * 3600
_TIMEOUT = (5, 30)
_OLD = "pai-fs.config"
_AGAIN = "Say it again: pai-fs --config host=... port=... user=..."


@dataclass(frozen=True)
class Config:
    """``token`` is the portal's. Without a token the server is a NameNode, which believes ``user``."""

    host: str = "localhost"
    port: int = PORTAL_PORT
    user: str = "root"
    token: str = ""
    secure: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}:{self.port}"


_NAMES = frozenset(field.name for field in fields(Config))


def config_file() -> Path:
    return Path(os.environ.get("PAI_FS_CONFIG") or config_folder() / "pai-fs" / "config.json")


def is_configured() -> bool:
    return config_file().exists()


def session() -> requests.Session:
    """An HTTP session without proxies, since servers are in the same network; ``REQUESTS_CA_BUNDLE`` names their
    authority."""
    http = requests.Session()
    http.trust_env = False
    http.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
    return http


def load(*, host: str | None = None) -> Config:
    """Read the file. ``host``: given on the command line, so the file may be missing."""
    try:
        settings = json.loads(config_file().read_text())
    except FileNotFoundError:
        if not host and Path(_OLD).exists():
            raise WrongUsage(f"{_OLD} is of an older pai-fs and is not read. {_AGAIN}") from None
        return Config()
    except (OSError, ValueError) as error:
        raise PaiFsError(f"{config_file()} cannot be read: {error}. {_AGAIN}") from None
    known = {key: value for key, value in settings.items() if key in _NAMES}
    return Config(**known)


def configure(pairs: Sequence[str]) -> Config:
    """Write the file from ``host=... port=... user=... [secure=yes]`` or ``url=... user=...``. For a portal it asks for
    the password once and signs in."""
    config = Config()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in ("url", *_NAMES):
            raise WrongUsage(f"{pair!r} is no setting; use host=, port=, user=, url=, secure=yes or token=.")
        config = replace(config, **_setting(name, value))
    if not config.token and _is_portal(config):
        config = replace(config, token=_sign_in(config))
    keep(config_file(), json.dumps(asdict(config)).encode())
    return config


def _setting(name: str, value: str) -> dict[str, Any]:
    if name == "url" or (name == "host" and "://" in value):
        try:
            parts = urlsplit(value)
            port = parts.port
        except ValueError:
            raise WrongUsage(f"{value} is no address.") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WrongUsage("An address is like http://portal.lab:9186")
        return _of_parts(parts.scheme, parts.hostname, port)
    if name == "port":
        if not (value.isascii() and value.isdigit() and 0 < int(value) < 65536):
            raise WrongUsage("The port is a number up to 65535.")
        return {"port": int(value)}
    return {name: value == "yes"} if name == "secure" else {name: value}


def of_url(url: str, *, token: str) -> Config:
    """Of a portal's address, which is one."""
    parts = urlsplit(url)
    return Config(**_of_parts(parts.scheme, parts.hostname or "", parts.port), token=token)


def _of_parts(scheme: str, host: str, port: int | None) -> dict[str, Any]:
    secure = scheme == "https"
    return {"host": host, "port": port or (443 if secure else 80), "secure": secure}


def _is_portal(config: Config) -> bool:
    try:
        return "PAI RESTful API" in session().get(f"{config.url}/api/v1", timeout=_TIMEOUT).text
    except requests.RequestException as error:
        raise Unreachable(f"{config.url} does not answer ({type(error).__name__}).") from None


def _sign_in(config: Config) -> str:
    password = os.environ.get("PAI_FS_PASSWORD") or getpass.getpass(f"Password of {config.user}: ")
    body: dict[str, str | int] = {"username": config.user, "password": password, "expiration": TOKEN_SECONDS}
    try:
        answer = session().post(f"{config.url}/api/v1/token", json=body, timeout=_TIMEOUT)
        told = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise Unreachable(f"{config.url} does not answer as a portal does ({type(error).__name__}).") from None
    if answer.status_code != 200:
        raise Denied(str(told.get("message", "The portal refused the password.")))
    return str(told["token"])
