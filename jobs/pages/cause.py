"""Says why a job waits, failed or was stopped: the panel at the top of its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs.diagnosis.evidence import Diagnosis, from_json
from jobs.models import Attempt, Job
from jobs.pages.rows import cause_words, change_url, job_url
from jobs.planning import exits
from jobs.planning.forecast.words import likely, moment
from jobs.planning.lifecycle import JobState
from jobs.planning.streak import Streak, read_exit
from portal.core import words


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    text: str
    more: str = ""  # in grey behind it


@dataclass(frozen=True, slots=True)
class Hindrance:
    """One thing that keeps a job waiting: a sentence, and on the right (``measure``) what it needs and what there
    is."""

    sentence: str
    measure: str
    jobs: tuple[tuple[str, str], ...] = ()  # (user/job, its page) of jobs ahead of it
    more: int = 0  # jobs besides those


@dataclass(frozen=True, slots=True)
class Action:
    """A button: the submit page, with the job's config changed in one thing."""

    label: str
    url: str


@dataclass(frozen=True, slots=True)
class Cause:
    """The panel. ``state`` gives its colour. ``task`` and ``attempt`` name the task whose log shows the cause; ``task``
    is "" when none does, ``at`` is the line of it in ``stream``. ``next_try``: when a job that failed is tried again.
    ``lines`` are the proof out of the log: {"number", "text", "mark"}; only for those who may read the log."""

    state: str
    title: str
    lead: str = ""
    facts: tuple[Fact, ...] = ()
    hindrances: tuple[Hindrance, ...] = ()
    evidence: tuple[Fact, ...] = ()
    task: str = ""
    attempt: int = 0
    next_try: datetime | None = None
    stream: str = "stderr"
    at: int = 0
    lines: Sequence[Mapping[str, Any]] = ()
    actions: tuple[Action, ...] = ()
    is_memory: bool = False  # the task ran out of memory

    @property
    def of_line(self) -> str:
        """The end of the address of the log page: the stream, and the line if there is one."""
        return f"stream={self.stream}{f'#L{self.at}' if self.at else ''}"


_CERTAINTY = {
    "certain": "Certain.",
    "likely": "Likely; the log may say more.",
    "unknown": "Unknown why; the log may say.",
}
_NO_LINE = {"stream": "stderr", "number": 0}
_WHOSE = {
    "program": ("The program", ", not the cluster."),
    "request": ("What the job asks for", ", not the cluster."),
    "image": ("The image", ", not the cluster."),
    "node": ("The node", ", not your job."),
    "platform": ("The cluster", ", not your job."),
}
_BLAME = {
    "your job": ("The job", ", not the cluster."),
    "the cluster": ("The cluster", ", not your job."),
}


def waiting(reason: Mapping[str, Any], before: Streak | None = None, next_try: datetime | None = None) -> Cause:
    """The panel of a waiting job. ``reason`` is that of ``jobs.scheduling.explain.waiting_reason``: {"summary",
    "blockers": [{"kind", "sentence", "need", "have", ...}]}. With ``before`` it first says why the last attempt
    failed."""
    blockers: Sequence[Mapping[str, Any]] = reason.get("blockers") or ()
    shown_elsewhere = ("failed", "delay") if before else ()
    shown = tuple(
        _ahead(blocker, reason) if blocker.get("kind") == "queue" else _hindrance(blocker)
        for blocker in blockers
        if blocker.get("kind") not in shown_elsewhere
    )
    facts = _likely(reason.get("forecast"), reason.get("notBefore"))
    if before:
        return _again(before, next_try, shown, facts)
    if kept := reason.get("reservation"):
        facts += (Fact("Reserved", str(kept["sentence"])),)
    if len(shown) == 1:
        return Cause(JobState.WAITING, "One thing keeps this job waiting", facts=facts, hindrances=shown)
    if shown:
        title = f"{_NUMBERS.get(len(shown), len(shown))} things keep this job waiting"
        return Cause(JobState.WAITING, title, facts=facts, hindrances=shown)
    return Cause(JobState.WAITING, "This job is about to start", lead=str(reason.get("summary", "")))


