"""How a container, a start or an attempt ended, and what that means.

Pure. ``classify`` and ``from_fault`` turn what the engine says into an ``Exit``. Codes are those of
jobs/planning/exit_table.py (v1 contract, 6.2), so a program's own exit code 3 is code 255 with ``raw_code`` 3. Whether
it is tried again is decided in jobs/planning/retries.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from signal import Signals
from typing import Any, Literal, NamedTuple

from base.core import words
from clusters.engines.runtime import ContainerStatus, FaultReason
from jobs.planning.exit_table import RETRY, TABLE, ExitSpec, Reaction

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


OTHER = "another job"  # of somebody else, in sentences that others read
# Where sentences of earlier releases name one (user/job), and for whom and why an appointment keeps a node.
_OTHERS = re.compile(
    r"(?<=is reserved for )\S+(?=, which can start)|(?<=had borrowed: )\S+(?= of VC )"
    r"|(?<=only by now, and )\S+(?= of it )|^\S+(?= is evicted for this job)"
)
_APPOINTED = re.compile(r": kept for .+? (from \d.+?\)) by the appointment “.*”\.")
_STRANGER = re.compile(r"(?<=nobody asked for), \S+,(?= is on)")
KEPT_SIGNALS = frozenset({130, 132, 134, 135, 136, 137, 139, 141, 143})
_ENDS_FROM_OUTSIDE = frozenset({137, 143})
_AWAITS_RETRY = re.compile(rf"{RETRY}|(?:Nothing; t|T)he retry follows by itself\.")
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
        """The entry of the table, with the reaction that this end gets, its reason and its remedy: one code has
        several causes."""
        spec = spec_for(self.code)
        if self.permanent:
            spec = replace(spec, behavior="NON_TRANSIENT", reaction=Reaction.NEVER_RETRY)
        if not self.sentence:
            return spec
        return replace(spec, reason=self.sentence, solution=(self.remedy,) if self.remedy else None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Exit:
        """Read what ``to_json`` wrote. Keys of a newer or older release are ignored or defaulted."""
        known = {f.name for f in fields(cls)}
        read = {"sentence": "", **{key: value for key, value in data.items() if key in known}}
        return cls(**read) if read.get("code") != PREEMPTED else cls(**read | {"sentence": nameless(read["sentence"])})


def spec_for(code: int) -> ExitSpec:
    """The entry of any code; one that is not listed gets the template 256 or -8000 with its own number."""
    template = _UNLISTED_POSITIVE if code > 0 else _UNLISTED_NEGATIVE
    return TABLE.get(code) or replace(TABLE[template], code=code)


def without_retry(advice: str) -> str:
    """Leave out of an advice what only matters when the job is tried again."""
    return _AWAITS_RETRY.sub("", advice).strip()


def as_v1(spec: ExitSpec) -> dict[str, Any]:
    """Return ``appExitSpec`` of the v1 API."""
    return {
        **asdict(spec),
        "reaction": str(spec.reaction),
        "repro": list(spec.repro),
        "solution": None if spec.solution is None else list(spec.solution),
    }


def exit_for(
    code: int, sentence: str = "", *, remedy: str | None = None, permanent: bool = False, **known: Any
) -> Exit:
    """An Exit with the table's own words where none are given; what is not tried again awaits no retry. ``known`` are
    other fields of the Exit."""
    spec = spec_for(code)
    advice = " ".join(spec.solution or ())
    advice = without_retry(advice) if permanent else advice
    known.setdefault("blame", _BLAMES.get(spec.type, "nobody"))
    remedy = advice if remedy is None else remedy
    return Exit(code=code, sentence=sentence or spec.reason or "", remedy=remedy, permanent=permanent, **known)


def classify(status: ContainerStatus, memory_mb: int, *, label: str = "The task") -> Exit:
    """Say as an Exit what the end of an exited container means. ``memory_mb`` is its limit, ``label`` names it
    ("worker-1").

    ``oom_killed`` is also set when only a child was killed: with exit 0 the job went on and succeeded, with any
    other code the missing child is the likely cause.
    """
    code = status.exit_code
    if status.evicted:
        return exit_for(EXIT_CODE_LOST, f"Kubernetes evicted {label}: {status.evicted}")
    if status.lost:
        return exit_for(EXIT_CODE_LOST, f"{label} was lost: its node went down, or its start was cut off.")
    if code is None:
        return exit_for(EXIT_CODE_LOST, f"{label} ended, but the node no longer knows how.")
    if code == 0:
        return exit_for(SUCCEEDED, f"{label} ended with exit code 0.", raw_code=0, oom=status.oom_killed)
    if status.oom_killed:
        return _out_of_memory(code, memory_mb, label)
    if status.port_taken:
        return _port_taken(label)
    if status.by_itself and code in _ENDS_FROM_OUTSIDE:
        return _ended_itself(code, label)
    if code in KEPT_SIGNALS:
        return exit_for(code, _SIGNAL_SENTENCES[code].format(label), **_of_process(code), certainty="likely")
    remedy = _HINTS.get(code, "Read the end of its log.")
    sentence = f"{label} ended with exit code {code}."
    return exit_for(USER_FAILED, sentence, remedy=remedy, **_of_process(code), certainty="unknown")


def held(container: ContainerStatus, memory_mb: int, label: str) -> Exit:
    """Say as an Exit how the command of a held container ended; the task itself has not ended."""
    if container.held_code is None:
        return exit_for(USER_FAILED, f"{label} failed.")
    return classify(replace(container, exit_code=container.held_code), memory_mb, label=label)


def from_fault(reason: str, sentence: str, permanent: bool) -> Exit:
    """Say as an Exit what a refused start means. ``sentence`` is the engine edge's own and is shown as it is. A
    container that disappeared before it was started is gone for ever, but the next one need not be."""
    if reason in set(StartFault):
        remedy = _START_REMEDIES[StartFault(reason)]
        return exit_for(USER_FAILED, sentence, remedy=remedy, permanent=True, fault=reason)
    known = FaultReason(reason) if reason in set(FaultReason) else FaultReason.REFUSED
    fault = _FAULTS[known]
    lasting = (permanent and known is not FaultReason.GONE) or fault.is_permanent
    guess = {"blame": "your job", "certainty": "likely"} if known is FaultReason.REGISTRY_UNKNOWN else {}
    return exit_for(fault.code, sentence, remedy=fault.remedy, permanent=lasting, fault=str(known), **guess)


def given_up(exit_: Exit, times: int) -> Exit:
    """The end of a start that was refused ``times`` in a row for what its job asks."""
    sentence = f"{exit_.sentence} It was tried {times} times."
    return exit_for(USER_FAILED, sentence, remedy=exit_.remedy, permanent=True, fault=exit_.fault)


def container_lost(label: str = "The task") -> Exit:
    return exit_for(CONTAINER_LOST, f"The container of {label} disappeared from its node.")


def restarted(label: str) -> Exit:
    sentence = f"The container of {label} was started a second time by somebody on its node, so its work was cut off."
    return exit_for(CONTAINER_LOST, sentence)


def node_lost(node: str, *, slow: bool = False) -> Exit:
    """``slow``: its host took connections to the end, so it may only have been too busy."""
    if not slow:
        return exit_for(NODE_LOST, f"Node {node} was lost.")
    sentence = f"Node {node} was given up: its host takes connections, but its engine has not answered for too long."
    return exit_for(NODE_LOST, sentence, certainty="likely")


def nameless(sentence: str, may_name: Callable[[str], bool] = lambda user: False) -> str:
    """Leave out of a sentence of an earlier release the job for whom one was evicted, or which was, but those of users
    that ``may_name`` allows, and what of an appointment or a container is nobody else's affair."""

    def one(found: re.Match[str]) -> str:
        named = OTHER if found.start() else OTHER.capitalize()
        return found[0] if may_name(found[0].partition("/")[0]) else named

    return _STRANGER.sub("", _APPOINTED.sub(r": kept \1 by an appointment.", _OTHERS.sub(one, sentence)))


