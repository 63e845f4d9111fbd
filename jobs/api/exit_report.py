"""How an attempt ended, in the fields of the v1 job detail (v1 contract, 3.7, 5.12 and 6).

Pure. An attempt keeps ``{"trigger", "role", "index", "reason", "exit": exits.Exit as data}``; this turns it into
``appExit*``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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


NOT_ENDED: ExitReport = {
    "appExitCode": None,
    "appExitSpec": None,
    "appExitDiagnostics": None,
    "appExitMessages": None,
    "appExitTriggerMessage": None,
    "appExitTriggerTaskRoleName": None,
    "appExitTriggerTaskIndex": None,
    "appExitType": None,
}


def report(code: int | None, kept: Mapping[str, Any], container_id: str | None = None) -> ExitReport:
    """``kept`` is what the attempt keeps, ``container_id`` that of the task that decided it."""
    if code is None:
        return NOT_ENDED
    detail = kept.get("exit") or {}
    exit_ = Exit.from_json({"code": code, **detail})
    spec = exit_.spec if exit_.code == code else exits.spec_for(code)
    kind = _type(code, spec)
    return {
        "appExitCode": code,
        "appExitSpec": exits.as_v1(spec),
        "appExitDiagnostics": _diagnostics(code, spec.phrase, kind, kept, exit_, container_id),
        "appExitMessages": _messages(code, exit_),
        "appExitTriggerMessage": kept.get("trigger") or None,
        "appExitTriggerTaskRoleName": kept.get("role") or None,
        "appExitTriggerTaskIndex": kept.get("index"),
        "appExitType": kind,
    }


def exit_type(code: int) -> str:
    """``appExitType`` of a code of which no more is known."""
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
    found: dict[str, Any] = {"exitcode": code, "trigger": _trigger(exit_), "reason": exit_.sentence}
    if exit_.remedy:
        found["solution"] = exit_.remedy
    if exit_.raw_code is not None:
        found["originalUserExitCode"] = exit_.raw_code
    if exit_.oom:
        found["dockerStatus"] = "OOMKilled"
    if exit_.signal:
        found["caughtSignal"] = exit_.signal
    return found


def _trigger(exit_: Exit) -> str:
    if exit_.oom or exit_.fault:
        return "dockerStatus"
    if exit_.code in exits.KEPT_SIGNALS:
        return "caughtSignal"
    return "originalUserExitCode" if exit_.raw_code is not None else ""


def _diagnostics(
    code: int, phrase: str, kind: str, kept: Mapping[str, Any], exit_: Exit, container_id: str | None
) -> str:
    """The launcher's block of text; old portals search it for ``<Raw>[ExitCode]:`` and the containerId line."""
    raw = code if exit_.raw_code is None else exit_.raw_code
    task = {"taskRoleName": kept.get("role") or None, "taskIndex": kept.get("index"), "containerId": container_id}
    lines = [
        f"[ExitStatus]: {phrase}",
        f"[ExitCode]: {code}",
        f"[ExitDiagnostics]: {exit_.sentence}",
        f"[ExitType]: {kind}",
        "_" * 40,
        "[ExitCustomizedDiagnostics]:",
        f"<Raw>[ExitCode]: {raw}",
        json.dumps(task, indent=2, separators=(",", " : ")),
        f"[ApplicationCompletionReason]: {kept.get('trigger') or exit_.sentence}",
    ]
    return "\n".join(lines) + "\n"
