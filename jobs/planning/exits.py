"""How a container, a start or an attempt ended, and what that means.

Pure. ``classify`` and ``from_fault`` turn what the engine says into an ``Exit``. Codes are those of
jobs/planning/exit_table.py (v1 contract, 6.2), so a program's own exit code 3 is code 255 with ``raw_code`` 3. Whether
it is tried again is decided in jobs/planning/retries.py.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, Literal

from clusters.engines.runtime import ContainerStatus, FaultReason
from jobs.planning.exit_table import TABLE, ExitSpec, Reaction
from portal.core import words

Certainty = Literal["certain", "likely", "unknown"]
Blame = Literal["your job", "the cluster", "nobody"]

SUCCEEDED = 0
EXIT_CODE_LOST = 154
DOCKER_RUN_FAILED = 193
OUT_OF_MEMORY = 196
USER_FAILED = 255
PORT_CONFLICT = -7103
CONTAINER_LOST = -7110
NODE_LOST = -7111
PREEMPTED = -7120
LAUNCH_FAILED = -7150
NEVER_FITS = -7251
JOB_STOPPED = -7351
TASK_STOPPED = -7400
OUT_OF_TIME = -7501
DEPENDENCY_FAILED = -7502


class StartFault(StrEnum):
    """What was wrong with the files that a start needs. Users can put all of it right."""

    CODE_MISSING = "code_missing"
    CODE_TOO_LARGE = "code_too_large"
    CODE_UNREADABLE = "code_unreadable"
    AUTH_UNREADABLE = "auth_unreadable"
    AUTH_MALFORMED = "auth_malformed"
    AUTH_REFUSED = "auth_refused"  # by the registry


KEPT_SIGNALS = frozenset({130, 132, 134, 135, 136, 137, 139, 141, 143})
_ENDS_FROM_OUTSIDE = frozenset({137, 143})
_UNLISTED_POSITIVE, _UNLISTED_NEGATIVE = 256, -8000
_BLAMES: dict[str, Blame] = {
    "USER_FAILURE": "your job",
    "UNKNOWN_FAILURE": "your job",
    "PLATFORM_FAILURE": "the cluster",
}


@dataclass(frozen=True, slots=True)
class Exit:
    """How something ended, stored as JSON with the task or attempt.

    ``raw_code`` is what the process itself returned (``originalUserExitCode``), ``signal`` the name of what killed it,
    ``fault`` the FaultReason of a refused start. ``sentence`` says what happened, ``remedy`` what to do; both are plain
    English for the page. ``permanent`` overrides the table: tried again, it would end the same way.
    """

    code: int
    sentence: str
    remedy: str = ""
    certainty: Certainty = "certain"
    blame: Blame = "nobody"
    raw_code: int | None = None
    signal: str | None = None
    oom: bool = False
    fault: str | None = None
    permanent: bool = False

    @property
    def spec(self) -> ExitSpec:
        """The entry of the table, with the reaction that this end gets."""
        spec = spec_for(self.code)
        return replace(spec, behavior="NON_TRANSIENT", reaction=Reaction.NEVER_RETRY) if self.permanent else spec

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Exit:
        """Read what ``to_json`` wrote. Keys of a newer or older release are ignored or defaulted."""
        known = {f.name for f in fields(cls)}
        return cls(**{"sentence": "", **{key: value for key, value in data.items() if key in known}})


def spec_for(code: int) -> ExitSpec:
    """The entry of any code; one that is not listed gets the template 256 or -8000 with its own number."""
    template = _UNLISTED_POSITIVE if code > 0 else _UNLISTED_NEGATIVE
    return TABLE.get(code) or replace(TABLE[template], code=code)


def as_v1(spec: ExitSpec) -> dict[str, Any]:
    """``appExitSpec`` of the v1 API."""
    return {
        **asdict(spec),
        "reaction": str(spec.reaction),
        "repro": list(spec.repro),
        "solution": None if spec.solution is None else list(spec.solution),
    }


def of(code: int, sentence: str = "", *, remedy: str | None = None, permanent: bool = False) -> Exit:
    """An Exit with the table's own words where none are given."""
    spec = spec_for(code)
    return Exit(
        code=code,
        sentence=sentence or spec.reason or "",
        remedy=" ".join(spec.solution or ()) if remedy is None else remedy,
        blame=_BLAMES.get(spec.type, "nobody"),
        permanent=permanent,
    )


