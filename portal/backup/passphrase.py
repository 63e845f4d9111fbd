"""Where the passphrase of a backup comes from: a file, the environment, or whoever sits at the terminal."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from base.core.env import text
from portal.backup.encryption import BackupError

VARIABLE = "LONGSHORE_BACKUP_PASSPHRASE"
_SHORTEST = 12


def given(file: str, *, new: bool) -> str:
    """The passphrase; empty when nobody was there to give one. ``new``: it is chosen now, so it must be long enough,
    and whoever types it does so twice."""
    passphrase = _read(file) if file else text(VARIABLE, "")
    if not passphrase and sys.stdin.isatty():
        passphrase = _asked(new=new)
    if new and len(passphrase) < _SHORTEST:
        raise BackupError(
            f"The passphrase has fewer than {_SHORTEST} characters. It protects passwords, tokens and keys: give a"
            f" longer one by --passphrase-file FILE or {VARIABLE}_FILE, and keep it where the backup is not."
        )
    return passphrase


def _read(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BackupError(f"{file} cannot be read: {why}.") from error


def _asked(*, new: bool) -> str:
    typed = getpass.getpass("Passphrase of the backup: ")
    if new and typed and getpass.getpass("Once more: ") != typed:
        raise BackupError("The two are not the same.")
    return typed
