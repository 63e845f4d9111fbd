"""What can go wrong, each with the exit code of ``longshore``: those of sysexits.h, which scripts know.

ClientError            1
├─ NotMeant            2  wrong usage
├─ WrongConfig        65  the portal refuses what was sent
├─ NotThere           66
├─ PortalAway         69  it does not answer, or is no portal
├─ Taken              73  something of that name is there
├─ NotCopied          74  the disk or the quota is full, a file cannot be read
├─ TryLater           75  too much at once
└─ NotAllowed         77  not signed in, or not allowed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ClientError(Exception):
    """One plain sentence: the portal's own where it sent one."""

    code = 1


class NotMeant(ClientError):
    """It was asked for what cannot be."""

    code = 2


class WrongConfig(ClientError):
    code = 65


class NotThere(ClientError):
    code = 66


class PortalAway(ClientError):
    """Worth another try."""

    code = 69


class Taken(ClientError):
    code = 73


class NotCopied(ClientError):
    code = 74


class TryLater(ClientError):
    code = 75


class NotAllowed(ClientError):
    code = 77


class NotSignedIn(NotAllowed):
    """There is no token, or one that is not valid any more."""

    def __init__(self, told: str = "") -> None:
        super().__init__(told or "Your token was revoked, or has ended: longshore login")


def refused(problems: Sequence[Mapping[str, Any]], told: Sequence[str]) -> ClientError:
    """What to raise for a config with these problems, as ``/api/v1/jobs/validate`` has them, told in these lines."""
    taken = all(each["path"] == "/jobName" and each["message"].endswith(" already exists") for each in problems)
    return (Taken if taken else WrongConfig)("\n".join(told))


BY_STATUS: dict[int, type[ClientError]] = {
    400: WrongConfig,
    401: NotSignedIn,
    403: NotAllowed,
    404: NotThere,
    409: Taken,
    413: WrongConfig,
    429: TryLater,
    502: PortalAway,
    503: PortalAway,
    504: PortalAway,
}
