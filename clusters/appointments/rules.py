"""When an appointment keeps which nodes, for whom, and what may be asked of one. Pure.

An appointment gives nodes to somebody from one moment to another, once or each week. ``Span`` is one time of it. A
weekly one has the same hours of the day in its own time zone, also when summer time begins or ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from base.core import words

MOST = 200  # appointments that have not ended
LONGEST = timedelta(days=31)
FARTHEST = timedelta(days=366)  # from now to its first begin
WEEK = timedelta(days=7)
LATE = timedelta(minutes=5)  # so long ago it may begin when it is made: forms take a while
_COMPARED = 60  # times of a weekly one that are compared with others


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom nodes are given to: the jobs that all of it is true of. Empty: nobody, for maintenance. ``job`` is
    user~job."""

    vc: str = ""
    username: str = ""
    job: str = ""

    def takes(self, vc: str, username: str, name: str) -> bool:
        if not (self.vc or self.username or self.job):
            return False
        is_mine = self.vc in ("", vc) and self.username in ("", username)
        return is_mine and self.job in ("", f"{username}~{name}")

    @property
    def title(self) -> str:
        """For sentences: "VC nlp", "user lena", "job lena/bert", "maintenance"."""
        if self.job:
            return f"job {self.job.replace('~', '/', 1)}"
        whose = f"user {self.username}" if self.username else ""
        of = f"VC {self.vc}" if self.vc else ""
        return " in ".join(filter(None, (whose, of))) or "maintenance"


@dataclass(frozen=True, slots=True)
class Span:
    """One time of an appointment: from ``begin`` on, and no more at ``end``."""

    id: int
    title: str
    holder: Holder
    nodes: frozenset[str]
    begin: datetime
    end: datetime
    adds: bool = True  # to the guarantee and the ceiling of a virtual cluster, whose nodes they are as a whole

    def runs(self, now: datetime) -> bool:
        return self.begin <= now < self.end

    def moved(self, by: timedelta) -> Span:
        return replace(self, begin=self.begin + by, end=self.end + by) if by else self

    def sentence(self, nodes: Iterable[str], now: datetime) -> str:
        """Say what it keeps for whom; times are those of ``now``'s zone."""
        listed = words.listing(sorted(nodes))
        return f"{listed}: kept for {self.holder.title} {self._when(now)} by the appointment “{self.title}”."

    def sentence_for_others(self, nodes: Iterable[str], now: datetime) -> str:
        """Say only when it keeps them: for whom and why is nobody's business whom it does not concern."""
        return f"{words.listing(sorted(nodes))}: kept {self._when(now)} by an appointment."

    def _when(self, now: datetime) -> str:
        begin, end = self.begin.astimezone(now.tzinfo), self.end.astimezone(now.tzinfo)
        return f"from {begin:%d %b, %H:%M} to {end:%d %b, %H:%M} ({words.zone(begin)})"


@dataclass(frozen=True, slots=True)
class AppointmentView(Span):
    """A row as a value, which is its first time."""

    zone: str = "UTC"
    weekly: bool = False

    @property
    def said(self) -> dict[str, Any]:
        """What of it is in the audit record."""
        when = {"begin": self.begin.isoformat(), "end": self.end.isoformat(), "weekly": self.weekly}
        return {"for": self.holder.title, "nodes": sorted(self.nodes)[:50], **when}

    def span(self, now: datetime) -> Span | None:
        """The time that runs now or comes next; None where it is over."""
        return next(iter(self.spans(now, 1)), None)

    def spans(self, now: datetime, most: int) -> list[Span]:
        """So many times that are not over, the first ones."""
        at = max(0, (now - self.end) // WEEK - 1) if self.weekly else 0
        found: list[Span] = []
        while len(found) < most and (at == 0 or self.weekly):
            begin, end = (self._weeks_later(moment, at) for moment in (self.begin, self.end))
            if end > now:
                found.append(Span(self.id, self.title, self.holder, self.nodes, begin, end, self.adds))
            at += 1
        return found

    def _weeks_later(self, moment: datetime, weeks: int) -> datetime:
        if not weeks:
            return moment
        local = moment.astimezone(ZoneInfo(self.zone)) + weeks * WEEK  # hours of the day stay: no zone is crossed here
        return local.astimezone(moment.tzinfo)


def next_spans(appointments: Iterable[AppointmentView], now: datetime) -> list[Span]:
    """The time of each that runs now or comes next; none of those that are over."""
    return [span for each in appointments if (span := each.span(now)) is not None]


def find_mistake(asked: AppointmentView, now: datetime, before: AppointmentView | None = None) -> str:
    """What is wrong with an appointment that is asked for, as a sentence; empty where nothing is. ``before`` is what it
    was: a begin that has passed may stay."""
    length = asked.end - asked.begin
    if length <= timedelta():
        return "It must end after it begins."
    most = WEEK if asked.weekly else LONGEST
    if length > most:
        return f"It may last {most.days} days at most."
    if asked.begin < now - LATE and (before is None or before.begin != asked.begin):
        return "It begins in the past; let it begin now or later."
    if asked.begin > now + FARTHEST:
        return f"It may begin at most {FARTHEST.days} days from now."
    if asked.span(now) is None:
        return "All of it is in the past."
    if not asked.nodes:
        return "It must name a node, or an amount of GPUs."
    return ""


def conflict(asked: AppointmentView, others: Iterable[AppointmentView], now: datetime, *, names: bool = True) -> str:
    """Say which appointment of somebody else has one of its nodes at one of its times, with ``names`` whose it is;
    empty where none has."""
    mine = asked.spans(now, _COMPARED)
    for other in others:
        shared = asked.nodes & other.nodes
        if other.id == asked.id or other.holder == asked.holder or not shared:
            continue
        for theirs in other.spans(now, _COMPARED):
            if any(each.begin < theirs.end and theirs.begin < each.end for each in mine):
                says = theirs.sentence if names else theirs.sentence_for_others
                return f"It meets another appointment. {says(shared, now)}"
    return ""


def most_together(asked: AppointmentView, of_holder: Iterable[AppointmentView], now: datetime) -> frozenset[str]:
    """The nodes of all these appointments that meet a time of the one that is asked for."""
    mine = asked.spans(now, _COMPARED)
    meeting = [
        other.nodes
        for other in of_holder
        if any(each.begin < span.end and span.begin < each.end for each in mine for span in other.spans(now, _COMPARED))
    ]
    return frozenset().union(*meeting)


def choose(gpus: int, gpu_type: str, free: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The first of the ``free`` nodes, by name, that have so many GPUs of the type ("": any); None where all have
    fewer. ``free`` has the types of each one's GPUs."""
    chosen: list[str] = []
    for name in sorted(free):
        number = sum(gpu_type in ("", kind) for kind in free[name])
        if gpus > 0 and number:
            chosen.append(name)
            gpus -= number
    return chosen if gpus <= 0 else None
