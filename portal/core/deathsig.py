"""On Linux, has processes killed when their parent dies, so that not even SIGKILL of the parent leaves orphans."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def forks_die_with_parent() -> None:
    """Have every process that is forked from this one, or from those, die with its parent: django-q2's own children
    would outlive theirs."""
    os.register_at_fork(after_in_child=die_with_parent)


def adopt_orphans() -> None:
    """Processes below us that lose their parent become our children, so that we can wait for them."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
