"""Says why a job waits, failed or was stopped: the panel at the top of its page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from base.core import words
from jobs.diagnosis.evidence import Diagnosis, from_json
from jobs.models import Attempt, Job
from jobs.planning import exits
from jobs.planning.lifecycle import JobState
from jobs.planning.streak import Streak, read_exit
from jobs.waiting.words import likely, moment
from portal.shared.jobs.rows import cause_words, change_url, job_url


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
    """A button: the job's config changed in one thing, ``change`` as JSON. Its owner submits it at once; for others
    ``url`` is the submit page with it."""

    label: str
    url: str
    change: str


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
    """Return the panel of a waiting job. ``reason`` is that of ``jobs.waiting.why.waiting_reason``: {"summary",
    "blockers": [{"kind", "sentence", "need", "have", ...}]}. With ``before`` it first says why the last attempt
    failed."""
    blockers: Sequence[Mapping[str, Any]] = reason.get("blockers") or ()
    shown_elsewhere = () if before is None else ("failed", "delay") if next_try else ("failed",)
    shown = tuple(_hindrance(each, reason) for each in blockers if each.get("kind") not in shown_elsewhere)
    facts = _likely(reason.get("forecast"), reason.get("notBefore"))
    if reserved := reason.get("reservation"):
        facts += (Fact("Reserved", str(reserved["sentence"])),)
    if before:
        return _again(before, next_try, shown, facts)
    if not shown:
        return Cause(JobState.WAITING, "This job is about to start", lead=str(reason.get("summary", "")))
    title, rest = _first(shown[0].sentence)
    if len(shown) > 1:
        lead = f"{_NUMBERS.get(len(shown), len(shown))} things keep this job waiting; this one most of all."
        return Cause(JobState.WAITING, title, lead, facts=facts, hindrances=shown)
    measure = shown[0].measure
    lead = " ".join(f"{part[:1].upper()}{part[1:]}" for part in (rest, measure and f"{measure}.") if part)
    return Cause(JobState.WAITING, title, lead, facts=facts, hindrances=shown if shown[0].jobs else ())


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
    title, rest = _first(before.exit.sentence)
    if before.is_warned:
        lead = f"The last {before.alike} attempts failed in the same way. {before.follows}"
    else:
        lead = f"{before.ended}. {rest}".strip()
    return Cause(
        JobState.FAILED if before.is_warned else JobState.WAITING,
        title or before.ended,
        lead=lead,
        facts=(*_blamed(before.exit), *also),
        hindrances=hindrances,
        task=before.task,
        attempt=before.number,
        next_try=next_try,
    )


def failed(job: Job, attempt: Attempt, *, may_read_logs: bool = True) -> Cause:
    """The panel of a failed job: why its last attempt failed, who is to blame, what to do, and why it is not
    retried. What comes out of a log is shown to those who may read it."""
    followed = str(attempt.exit.get("next", ""))
    not_retried = (Fact("Not retried", _not_retried(followed)),) if followed else ()
    if (diagnosis := from_json(attempt.diagnosis)) is not None:
        return _diagnosed(job, attempt, diagnosis, not_retried, may_read_logs)
    exit_ = _detail(attempt)
    facts = (*_blamed(exit_), *not_retried)
    return _ended(exit_, "The job failed", facts, task_of(attempt), attempt.number, is_memory=exit_.oom)


def held(exit_: exits.Exit, task: str, attempt: int) -> Cause:
    """The panel of a job that runs on only because its container is kept for debugging: how its command ended."""
    facts = _blamed(exit_) if exit_.sentence else ()
    return _ended(exit_, f"The command of {task} failed", facts, task, attempt)


def _ended(
    exit_: exits.Exit, otherwise: str, facts: tuple[Fact, ...], task: str, attempt: int, *, is_memory: bool = False
) -> Cause:
    title, lead = _first(exit_.sentence)
    return Cause(
        JobState.FAILED,
        title or otherwise,
        lead,
        facts,
        evidence=_evidence(exit_),
        task=task,
        attempt=attempt,
        is_memory=is_memory,
    )


def between(cause: Cause, job: Job, last: Attempt, *, may_read_logs: bool) -> Cause:
    """The panel of a job that waits to be tried again, with what the diagnosis of its last attempt says."""
    diagnosis = from_json(last.diagnosis)
    if diagnosis is None:
        return cause
    told = _diagnosed(job, last, diagnosis, (), may_read_logs)
    names = {fact.name for fact in told.facts}
    return replace(
        told,
        state=cause.state,
        lead=cause.lead,
        facts=(*told.facts, *(fact for fact in cause.facts if fact.name not in names)),
        hindrances=cause.hindrances,
        next_try=cause.next_try,
    )


def _diagnosed(job: Job, attempt: Attempt, diagnosis: Diagnosis, more: tuple[Fact, ...], may_read_logs: bool) -> Cause:
    exit_ = _detail(attempt)
    diagnosis = diagnosis.as_read(may_read_logs=may_read_logs)
    title, lead = _first(diagnosis.says)
    if not may_read_logs:
        ended = exit_.sentence.rstrip(".")
        title, lead = cause_words(diagnosis.name, diagnosis.task), f"{ended}." if ended else ""
    first: Mapping[str, Any] = {**diagnosis.lines[0], "number": 0} if diagnosis.lines else _NO_LINE
    marked: Mapping[str, Any] = next((line for line in diagnosis.lines if line["mark"]), first)
    actions = (
        Action(str(each["label"]), change_url(job.username, job.name, each["change"]), json.dumps(each["change"]))
        for each in diagnosis.actions
    )
    return Cause(
        JobState.FAILED,
        title,
        lead,
        facts=(*_facts(diagnosis, exit_, marked), *more),
        evidence=(*_evidence(exit_), Fact("rule", diagnosis.rule)),
        task=diagnosis.task,
        attempt=attempt.number,
        stream=marked["stream"],
        at=marked["number"],
        lines=diagnosis.lines,
        actions=tuple(actions),
        is_memory=diagnosis.cause == "memory",
    )


def _first(sentences: str) -> tuple[str, str]:
    """The first sentence, without its full stop, as a title; and the others."""
    title, _, rest = sentences.rstrip(".").partition(". ")
    return title, f"{rest}." if rest else ""


def _facts(diagnosis: Diagnosis, exit_: exits.Exit, marked: Mapping[str, Any]) -> Iterator[Fact]:
    who, rather = _WHOSE[diagnosis.whose]
    yield Fact("Blame", f"{who}{rather}", _proof(diagnosis, exit_, marked))
    if advice := diagnosis.advice or exit_.remedy:
        yield Fact("What to do", advice)
    if diagnosis.followed:
        yield Fact("Followed", f"{words.listing(list(diagnosis.followed))} ended because of it.")
    if diagnosis.suspects:
        yield Fact("Suspect", f"{words.listing(list(diagnosis.suspects))}.", "Retries of this job avoid it.")


def _proof(diagnosis: Diagnosis, exit_: exits.Exit, marked: Mapping[str, Any]) -> str:
    sure = diagnosis.certainty.capitalize()
    if exit_.oom and diagnosis.cause == "memory":
        return f"{sure}: the engine reports OOMKilled."
    if marked.get("number"):
        return f"{sure}: line {words.number(marked['number'])} of {marked['stream']} says so."
    return f"{sure}."


def stopped(job: Job) -> Cause:
    """The panel of a stopped job."""
    by = f"Stopped by {job.stopped_by}" if job.stopped_by else "Stopped"
    return Cause(JobState.STOPPED, by, facts=(Fact("What to do", "Clone it to run it again."),))


def task_of(attempt: Attempt) -> str:
    """The label of the task that decided the attempt's outcome; empty when none did."""
    role, index = attempt.exit.get("role"), attempt.exit.get("index")
    return f"{role}-{index}" if role and index is not None else ""


