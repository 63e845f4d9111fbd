"""What a process asks of Linux: to be killed when its parent dies, so that not even SIGKILL of the parent leaves
orphans; to get the orphans below it; to be shown by a name of its own."""

from __future__ import annotations

import contextlib
import ctypes
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINE_BEGINS, _LINE_ENDS = 45, 46  # of the command line, in what /proc/self/stat tells behind the program's name
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Processes below us that lose their parent become our children, so that we can wait for them."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def show_as(name: str) -> None:
    """Have ``ps`` show this process by a name: one that was forked has the command line of its parent. The name is cut
    to the length of that, since the environment stands behind it. (The library setproctitle would have django-q2 name
    its processes as well.)"""
    with contextlib.suppress(OSError, IndexError, ValueError):
        told = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begins, ends = int(told[_LINE_BEGINS]), int(told[_LINE_ENDS])
        if begins:
            ctypes.memmove(begins, name.encode()[: ends - begins - 1].ljust(ends - begins, b"\0"), ends - begins)