def classify(status: ContainerStatus, memory_mb: int, *, label: str = "The task") -> Exit:
    """What the end of an exited container means. ``memory_mb`` is its limit, ``label`` names it ("worker-1").

    ``oom_killed`` is also set when only a child was killed: with exit 0 the job went on and succeeded, with any
    other code the missing child is the likely cause.
    """
    code = status.exit_code
    if status.evicted:
        return of(EXIT_CODE_LOST, f"Kubernetes evicted {label}: {status.evicted}")
    if status.lost:
        return of(EXIT_CODE_LOST, f"{label} was lost when its node went down.")
    if code is None:
        return of(EXIT_CODE_LOST, f"{label} ended, but the node no longer knows how.")
    if code == 0:
        return replace(of(SUCCEEDED, f"{label} ended with exit code 0."), raw_code=0, oom=status.oom_killed)
    if status.oom_killed:
        return _out_of_memory(code, memory_mb, label)
    if status.port_taken:
        return _port_taken(label)
    if status.by_itself and code in _ENDS_FROM_OUTSIDE:
        return _ended_itself(code, label)
    if code in KEPT_SIGNALS:
        return _signalled(code, label)
    remedy = _HINTS.get(code, "Read the end of its log.")
    exit_ = of(USER_FAILED, f"{label} ended with exit code {code}.", remedy=remedy)
    return replace(exit_, raw_code=code, signal=_signal_name(code), certainty="unknown")


def from_fault(reason: str, sentence: str, permanent: bool) -> Exit:
    """What a refused start means. ``sentence`` is the engine edge's own and is shown as it is. A container that
    disappeared before it was started is gone for ever, but the next one need not be."""
    if reason in set(StartFault):
        remedy = _START_REMEDIES[StartFault(reason)]
        return replace(of(USER_FAILED, sentence, remedy=remedy, permanent=True), fault=reason)
    known = FaultReason(reason) if reason in set(FaultReason) else FaultReason.REFUSED
    code = _FAULT_CODES[known]
    lasting = (permanent and known is not FaultReason.GONE) or known in _ALWAYS_PERMANENT
    exit_ = of(code, sentence, remedy=_FAULT_REMEDIES.get(known), permanent=lasting)
    return replace(exit_, fault=str(known))


def container_lost(label: str = "The task") -> Exit:
    return of(CONTAINER_LOST, f"The container of {label} disappeared from its node.")


def node_lost(node: str) -> Exit:
    return of(NODE_LOST, f"Node {node} was lost.")


def evicted(reason: str) -> Exit:
    """Its room went to another job, or its node is to become empty. It is tried again and keeps its place."""
    return of(PREEMPTED, reason, remedy="Nothing: it starts again as soon as there is room, and no retry is used up.")


def job_stopped(by: str) -> Exit:
    return of(JOB_STOPPED, f"Stopped by {by}." if by else "Stopped.")


def out_of_time(seconds: int) -> Exit:
    """Its ``extras.maxRunSeconds`` are over. It is not tried again, however often its config allows that."""
    sentence = f"The job ran for {words.duration(seconds)}, which is all that its maxRunSeconds allow."
    return of(OUT_OF_TIME, sentence, permanent=True)


def dependency_failed(sentence: str) -> Exit:
    """A job that it was to start after did not succeed; ``sentence`` names it."""
    return of(DEPENDENCY_FAILED, sentence, permanent=True)


def task_stopped() -> Exit:
    return of(TASK_STOPPED)


def never_fits(sentence: str) -> Exit:
    """No registered node could ever run it; ``sentence`` names the nearest one."""
    return of(
        NEVER_FITS,
        sentence,
        remedy="Ask for what one of the nodes has, or ask the cluster admin for such a node.",
        permanent=True,
    )


