"""Every error a user can meet, as one tree. Each says its v1 code, its HTTP status and, as message, what to do.

    LongshoreError                         500 UnknownError
    ├─ BadRequest                          400 InvalidParametersError
    │   ├─ InvalidConfig                   400 InvalidParametersError   carries every problem with line, column, path
    │   ├─ InvalidProtocol                 400 InvalidProtocolError
    │   ├─ IncorrectPassword               400 IncorrectPasswordError
    │   ├─ NoUser                          400 NoUserError
    │   └─ UnknownVirtualCluster           400 NoVirtualClusterError
    ├─ TooLarge                            413 (no code, CONTRACT 1.3)
    ├─ TooSlow                             408 RequestTimeoutError
    ├─ TooManyAtOnce                       503 TooManyRequestsError
    ├─ Unauthorized                        401 UnauthorizedUserError
    ├─ LockedOut                           429 TooManyAttemptsError
    ├─ TooManyRequests                     429 TooManyRequestsError
    ├─ Forbidden                           403 ForbiddenUserError
    │   ├─ NoEnoughQuota  RemoveRunningVc  NotLetIn
    │   └─ RemoveAdmin                     403 RemoveAdminError
    ├─ NotFound                            404
    │   ├─ NoApi  NoJob  NoJobConfig  NoJobSshInfo  NoNode  NoVirtualCluster  NoLog  NoGroup
    │   └─ MissingUser                     404 NoUserError
    ├─ Conflict                            409
    │   ├─ ConflictJob  ConflictNode  ConflictUser  ConflictGroup  ConflictVc
    ├─ NodeUnreachable                     503 NodeUnreachableError
    ├─ ProviderUnavailable                 503 ProviderUnavailableError    of sign-in
    ├─ DatabaseUnavailable                 503 DatabaseUnavailableError
    └─ DiskFull                            503 DiskFullError               of this host of the portal

Pure: the API and the pages turn these into answers in one place each (portal.shared.api.answers.exception_handler,
portal.shared.middleware).
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Literal


def encodable(text: str) -> str:
    """The text with each half of a surrogate pair spelled out, as ``\\ud800``."""
    return text.encode(errors="backslashreplace").decode()


def encodable_json(said: bytes) -> bytes:
    """JSON of another program with ``?`` in its texts for each half of a surrogate pair, which can be read, but neither
    kept nor sent, and for each NUL, which PostgreSQL does not keep. What is no JSON stays as it is, for whoever reads
    it to say so."""
    if not _UNKEEPABLE.search(said):
        return said
    try:
        return _NUL.sub(rb"\1?", json.dumps(json.loads(said), ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return said


# Halves of whole pairs are found too; engines write those as they are.
_UNKEEPABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|\xed[\xa0-\xbf]")
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")  # and no backslash before "u0000"


@dataclass(frozen=True, slots=True)
class Mend:
    """A change of a config that certainly mends a problem; ``says`` stands on its button.

    set: the value at ``path`` becomes ``value`` · rename: its key becomes ``value`` · remove: the value goes with its
    key · insert: the text ``value`` is put at ``line`` and ``column`` of a text that cannot be read.
    """

    says: str
    kind: Literal["set", "rename", "remove", "insert"]
    path: str = ""
    value: Any = None
    line: int = 0
    column: int = 0

    @property
    def json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a job config. ``line`` and ``column`` count from 1; ``path`` is a JSON pointer; ``mend`` is
    there where a mend is certain. No answer can carry half of a surrogate pair, so one is spelled out in path and
    message, and a mend that has one is left out."""

    line: int
    column: int
    path: str
    message: str
    mend: Mend | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", encodable(self.path))
        object.__setattr__(self, "message", encodable(self.message))
        if self.mend and not _is_encodable(self.mend):
            object.__setattr__(self, "mend", None)


def _is_encodable(mend: Mend) -> bool:
    shown = json.dumps(asdict(mend), ensure_ascii=False)
    return encodable(shown) == shown


class LongshoreError(Exception):
    code: str | None = "UnknownError"
    status = 500
    headers: Mapping[str, str] = MappingProxyType({})  # of the answer

    def __init__(self, message: str = "") -> None:
        self.message = encodable(message) or (type(self).__doc__ or "").strip()
        super().__init__(self.message)


