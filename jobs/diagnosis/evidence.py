"""What is known of an attempt that failed: the values that rules are compared with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A line of a log; ``number`` counts from 1."""

    stream: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class TaskEvidence:
    """A task of the attempt. ``code`` is what its process returned, ``exit`` the code of the exit table; both None
    where there is none. ``stopped``: it did not fail, but was ended when the attempt was over. ``lines`` are the last
    of its log, stdout before stderr. Memory is in MB; ``peak_mb`` is None where nobody has measured it."""

    label: str
    role: str
    node: str = ""
    code: int | None = None
    exit: int | None = None
    signal: str = ""
    oom: bool = False
    fault: str = ""
    sentence: str = ""  # what the exit table says of its end
    stopped: bool = False
    ended: datetime | None = None
    memory_mb: int = 0
    shm_mb: int = 0
    peak_mb: float | None = None
    lines: Sequence[EvidenceLine] = ()

    @property
    def order(self) -> tuple[bool, datetime]:
        """Those that failed come first, in the order in which they ended."""
        return self.stopped, self.ended or _FIRST


@dataclass(frozen=True, slots=True)
class Evidence:
    """An attempt. ``exit`` is how it ended as a whole, where no task decided that; ``events`` are {kind of a node's
    event: the nodes that had it} while the attempt ran; ``most_memory_mb`` is what the largest node has."""

    exit: int
    sentence: str
    tasks: Sequence[TaskEvidence] = ()
    decided_by: str = ""  # label of the task that decided it
    events: Mapping[str, Sequence[str]] = field(default_factory=dict)
    most_memory_mb: int = 0
    is_over: bool = False  # the job is not tried again


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why an attempt failed. ``whose`` fault: program, request, image, node or platform; "" where nobody knows.
    ``certainty``: certain, likely or possible. ``name`` are the cause's words without anything out of a log; ``says``
    and ``advice`` may have parts of it; ``open_advice`` is the advice where it has none. ``suspects`` are nodes that
    the next attempt avoids. ``followed`` are tasks that ended because of it."""

    rule: str
    cause: str
    name: str
    whose: str
    certainty: str
    says: str
    advice: str = ""
    task: str = ""
    node: str = ""
    lines: Sequence[Mapping[str, Any]] = ()  # {"stream", "number", "text", "mark"}: the proof, in its surroundings
    actions: Sequence[Mapping[str, Any]] = ()  # {"label", "change"}, see jobs.config.edit.ChangeAsked
    suspects: Sequence[str] = ()
    followed: Sequence[str] = ()
    open_advice: str = ""

    def as_read(self, *, may_read_logs: bool) -> Diagnosis:
        """The same for a viewer who may read the job's story, and maybe not its logs."""
        return self if may_read_logs else replace(self, says="", advice=self.open_advice, lines=())


UNKNOWN = Diagnosis(rule="", cause="unknown", name="", whose="", certainty="possible", says="")


def from_json(data: Mapping[str, Any] | None) -> Diagnosis | None:
    """The diagnosis that is stored with an attempt; None where there is none, and where no rule knows the cause. Keys
    of a newer release are ignored."""
    if not data or not data.get("rule"):
        return None
    known = {each.name for each in fields(Diagnosis)}
    return Diagnosis(**{key: value for key, value in data.items() if key in known})