def evicted(reason: str) -> Exit:
    """The Exit of an attempt whose room went to another job, or whose node is to become empty. The job is tried again
    and keeps its position."""
    return exit_for(PREEMPTED, reason, remedy="Nothing: it is tried again by itself, and no retry is used up.")


def job_stopped(by: str) -> Exit:
    return exit_for(JOB_STOPPED, f"Stopped by {by}." if by else "Stopped.")


def out_of_time(seconds: int) -> Exit:
    """The Exit of an attempt whose ``extras.maxRunSeconds`` are over. The job is not tried again, however often its
    config allows that."""
    sentence = f"The job ran for {words.duration(seconds)}, which is all that its maxRunSeconds allow."
    return exit_for(OUT_OF_TIME, sentence, permanent=True)


def dependency_failed(sentence: str) -> Exit:
    """The Exit of a job that was to start after another one, which did not succeed; ``sentence`` names that one."""
    return exit_for(DEPENDENCY_FAILED, sentence, permanent=True)


def task_stopped() -> Exit:
    return exit_for(TASK_STOPPED)


def never_fits(sentence: str) -> Exit:
    """The Exit of a job that no registered node could ever run; ``sentence`` names the nearest node."""
    return exit_for(
        NEVER_FITS,
        sentence,
        remedy="Ask for what the nodes have, or ask the cluster admin for more.",
        permanent=True,
    )