def _likely(forecast: Mapping[str, int] | None, after: int | None) -> tuple[Fact, ...]:
    """When it will start, with the spread, or at least when hardly any such job would."""
    now = timezone.localtime()
    if after is not None:
        return (Fact("Likely start", f"after {moment(after, now)}", "So many wait that nobody can tell more yet."),)
    if not forecast:
        return ()
    about, spread = likely(forecast, now)
    return (Fact("Likely start", about, f"{spread}."),)


def _again(
    before: Streak, next_try: datetime | None, hindrances: tuple[Hindrance, ...], also: tuple[Fact, ...]
) -> Cause:
    title, _, rest = before.exit.sentence.rstrip(".").partition(". ")
    if before.is_warned:
        lead = f"The last {before.alike} attempts failed in the same way. {before.follows}"
    else:
        lead = f"{before.ended}. {f'{rest}.' if rest else ''}".strip()
    facts = [_blame(before.exit)]
    if before.exit.remedy:
        facts.append(Fact("What to do", before.exit.remedy))
    facts += also
    return Cause(
        JobState.FAILED if before.is_warned else JobState.WAITING,
        title or before.ended,
        lead=lead,
        facts=tuple(facts),
        hindrances=hindrances,
        task=before.task,
        attempt=before.number,
        next_try=next_try,
    )


def failed(job: Job, attempt: Attempt, *, may_read_logs: bool = True) -> Cause:
    """The panel of a failed job: why its last attempt failed, who is to blame, what to do, and why it is not
    retried. What comes out of a log is shown to those who may read it."""
    exit_ = _detail(attempt)
    followed = str(attempt.exit.get("next", ""))
    not_retried = (Fact("Not retried", _not_retried(followed)),) if followed else ()
    found = diagnosis_of(attempt)
    if found is None:
        title, _, rest = exit_.sentence.rstrip(".").partition(". ")
        remedy = (Fact("What to do", exit_.remedy),) if exit_.remedy else ()
        return Cause(
            JobState.FAILED,
            title or "The job failed",
            lead=f"{rest}." if rest else "",
            facts=(_blame(exit_), *remedy, *not_retried),
            evidence=_evidence(exit_),
            task=task_of(attempt),
            attempt=attempt.number,
            is_memory=exit_.oom,
        )
    return _diagnosed(job, attempt, found, not_retried, may_read_logs)


def diagnosis_of(attempt: Attempt) -> Diagnosis | None:
    """Why the attempt failed; None where no rule knows, and while it is not diagnosed."""
    found = from_json(attempt.diagnosis)
    return found if found is not None and found.rule else None


def between(cause: Cause, job: Job, last: Attempt, *, may_read_logs: bool) -> Cause:
    """The panel of a job that waits to be tried again, with what the diagnosis of its last attempt says."""
    found = diagnosis_of(last)
    if found is None:
        return cause
    told = _diagnosed(job, last, found, (), may_read_logs)
    rest = tuple(fact for fact in cause.facts if fact.name not in {one.name for one in told.facts})
    return replace(
        told,
        state=cause.state,
        lead=cause.lead,
        facts=(*told.facts, *rest),
        hindrances=cause.hindrances,
        next_try=cause.next_try,
    )


def _diagnosed(job: Job, attempt: Attempt, found: Diagnosis, more: tuple[Fact, ...], may_read_logs: bool) -> Cause:
    exit_ = _detail(attempt)
    title, _, rest = found.says.rstrip(".").partition(". ")
    if not may_read_logs:
        title, rest = cause_words(found.name, found.task), exit_.sentence.rstrip(".")
    marked: Mapping[str, Any] = next((line for line in found.lines if line["mark"]), _NO_LINE)
    return Cause(
        JobState.FAILED,
        title,
        lead=f"{rest}." if rest else "",
        facts=(*_facts(found, exit_, marked, may_read_logs), *more),
        evidence=(*_evidence(exit_), Fact("rule", found.rule)),
        task=found.task,
        attempt=attempt.number,
        stream=marked["stream"],
        at=marked["number"],
        lines=found.lines if may_read_logs else (),
        actions=tuple(_action(job, one) for one in found.actions),
        is_memory=found.cause == "memory",
    )


