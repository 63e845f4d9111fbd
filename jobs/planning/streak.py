"""How the earlier attempts of a job ended: the last one, and how many in a row failed in the same way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clusters.engines.runtime import FaultReason
from jobs.planning import exits
from jobs.planning.exit_table import Reaction
from jobs.planning.exits import Exit

MANY = 3  # after so many attempts that failed in the same way, people are warned and the pauses grow from a minute on
MOST = 10  # after so many the job ends, unless its own retryCount says how often it is tried
LONGEST, LONGEST_FOR_EVER = 3600.0, 600.0  # seconds, the second for those that are tried for ever
_BY_THE_CLUSTER = (Reaction.ALWAYS_RETRY, Reaction.ALWAYS_BACKOFF_RETRY)
# An engine says now one of them and now another of the same registry.
_PULLS = (FaultReason.REGISTRY_UNREACHABLE, FaultReason.REGISTRY_UNKNOWN, FaultReason.PULL_FAILED)
End = tuple[int, int | None, Mapping[str, Any]]  # Attempt's number, exit_code and exit


@dataclass(frozen=True, slots=True)
class Streak:
    """``number`` is the last attempt that is over, ``exit`` how it ended, ``alike`` how many in a row ended so,
    ``endless`` whether the job is tried again until somebody stops it, and ``counted`` whether until its retries are
    used up."""

    number: int
    exit: Exit
    alike: int
    endless: bool
    counted: bool
    task: str  # label of the task that ended it, or ""
    cause: str = ""  # what its diagnosis calls it, where that was read too

    @property
    def is_warned(self) -> bool:
        return self.alike >= MANY and not self.is_eviction

    @property
    def is_eviction(self) -> bool:
        """It made room for another job: nothing went wrong, and it starts again."""
        return self.exit.code == exits.PREEMPTED

    @property
    def ended(self) -> str:
        return f"Attempt {self.number} {'was evicted' if self.is_eviction else 'failed'}"

    @property
    def says(self) -> str:
        """``Attempt 2 failed: <why>.`` or ``The last 6 attempts failed in the same way: <why>.`` and what follows."""
        why = self.exit.sentence.rstrip(".")
        if not self.is_warned:
            return f"{self.ended}: {why}."
        return f"The last {self.alike} attempts failed in the same way: {why}. {self.follows}"

    @property
    def follows(self) -> str:
        if self.endless:
            slowly = f"at pauses of up to {LONGEST_FOR_EVER / 60:.0f} minutes"
            return f"The job is tried again without end, {slowly}, until somebody stops it, as its retryCount asks."
        if self.counted:
            return "The job is tried again until its retries are used up."
        return f"The job is tried again, at pauses that grow to an hour, and ends with the {MOST}th such failure."


def streak(ends: Iterable[End], retry_count: int) -> Streak | None:
    """The streak of a job whose earlier attempts had these ``ends``, newest first. None without any, and when the last
    one succeeded."""
    newest = list(ends)
    if not newest or not newest[0][1]:
        return None
    number, code, kept = newest[0]
    exit_ = read_exit(code, kept)
    alike = next((at for at, end in enumerate(newest) if not are_alike(read_exit(*end[1:]), exit_)), len(newest))
    role, index = kept.get("role"), kept.get("index")
    task = f"{role}-{index}" if role and index is not None else ""
    counted = retry_count >= 0 and exit_.spec.reaction not in _BY_THE_CLUSTER
    return Streak(number, exit_, alike, retry_count < 0, counted, task, str(kept.get("cause", "")))


def read_exit(code: int | None, kept: Mapping[str, Any]) -> Exit:
    """The Exit that is stored with an attempt."""
    told = kept.get("exit") or {}
    return Exit.from_json(told) if told else exits.exit_for(code or 0, str(kept.get("reason", "")))


def are_alike(one: Exit, other: Exit) -> bool:
    """Whether both ended in the same way, whatever the sentences say, which may name a node."""
    return _kind(one) == _kind(other)


def _kind(exit_: Exit) -> tuple[object, ...]:
    return exit_.code, exit_.raw_code, "pull" if exit_.fault in _PULLS else exit_.fault