class BadRequest(LongshoreError):
    code: str | None = "InvalidParametersError"
    status = 400


class InvalidConfig(BadRequest):
    """The job config has problems. ``message`` is the first violation in v1 words (CONTRACT 1.3)."""

    def __init__(self, message: str, problems: Sequence[Problem], *, code: str | None = BadRequest.code) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        self.code = code  # None for text that is not JSON at all


class InvalidProtocol(BadRequest):
    code = "InvalidProtocolError"


class IncorrectPassword(BadRequest):
    """Password is incorrect."""

    code = "IncorrectPasswordError"


class NoUser(BadRequest):
    code = "NoUserError"


class UnknownVirtualCluster(BadRequest):
    """Granting what does not exist; elsewhere a virtual cluster that is missing is NoVirtualCluster (404)."""

    code = "NoVirtualClusterError"


class TooLarge(LongshoreError):
    """request entity too large"""

    code, status = None, 413


class TooSlow(LongshoreError):
    """The request came too slowly or broke off. Send it again."""

    code, status = "RequestTimeoutError", 408


class TooManyAtOnce(LongshoreError):
    """Too many do this at once. Try again later."""

    code, status = "TooManyRequestsError", 503


class Unauthorized(LongshoreError):
    """Guest is not allowed to do this operation."""

    code, status = "UnauthorizedUserError", 401


class LockedOut(LongshoreError):
    """Too many wrong passwords. Try again in a few minutes."""

    code, status = "TooManyAttemptsError", 429


class TooManyRequests(LongshoreError):
    """You have asked for too much at once. Try again in a moment."""

    code, status = "TooManyRequestsError", 429

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.headers = {"Retry-After": str(seconds)}


class Forbidden(LongshoreError):
    code, status = "ForbiddenUserError", 403


class RemoveAdmin(Forbidden):
    code = "RemoveAdminError"


class NotLetIn(Forbidden):
    """A provider of sign-in has let them in, and this portal does not."""


class NoEnoughQuota(Forbidden):
    """No enough quota"""

    code = "NoEnoughQuotaError"


class RemoveRunningVc(Forbidden):
    code = "RemoveRunningVcError"


class NotFound(LongshoreError):
    code, status = "NotFoundError", 404


class NoApi(NotFound):
    code = "NoApiError"


class NoJob(NotFound):
    code = "NoJobError"


class NoJobConfig(NotFound):
    code = "NoJobConfigError"


class NoJobSshInfo(NotFound):
    code = "NoJobSshInfoError"


class NoNode(NotFound):
    code = "NoNodeError"


class NoVirtualCluster(NotFound):
    code = "NoVirtualClusterError"


class NoLog(NotFound):
    code = "NoLogError"


class MissingUser(NotFound):
    """The user to change is not there; v1 says 404 here and 400 (NoUser) where a user is read or signs in."""

    code = "NoUserError"


class NoGroup(NotFound):
    code = "NoGroupError"


class Conflict(LongshoreError):
    code, status = "ConflictError", 409


class ConflictJob(Conflict):
    code = "ConflictJobError"

    def __init__(self, message: str, name: str = "") -> None:
        """``name`` is the name that a job has already, where that is the reason."""
        super().__init__(message)
        self.name = name


class ConflictNode(Conflict):
    code = "ConflictNodeError"


class ConflictUser(Conflict):
    code = "ConflictUserError"


class ConflictGroup(Conflict):
    code = "ConflictGroupError"


class ConflictVc(Conflict):
    code = "ConflictVcError"


class NodeUnreachable(LongshoreError):
    code, status = "NodeUnreachableError", 503


class ProviderUnavailable(LongshoreError):
    code, status = "ProviderUnavailableError", 503


class DatabaseUnavailable(LongshoreError):
    """The database cannot be read or written now. Try again in a moment."""

    code, status = "DatabaseUnavailableError", 503


class DiskFull(LongshoreError):
    """The disk of this host of the portal is full. Try again later; admins see on the page of hosts which one it is."""

    code, status = "DiskFullError", 503


def is_disk_full(error: BaseException) -> bool:
    """Whether this is what the system says when a file cannot grow."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