def _facts(found: Diagnosis, exit_: exits.Exit, marked: Mapping[str, Any], may_read_logs: bool) -> Iterator[Fact]:
    who, rather = _WHOSE[found.whose]
    yield Fact("Blame", f"{who}{rather}", _proof(found, exit_, marked if may_read_logs else {}))
    if found.advice and may_read_logs:
        yield Fact("What to do", found.advice)
    if found.followed:
        yield Fact("Followed", f"{words.listing(list(found.followed))} ended because of it.")
    if found.suspects:
        yield Fact("Suspect", f"{words.listing(list(found.suspects))}.", "Retries of this job avoid it.")


def _proof(found: Diagnosis, exit_: exits.Exit, marked: Mapping[str, Any]) -> str:
    sure = found.certainty.capitalize()
    if exit_.oom and found.cause == "memory":
        return f"{sure}: the engine reports OOMKilled."
    if marked.get("number"):
        return f"{sure}: line {words.number(marked['number'])} of {marked['stream']} says so."
    return f"{sure}."


def _action(job: Job, one: Mapping[str, Any]) -> Action:
    return Action(str(one["label"]), change_url(job.username, job.name, one["change"]))


def stopped(job: Job, attempt: Attempt) -> Cause:
    """The panel of a stopped job."""
    by = f"Stopped by {job.stopped_by}" if job.stopped_by else "Stopped"
    return Cause(JobState.STOPPED, by, facts=(Fact("What to do", "Clone it to run it again."),))


def task_of(attempt: Attempt) -> str:
    """The label of the task that decided the attempt's outcome; empty when none did."""
    role, index = attempt.exit.get("role"), attempt.exit.get("index")
    return f"{role}-{index}" if role and index is not None else ""


def short(attempt: Attempt) -> tuple[str, str]:
    """For the table of attempts: why the attempt ended, and its exit code with the blame, which is shown in grey."""
    if attempt.exit_code is None:
        return "", ""
    exit_ = _detail(attempt)
    blame = "" if exit_.blame == "nobody" else f", {exit_.blame}"
    if found := diagnosis_of(attempt):
        return cause_words(found.name, found.task), f"{words.code(exit_.code)}{blame}"
    return exit_.sentence, "" if exit_.code == 0 else f"{words.code(exit_.code)}{blame}"


def _detail(attempt: Attempt) -> exits.Exit:
    return read_exit(attempt.exit_code, attempt.exit)


def _blame(exit_: exits.Exit) -> Fact:
    who, more = _BLAME.get(exit_.blame, ("Nobody", "."))
    proof = "Certain: the engine reports OOMKilled." if exit_.oom and exit_.certainty == "certain" else ""
    return Fact("Blame", f"{who}{more}", proof or _CERTAINTY[exit_.certainty])


def _not_retried(followed: str) -> str:
    reason = followed.removeprefix("Not tried again: ")
    return reason if reason.startswith("retryCount") else f"{reason[:1].upper()}{reason[1:]}"


def _evidence(exit_: exits.Exit) -> tuple[Fact, ...]:
    facts = [Fact("exit code", words.code(exit_.code), exit_.spec.phrase)]
    if exit_.raw_code is not None:
        facts.append(Fact("raw code", str(exit_.raw_code)))
    if exit_.signal:
        facts.append(Fact("signal", exit_.signal))
    if exit_.fault:
        facts.append(Fact("fault", exit_.fault))
    return tuple(facts)


def _hindrance(blocker: Mapping[str, Any]) -> Hindrance:
    return Hindrance(str(blocker.get("sentence", "")), _measure(blocker))


def _ahead(blocker: Mapping[str, Any], reason: Mapping[str, Any]) -> Hindrance:
    names = [str(one["name"]).partition("~")[::2] for one in reason.get("ahead") or ()]
    jobs = tuple((f"{user}/{name}", job_url(user, name)) for user, name in names)
    return Hindrance(str(blocker.get("sentence", "")), "", jobs, int(blocker.get("have") or 0) - len(jobs))


def _measure(blocker: Mapping[str, Any]) -> str:
    need, have = str(blocker.get("need") or ""), str(blocker.get("have") or "")
    parts = [f"needs {need}" if need else "", f"has {have}" if have else ""]
    return ", ".join(filter(None, parts))


_NUMBERS = {2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