def short(attempt: Attempt) -> tuple[str, str]:
    """Why the attempt ended, for the table of attempts, and its exit code with the blame, which is shown in grey."""
    if attempt.exit_code is None:
        return "", ""
    exit_ = _detail(attempt)
    blame = "" if exit_.blame == "nobody" else f", {exit_.blame}"
    if diagnosis := from_json(attempt.diagnosis):
        return cause_words(diagnosis.name, diagnosis.task), f"{words.code(exit_.code)}{blame}"
    return exit_.sentence, "" if exit_.code == 0 else f"{words.code(exit_.code)}{blame}"


def _detail(attempt: Attempt) -> exits.Exit:
    return read_exit(attempt.exit_code, attempt.exit)


def _blamed(exit_: exits.Exit) -> tuple[Fact, ...]:
    """Who is to blame for this end, and what they can do."""
    who, more = _BLAME.get(exit_.blame, ("Nobody", "."))
    proof = "Certain: the engine reports OOMKilled." if exit_.oom and exit_.certainty == "certain" else ""
    remedy = (Fact("What to do", exit_.remedy),) if exit_.remedy else ()
    return Fact("Blame", f"{who}{more}", proof or _CERTAINTY[exit_.certainty]), *remedy


def _not_retried(followed: str) -> str:
    reason = followed.removeprefix("Not tried again: ")
    return reason if reason.startswith("retryCount") else f"{reason[:1].upper()}{reason[1:]}"


def _evidence(exit_: exits.Exit) -> tuple[Fact, ...]:
    is_guess = exit_.code == exits.OUT_OF_MEMORY and not exit_.oom  # then the name of the code says too much
    facts = [Fact("exit code", words.code(exit_.code), "" if is_guess else exit_.spec.phrase)]
    if exit_.raw_code is not None:
        facts.append(Fact("raw code", str(exit_.raw_code)))
    if exit_.signal:
        facts.append(Fact("signal", exit_.signal))
    if exit_.fault:
        facts.append(Fact("fault", exit_.fault))
    return tuple(facts)


def _hindrance(blocker: Mapping[str, Any], reason: Mapping[str, Any]) -> Hindrance:
    sentence, need, have = (str(blocker.get(name) or "") for name in ("sentence", "need", "have"))
    if blocker.get("kind") == "queue":
        names = [str(job["name"]).partition("~")[::2] for job in reason.get("ahead") or ()]
        jobs = tuple((f"{user}/{name}", job_url(user, name)) for user, name in names)
        return Hindrance(sentence, "", jobs, int(have or 0) - len(jobs))
    measure = ", ".join(filter(None, (need and f"needs {need}", have and f"has {have}")))
    return Hindrance(sentence, measure)


_NUMBERS = {2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
