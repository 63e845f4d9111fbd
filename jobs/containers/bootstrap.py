"""The files that a container has before it starts: the start script, the command, keys, tokens and secrets. Pure.

The command is a file of its own, so that nothing in it has to be quoted: several lines, quotes and ``$VAR`` arrive as
written.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from clusters.engines.runtime import SAVED_FILE, TOLD_FILE, File

ARGV = ("/bin/sh", "/pai/bootstrap/start.sh")
TOKEN = "/pai/secrets/webhdfs.token"  # noqa: S105 - the path of one
# Docker's init then signals the whole process group instead of the start script alone (tini >= 0.19, Docker >= 20.10).
ENV = {"TINI_KILL_PROCESS_GROUP": "1", "LONGSHORE_NOTICE_FILE": TOLD_FILE, "LONGSHORE_SAVED_FILE": SAVED_FILE}

_SCRIPT = Path(__file__).with_name("bootstrap.sh").read_bytes()
HELD = "/pai/bootstrap/held"  # the start script writes it when a failed isDebug container is kept
HOLD = "LONGSHORE_DEBUG_HOLD"  # seconds; the start script takes it out of the environment


def files(command: str) -> tuple[File, ...]:
    """Return the start script and the command of one task."""
    # A carriage return from a Windows editor would become part of the line's last word.
    text = command.replace("\r\n", "\n").encode() + b"\n"
    return (
        File("/pai/bootstrap/start.sh", _SCRIPT, 0o755, handed=True),
        File("/pai/bootstrap/command.sh", text, handed=True),
    )


def token_file(token: str) -> tuple[File, ...]:
    """The token with which a container reads and writes its user's files while the job lives; nothing for an empty one.
    It is no environment variable, as many programs print those to their log."""
    return (File(TOKEN, token.encode(), 0o600, secret=True),) if token else ()


def key_files(private: str, authorized: str) -> tuple[File, ...]:
    """The job's private key, and the lines of authorized_keys; nothing without a key."""
    if not private:
        return ()
    return (
        File("/pai/secrets/ssh.key", private.encode(), 0o600, secret=True),
        File("/pai/bootstrap/ssh.authorized", authorized.encode(), handed=True),
    )


def secrets_file(values: Mapping[str, str]) -> tuple[File, ...]:
    """The job's secrets as a shell script that sets variables. The shell of the command reads it; users who log in by
    ssh can read it too."""
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(values.items()))
    return (File("/pai/secrets/job.sh", lines.encode(), 0o600, secret=True),) if values else ()
