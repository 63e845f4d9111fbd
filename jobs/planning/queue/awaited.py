"""What a job waits for that depends on another one, and what that one's end means to it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.placement.fit import Blocker

_ENDS = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "was stopped"}
_STATES = {"WAITING": "is waiting", "RUNNING": "is running", **_ENDS}


@dataclass(frozen=True, slots=True)
class Awaited:
    """A job that another one waits for. ``name`` is user~job; ``condition`` says which end it waits for: "success" or
    any "end"; ``state`` is the job's own. A job between two attempts has not ended."""

    name: str
    condition: str
    state: str
    has_ended: bool

    @property
    def is_met(self) -> bool:
        return self.has_ended and (self.condition == "end" or self.state == "SUCCEEDED")

    @property
    def in_vain(self) -> str:
        """Why the other job cannot start any more; empty while it may."""
        if not self.has_ended or self.is_met:
            return ""
        return f"It was to start after {self._title} had succeeded, but that job {_ENDS.get(self.state, 'ended')}."

    @property
    def says_end(self) -> str:
        """The Event of the other job when this one has ended."""
        return self.in_vain or f"{self._title}, which it waited for, {_ENDS.get(self.state, 'ended')}."

    @property
    def blocker(self) -> Blocker:
        until = "has succeeded" if self.condition == "success" else "has ended"
        now = _STATES.get(self.state, self.state)
        return Blocker("dependency", f"It starts after {self._title} {until}; that job {now}.", job=self.name)

    @property
    def _title(self) -> str:
        return self.name.replace("~", "/", 1)
