"""Where the store is and who asks: a file of this user's, which ``--config`` writes and options override."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import requests

from portal.pai_fs.errors import Denied, PaiFsError, Unreachable, Usage

PORTAL_PORT, NAMENODE_PORT = 9186, 50070
TOKEN_SECONDS = 7 * 24 * 3600
_TIMEOUT = (5, 30)
_OLD = "pai-fs.config"
_AGAIN = "Say it again: pai-fs --config host=... port=... user=..."


@dataclass(frozen=True, slots=True)
class Config:
    """``token`` is the portal's; without one the other side is a NameNode that believes ``user``."""

    host: str = "localhost"
    port: int = PORTAL_PORT
    user: str = "root"
    token: str = ""
    secure: bool = False

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://{self.host}:{self.port}"


def path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(os.environ.get("PAI_FS_CONFIG") or Path(folder) / "pai-fs" / "config.json")


def load() -> Config:
    try:
        found = json.loads(path().read_text())
    except FileNotFoundError:
        if Path(_OLD).exists():
            raise Usage(f"{_OLD} is of an older pai-fs and is not read. {_AGAIN}") from None
        return Config()
    except (OSError, ValueError) as error:
        raise PaiFsError(f"{path()} cannot be read: {error}. {_AGAIN}") from None
    known = {key: value for key, value in found.items() if key in Config.__slots__}
    return Config(**known)


def configure(pairs: Sequence[str]) -> Config:
    """``host=... port=... user=... [secure=yes]``; a portal is signed in to, its password asked for once."""
    config = Config()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in ("host", "port", "user", "secure", "token"):
            raise Usage(f"{pair!r} is no setting; use host=, port=, user=, secure=yes or token=.")
        if name == "port" and not value.isdigit():
            raise Usage("The port is a number.")
        if name == "port":
            config = replace(config, port=int(value))
        elif name == "secure":
            config = replace(config, secure=value == "yes")
        else:
            config = replace(config, **{name: value})  # type: ignore[arg-type]
    if not config.token and _is_portal(config):
        config = replace(config, token=_sign_in(config))
    _save(config)
    return config


def _save(config: Config) -> None:
    target = path()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(config), file)
    part.replace(target)


def _is_portal(config: Config) -> bool:
    try:
        return "PAI RESTful API" in requests.get(f"{config.url}/api/v1", timeout=_TIMEOUT).text
    except requests.RequestException as error:
        raise Unreachable(f"{config.url} does not answer ({type(error).__name__}).") from None


def _sign_in(config: Config) -> str:
    password = os.environ.get("PAI_FS_PASSWORD") or getpass.getpass(f"Password of {config.user}: ")
    body: dict[str, str | int] = {"username": config.user, "password": password, "expiration": TOKEN_SECONDS}
    answer = requests.post(f"{config.url}/api/v1/token", json=body, timeout=_TIMEOUT)
    if answer.status_code != 200:
        raise Denied(str(answer.json().get("message", "The portal refused the password.")))
    return str(answer.json()["token"])
