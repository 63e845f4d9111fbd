"""Errors of pai-fs, each with the exit code that older scripts expect."""

from __future__ import annotations


class PaiFsError(Exception):
    """One plain sentence."""

    code = 1


class WrongUsage(PaiFsError):
    code = 2


class NoSuchPath(PaiFsError):
    code = 3


class Denied(PaiFsError):
    code = 4


class SignedOut(Denied):
    """There is no token, or it has ended."""


class NotEmpty(PaiFsError):
    code = 5


class ThereAlready(PaiFsError):
    """Something of that name is there, and was not to be replaced."""


class NoRoom(PaiFsError):
    """The user's quota, or the disk, has no room for it: to go on later needs room first."""


class AlreadyRunning(PaiFsError):
    """Another process copies the same file to the same place."""


class CheckFailed(PaiFsError):
    """The copy is not as long as the original."""

    code = 6


class LeftOut(PaiFsError):
    """All was copied but what cannot be."""

    code = 7


class GaveUp(PaiFsError):
    """A copy broke off as often as it was tried."""

    code = 100


class Unreachable(PaiFsError):
    """The server did not answer, or its answer broke off: worth another try."""


class StillWritten(Unreachable):
    """A writer that died still holds the file; HDFS lets it go after a minute."""
