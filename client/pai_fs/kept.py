"""The files of a user's settings."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def config_folder() -> Path:
    """Who has no home, as in a container whose user is a number, has / for one."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config").lstrip("~"))


def keep(target: Path, content: bytes) -> None:
    """Write a file that only its user reads: all of it or nothing, whoever else does so at once. Raises OSError with
    its name."""
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        part.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None
    finally:
        with suppress(OSError):
            part.unlink()
