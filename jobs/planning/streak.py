"""How the earlier attempts of a job ended: the last one, and how many in a row failed in the same way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.planning import exits
from jobs.planning.exit_table import Reaction
from jobs.planning.exits import Exit

MANY = 3  # after so many attempts that failed in the same way, people are warned that the next may not help
_FOR_EVER = (Reaction.ALWAYS_RETRY, Reaction.ALWAYS_BACKOFF_RETRY)
End = tuple[int, int | None, Mapping[str, Any]]  # Attempt's number, exit_code and exit


@dataclass(frozen=True, slots=True)
class Streak:
    """``number`` is the last attempt that is over, ``exit`` how it ended, ``alike`` how many in a row ended so,
    ``endless`` whether the job is tried again until somebody stops it."""

    number: int
    exit: Exit
    alike: int
    endless: bool
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
            return "The job is tried again without end, until somebody stops it."
        return "The job is tried again until its retries are used up."


def streak(ends: Iterable[End], retry_count: int) -> Streak | None:
    """The streak of a job whose earlier attempts had these ``ends``, newest first. None without any, and when the last
    one succeeded."""
    found = list(ends)
    if not found or not found[0][1]:
        return None
    number, code, kept = found[0]
    alike = next((at for at, end in enumerate(found) if _kind(end) != _kind(found[0])), len(found))
    exit_ = read_exit(code, kept)
    role, index = kept.get("role"), kept.get("index")
    task = f"{role}-{index}" if role and index is not None else ""
    endless = retry_count < 0 or exit_.spec.reaction in _FOR_EVER
    return Streak(number, exit_, alike, endless, task, str(kept.get("cause", "")))


def read_exit(code: int | None, kept: Mapping[str, Any]) -> Exit:
    """The Exit that is stored with an attempt."""
    told = kept.get("exit") or {}
    return Exit.from_json(told) if told else exits.of(code or 0, str(kept.get("reason", "")))


def _kind(end: End) -> tuple[object, ...]:
    """What two ends in the same way have in common: not the sentence, which may name a node."""
    told = end[2].get("exit") or {}
    return end[1], told.get("raw_code"), told.get("fault")
