"""Turns the end of an attempt into the ``appExit*`` fields of the v1 job detail (v1 contract, 3.7, 5.12 and 6). Pure.

The row of an attempt has ``{"trigger", "role", "index", "reason", "exit": exits.Exit as data}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast, get_type_hints

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from jobs.planning import exits
from jobs.planning.exit_table import ExitSpec
from jobs.planning.exits import Exit


class ExitReport(TypedDict):
    """How it ended; all null while it has not. ``appExitSpec`` is the entry of the table of exit codes."""

    appExitCode: int | None
    appExitSpec: dict[str, Any] | None
    appExitDiagnostics: str | None
    appExitMessages: dict[str, Any] | None
    appExitTriggerMessage: str | None
    appExitTriggerTaskRoleName: str | None
    appExitTriggerTaskIndex: int | None
    appExitType: str | None


NOT_ENDED = cast(ExitReport, dict.fromkeys(get_type_hints(ExitReport)))


def report(code: int | None, end: Mapping[str, Any], container_id: str | None = None) -> ExitReport:
    """The fields of an attempt with exit ``code``; all null while there is no code. ``end`` is Attempt.exit,
    ``container_id`` that of the task that decided the outcome."""
    if code is None:
        return NOT_ENDED
    detail = end.get("exit") or {}
    exit_ = Exit.from_json({**detail, "code": code})
    spec = exit_.spec
    kind = _type(code, spec)
    return {
        "appExitCode": code,
        "appExitSpec": exits.as_v1(spec),
        "appExitDiagnostics": _diagnostics(code, spec.phrase, kind, end, exit_, container_id),
        "appExitMessages": _messages(code, exit_),
        "appExitTriggerMessage": end.get("trigger") or None,
        "appExitTriggerTaskRoleName": end.get("role") or None,
        "appExitTriggerTaskIndex": end.get("index"),
        "appExitType": kind,
    }


def exit_type(code: int) -> str:
    """Return ``appExitType`` of a code alone."""
    return _type(code, exits.spec_for(code))


def _type(code: int, spec: ExitSpec) -> str:
    return "SUCCEEDED" if code == exits.SUCCEEDED else spec.behavior


def _messages(code: int, exit_: Exit) -> dict[str, Any]:
    return {
        "container": exit_.sentence if exit_.fault else None,
        "runtime": _runtime(code, exit_) if code > 0 else None,
        "launcher": exit_.sentence if code <= 0 else None,
    }


def _runtime(code: int, exit_: Exit) -> dict[str, Any]:
    message: dict[str, Any] = {"exitcode": code, "trigger": _trigger(exit_), "reason": exit_.sentence}
    if exit_.remedy:
        message["solution"] = exit_.remedy
    if exit_.raw_code is not None:
        message["originalUserExitCode"] = exit_.raw_code
    if exit_.oom:
        message["dockerStatus"] = "OOMKilled"
    if exit_.signal:
        message["caughtSignal"] = exit_.signal
    return message


def _trigger(exit_: Exit) -> str:
    if exit_.oom or exit_.fault:
        return "dockerStatus"
    if exit_.code in exits.KEPT_SIGNALS:
        return "caughtSignal"
    return "originalUserExitCode" if exit_.raw_code is not None else ""


def _diagnostics(
    code: int, phrase: str, kind: str, end: Mapping[str, Any], exit_: Exit, container_id: str | None
) -> str:
    """The block of text that v0.x's launcher wrote: old portals search it for ``<Raw>[ExitCode]:`` and for the line
    with containerId."""
    raw = code if exit_.raw_code is None else exit_.raw_code
    task = {"taskRoleName": end.get("role") or None, "taskIndex": end.get("index"), "containerId": container_id}
    lines = [
        f"[ExitStatus]: {phrase}",
        f"[ExitCode]: {code}",
        f"[ExitDiagnostics]: {exit_.sentence}",
        f"[ExitType]: {kind}",
        "_" * 40,
        "[ExitCustomizedDiagnostics]:",
        f"<Raw>[ExitCode]: {raw}",
        json.dumps(task, indent=2, separators=(",", " : ")),
        f"[ApplicationCompletionReason]: {end.get('trigger') or exit_.sentence}",
    ]
    return "\n".join(lines) + "\n"