_HINTS = {
    126: "The command exists but may not be executed. Check its permissions.",
    127: "The command was not found in the image. Check its spelling and the image.",
}
_FAULT_CODES = {
    FaultReason.UNREACHABLE: NODE_LOST,
    FaultReason.IMAGE_MISSING: USER_FAILED,
    FaultReason.IMAGE_DENIED: USER_FAILED,
    FaultReason.IMAGE_NAME: USER_FAILED,
    FaultReason.REGISTRY_UNREACHABLE: DOCKER_RUN_FAILED,
    FaultReason.PULL_FAILED: DOCKER_RUN_FAILED,
    FaultReason.PORT_TAKEN: PORT_CONFLICT,
    FaultReason.GPU_MISSING: LAUNCH_FAILED,
    FaultReason.COMMAND_MISSING: USER_FAILED,
    FaultReason.NODE_BROKEN: DOCKER_RUN_FAILED,
    FaultReason.REFUSED: DOCKER_RUN_FAILED,
    FaultReason.GONE: CONTAINER_LOST,
    FaultReason.WITHDRAWN: TASK_STOPPED,
}
_ALWAYS_PERMANENT = frozenset(
    {FaultReason.IMAGE_MISSING, FaultReason.IMAGE_DENIED, FaultReason.IMAGE_NAME, FaultReason.COMMAND_MISSING}
)
_FAULT_REMEDIES = {
    FaultReason.IMAGE_MISSING: "Check the name and the tag of the image.",
    FaultReason.IMAGE_DENIED: "Give the job an authFile with a user of that registry.",
    FaultReason.IMAGE_NAME: "Correct the name of the image.",
    FaultReason.COMMAND_MISSING: "Use an image that has /bin/sh.",
    FaultReason.REGISTRY_UNREACHABLE: "Check the registry in the image's name; if it is right, ask the cluster admin.",
}
_START_REMEDIES = {
    StartFault.CODE_MISSING: "Upload the code, or correct codeDir.",
    StartFault.CODE_TOO_LARGE: "Keep data out of codeDir: name it in dataDir instead.",
    StartFault.CODE_UNREADABLE: "Use a codeDir of your own or a shared one.",
    StartFault.AUTH_UNREADABLE: "Upload the authFile, or correct its path.",
    StartFault.AUTH_MALFORMED: "Correct the authFile.",
    StartFault.AUTH_REFUSED: "Correct the authFile: the registry of the image, its user, the password.",
}
_SIGNAL_SENTENCES = {
    130: "{0} was interrupted from outside its container.",
    132: "{0} ran an instruction this processor does not have.",
    134: "{0} aborted itself.",
    135: "{0} touched memory that is not there; a full shared memory does that.",
    136: "{0} made an arithmetic error.",
    137: "{0} was killed. It was not short of memory.",
    139: "{0} crashed: it used memory that is not its own.",
    141: "{0} wrote to a pipe nobody reads any more.",
    143: "{0} was ended from outside its container.",
}


def _out_of_memory(code: int, memory_mb: int, label: str) -> Exit:
    amount = f"{memory_mb / 1024:.4g} GB" if memory_mb >= 1024 else f"{memory_mb} MB"
    certainty: Certainty = "certain" if code == 137 else "likely"
    sentence = f"{label} ran out of memory. It used all of its {amount}."
    if code != 137:
        sentence = f"{label} ended with exit code {code} after a part of it ran out of its {amount}."
    exit_ = of(OUT_OF_MEMORY, sentence, remedy="Ask for more memoryMB, or use less in each task.")
    return replace(exit_, raw_code=code, signal=_signal_name(code), oom=True, certainty=certainty)


def _port_taken(label: str) -> Exit:
    sentence = f"A port that was given to {label} is in use on its node by something outside Longshore."
    return replace(of(PORT_CONFLICT, sentence), fault=str(FaultReason.PORT_TAKEN))


def _ended_itself(code: int, label: str) -> Exit:
    """A command that ends with the code of a kill, although nobody outside ended its container, is out of memory to
    clients of v1 (v1 contract, 5.11) and not tried again. It may have killed a part of itself just as well."""
    sentence = f"{label} ended with exit code {code}: its command, or a part of it, was killed inside the container."
    exit_ = of(OUT_OF_MEMORY, sentence, remedy="Read the end of its log. If it needs more memory, ask for it.")
    return replace(exit_, raw_code=code, signal=_signal_name(code), certainty="unknown")


def _signalled(code: int, label: str) -> Exit:
    exit_ = of(code, _SIGNAL_SENTENCES[code].format(label))
    return replace(exit_, raw_code=code, signal=_signal_name(code), certainty="likely")


def _signal_name(code: int) -> str | None:
    try:
        return signals.Signals(code - 128).name
    except ValueError:
        return None
