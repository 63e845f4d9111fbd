"""Linux: a process asks to be killed when its parent dies, so that not even SIGKILL of the parent leaves orphans."""

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
    """For every process forked from this one and from those: django-q2's own children outlive it otherwise."""
    os.register_at_fork(after_in_child=die_with_parent)


def adopt_orphans() -> None:
    """Processes that lose their parent below us become our children, and can be waited for."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