_HINTS = {
    126: "The command exists but may not be executed. Check its permissions.",
    127: "The command was not found in the image. Check its spelling and the image.",
}


class _Fault(NamedTuple):
    """What a refused start means: its code, what users are told to do in place of the table's advice, and whether
    trying again never helps."""

    code: int
    remedy: str | None = None
    is_permanent: bool = False


_FAULTS = {
    FaultReason.UNREACHABLE: _Fault(NODE_LOST),
    FaultReason.IMAGE_MISSING: _Fault(USER_FAILED, "Check the name and the tag of the image.", True),
    FaultReason.IMAGE_DENIED: _Fault(USER_FAILED, "Give the job an authFile with a user of that registry.", True),
    FaultReason.IMAGE_NAME: _Fault(USER_FAILED, "Correct the name of the image.", True),
    FaultReason.REGISTRY_UNREACHABLE: _Fault(
        DOCKER_RUN_FAILED, "Check the registry in the image's name; if it is right, ask the cluster admin."
    ),
    FaultReason.REGISTRY_UNKNOWN: _Fault(
        DOCKER_RUN_FAILED, "Correct the registry in the image's name; if it is right, ask the cluster admin."
    ),
    FaultReason.PULL_FAILED: _Fault(DOCKER_RUN_FAILED),
    FaultReason.PORT_TAKEN: _Fault(PORT_CONFLICT),
    FaultReason.GPU_MISSING: _Fault(LAUNCH_FAILED),
    FaultReason.GPU_DRIVER: _Fault(USER_FAILED, "Use an image with an older CUDA, or a node with a newer driver."),
    FaultReason.COMMAND_MISSING: _Fault(USER_FAILED, "Use an image that has /bin/sh.", True),
    FaultReason.NODE_BROKEN: _Fault(DOCKER_RUN_FAILED),
    FaultReason.REFUSED: _Fault(DOCKER_RUN_FAILED),
    FaultReason.GONE: _Fault(CONTAINER_LOST),
    FaultReason.WITHDRAWN: _Fault(TASK_STOPPED),
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
    remedy = "Ask for more memoryMB, or use less in each task."
    return exit_for(OUT_OF_MEMORY, sentence, remedy=remedy, **_of_process(code), oom=True, certainty=certainty)


def _port_taken(label: str) -> Exit:
    sentence = f"A port that was given to {label} is in use on its node by something outside Longshore."
    return exit_for(PORT_CONFLICT, sentence, fault=str(FaultReason.PORT_TAKEN))


def _ended_itself(code: int, label: str) -> Exit:
    """A command that ends with the code of a kill, although nobody outside ended its container, is out of memory to
    clients of v1 (v1 contract, 5.11) and not tried again. It may have killed a part of itself just as well."""
    sentence = f"{label} ended with exit code {code}: its command, or a part of it, was killed inside the container."
    remedy = "Read the end of its log. If it needs more memory, ask for it."
    return exit_for(OUT_OF_MEMORY, sentence, remedy=remedy, **_of_process(code), certainty="unknown")


def _of_process(code: int) -> dict[str, Any]:
    """What the process itself returned, and which signal that stands for."""
    signals = {signal.value: signal.name for signal in Signals}
    return {"raw_code": code, "signal": signals.get(code - 128)}
