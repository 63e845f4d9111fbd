"""The shell programs with which the containers of a pod begin. Pure.

A kubelet merges standard output and error into one log. So the task's container writes its standard error into a pipe,
and a second container of the same image does nothing but read that pipe: its log is the standard error. Each stream
is whole, has its own stamps, and can be followed.

The first process of the task's container takes the place of Docker's init: the command is its child, so TERM works for
any program, and ends of processes that nobody waits for are cleaned up.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Literal

from clusters.engines.runtime import EXIT_FILE, LOG_MARK, File

FILES = "/longshore/files"  # the Secret
PIPES = "/longshore/run"  # a folder that the containers of the pod share
STAGE = "/longshore/stage"  # where tars are unpacked
PIPE = f"{PIPES}/stderr"
_LONGEST_WAIT = 600  # tenths of a second for the container that reads the pipe

STDERR = f"""trap '' TERM HUP INT
umask 0
mkfifo {PIPE} || exit 1
exec cat {PIPE}"""


def signal(name: str) -> str:
    """Send a signal such as SIGTERM to all processes of the container; a kubelet would to the first one alone."""
    word = name.removeprefix("SIG")
    return f"kill -{word} 1; kill -{word} -1"


SIGNAL_ALL = signal("SIGTERM")  # for pods that somebody else deletes


def stop(grace: int) -> str:
    """TERM for all processes of the container, and KILL after ``grace`` seconds. The first process is left: it ends by
    itself with the code of the command."""
    return f"{SIGNAL_ALL}; n={max(0, grace) * 10}; while [ $n -gt 0 ]; do sleep 0.1; n=$((n-1)); done; kill -KILL -1"


def main(files: Iterable[File]) -> str:
    """Put the files in their places, run the arguments as a command, and end with its code."""
    return "\n".join(
        (
            "trap : TERM HUP INT QUIT USR1 USR2",
            f"ls_n=0; until [ -p {PIPE} ] || [ $ls_n -ge {_LONGEST_WAIT} ]",
            "do sleep 0.1 || sleep 1; ls_n=$((ls_n+1)); done",
            f"[ ! -p {PIPE} ] || exec 2>{PIPE}",
            f"echo '{LOG_MARK}'; echo '{LOG_MARK}' >&2",
            *_placing(files),
            "unset ls_n",
            '"$@" </dev/null',
            "ls_code=$?",
            f"[ ! -r {EXIT_FILE} ] || cat {EXIT_FILE} >/dev/termination-log",
            "exit $ls_code",
        )
    )


def unpack(tars: int, *, fetched: bool) -> str:
    """Unpack the tars: those in the Secret, or ``fetched`` from the addresses in it. A fetch that breaks off leaves a
    tar without its end, which no tar unpacks."""
    if not fetched:
        return "\n".join(("set -e", *(f"tar -xf {FILES}/{key('tar', nth)} -C {STAGE}" for nth in range(tars))))
    fetch = 'fetch() { if command -v curl >/dev/null; then curl -fsSL "$1"; else wget -qO- "$1"; fi; }'
    return "\n".join(
        (
            "set -e",
            fetch,
            *(f'fetch "$(cat {FILES}/{key("address", nth)})" | tar -xf - -C {STAGE}' for nth in range(tars)),
        )
    )


def key(kind: Literal["file", "tar", "address"], nth: int) -> str:
    """Return the key in the Secret."""
    return f"{kind}-{nth}"


def _placing(files: Iterable[File]) -> list[str]:
    lines = []
    for nth, file in enumerate(files):
        path, folder = shlex.quote(file.path), shlex.quote(file.path.rpartition("/")[0] or "/")
        lines.append(
            f"(umask 077; [ -d {folder} ] || (umask 022; mkdir -p {folder}); cat {FILES}/{key('file', nth)} >{path} "
            f"&& chmod {file.mode:o} {path}) || exit 255"
        )
    return lines
