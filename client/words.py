"""The answers of the API that this package hands on, in the API's own words (``/api/docs`` has them all). Times are
milliseconds since 1970."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

VERSION = "0.1.0"
ENDS = ("SUCCEEDED", "FAILED", "STOPPED")


class JobLine(TypedDict, total=False):
    """A job in a list."""

    name: str
    username: str
    state: str
    subState: str
    virtualCluster: str
    retries: int
    createdTime: int
    completedTime: int | None
    appExitCode: int | None
    userExitCode: int | None
    totalGpuNumber: int
    totalTaskNumber: int


class JobStanding(TypedDict, total=False):
    """``jobStatus`` of one job."""

    state: str
    subState: str
    username: str
    virtualCluster: str
    retries: int
    createdTime: int
    completedTime: int | None
    appLaunchedTime: int | None
    appExitCode: int | None
    appExitMessages: dict[str, Any] | None
    appExitSpec: dict[str, Any] | None
    waitingReason: dict[str, Any] | None
    diagnosis: dict[str, Any] | None


class LogText(NamedTuple):
    """A line of a log, without its line end. ``time`` is 0 where it is followed as it is written."""

    task: str
    attempt: int
    stream: str
    text: str
    time: int = 0


class LogBytes(NamedTuple):
    """A piece of a log, as it was written."""

    task: str
    attempt: int
    stream: str
    data: bytes


def shown_code(line: JobLine) -> int | None:
    """That of the command, as ``exit_code`` has it, else the platform's; None before the end."""
    own = line.get("userExitCode")  # which an earlier release does not tell
    return line["appExitCode"] if own is None else own


def exit_code(status: Any) -> int:
    """That of the command which decided how a job ended, which the API has beside its own; 1 where there is none."""
    if status["state"] == "SUCCEEDED":
        return 0
    own = ((status.get("appExitMessages") or {}).get("runtime") or {}).get("originalUserExitCode")
    code = status.get("appExitCode") if own is None else own
    return code if code is not None and 0 < code < 256 else 1
