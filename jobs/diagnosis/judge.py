"""Compares the evidence of a failed attempt with the rules, and says why it failed. Pure.

Each task is judged by itself first: the rule that holds with the highest rank, where a line near the end of its log
counts more than one further up, since programs go on after errors that they expect. Of a gang the cause is that of the
task that failed first; tasks that only lost their peers (``follows``) did not cause anything, whenever they ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jobs.diagnosis.evidence import UNKNOWN, Diagnosis, Evidence, EvidenceLine, TaskEvidence
from jobs.diagnosis.remedies import actions
from jobs.diagnosis.rules import Rule
from jobs.diagnosis.template import MessageTemplate
from jobs.planning.exits import without_retry

NEAR_END = 30  # lines from the end of a log in which a program says why it ends
NEARER = 30  # what that adds to the rank
WEAKER = {"certain": "likely", "likely": "possible", "possible": "possible"}
SHOWN = 12  # lines around the proof
WIDEST_SHOWN = 300
TRACEBACK = "Traceback (most recent call last):"
CAUSED = "The above exception was the direct cause of the following exception:"
LAUNCHERS = ("ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException")
_OF_EXCEPTION = re.compile(r"(?:\[\w+\]:\s*)?[A-Za-z_][\w.]*(?::|$)")
_NOT_OF_A_LOG = {"task", "node", "sentence"}  # placeholders
_FIELD = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that holds for a task. ``proof`` are the lines that say so; ``values`` what its placeholders took."""

    rule: Rule
    task: TaskEvidence
    score: int
    near: bool
    proof: tuple[EvidenceLine, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, int]:
        return self.score, self.proof[0].number if self.proof else 0


def judge(evidence: Evidence, rules: Sequence[Rule], is_over: Callable[[], bool] = lambda: False) -> Diagnosis:
    """Why the attempt failed. ``is_over`` says that no time is left to compare more."""
    tasks = sorted(evidence.tasks, key=lambda task: task.order)
    if not any(not task.stopped for task in tasks):  # the attempt as a whole failed: out of time, never fits
        tasks = [TaskEvidence("", "", exit=evidence.exit, sentence=evidence.sentence, ended=None), *tasks]
    best = {task.label: finding for task in tasks if (finding := _best(task, evidence, rules, is_over))}
    chosen = _first_cause(tasks, best)
    if chosen is None:
        return _unknown(evidence, tasks)
    followers = [label for label, finding in best.items() if finding.task is not chosen.task and finding.rule.follows]
    return _diagnosis(chosen, evidence, tasks, best, followers)


def findings(
    task: TaskEvidence, evidence: Evidence, rules: Sequence[Rule], is_over: Callable[[], bool]
) -> Iterator[Finding]:
    """All rules that hold for a task."""
    whole = "\n".join(line.text for line in task.lines)
    for rule in rules:
        if is_over():
            return
        if _facts_hold(rule, task, evidence) and (finding := _read(rule, task, whole)):
            yield finding


def _best(task: TaskEvidence, evidence: Evidence, rules: Sequence[Rule], is_over: Callable[[], bool]) -> Finding | None:
    fitting = (each for each in findings(task, evidence, rules, is_over) if each.rule.log or not task.stopped)
    return max(fitting, key=lambda finding: finding.place, default=None)


def _first_cause(tasks: Sequence[TaskEvidence], best: Mapping[str, Finding]) -> Finding | None:
    """That of the first task that failed and did not only follow. A task that was stopped counts where all that failed
    followed: it may have hung after an error that it wrote down. Last of all, what the followers say."""
    known = [best[task.label] for task in tasks if task.label in best]
    of_own = [finding for finding in known if not finding.rule.follows]
    told = [finding for finding in of_own if finding.proof or finding.rule.rank >= 50]
    failed = [finding for finding in (told or of_own) if not finding.task.stopped]
    hung = [finding for finding in told if finding.task.stopped and finding.near]
    return next(iter([*failed, *hung, *(finding for finding in known if finding.rule.follows)]), None)


def _facts_hold(rule: Rule, task: TaskEvidence, evidence: Evidence) -> bool:
    return (
        (not rule.code or task.code in rule.code)
        and (not rule.exit or task.exit in rule.exit)
        and (not rule.signal or task.signal in rule.signal)
        and (not rule.fault or task.fault in rule.fault)
        and (not rule.sentence or any(wording.match(task.sentence) is not None for wording in rule.sentence))
        and (rule.oom is None or rule.oom == task.oom)
        and (rule.peak is None or _peak(task) >= rule.peak)
        and (not rule.event or any(task.node in evidence.events.get(kind, ()) for kind in rule.event))
    )


def _peak(task: TaskEvidence) -> float:
    return task.peak_mb / task.memory_mb if task.peak_mb and task.memory_mb else 0.0


def _read(rule: Rule, task: TaskEvidence, whole: str) -> Finding | None:
    """The finding of a rule whose facts hold, if its templates fit lines of the log as well."""
    if any(_fitting(wording, task, whole) for wording in rule.without):
        return None
    besides = [_fitting(wording, task, whole) for wording in rule.besides]
    if not all(besides):
        return None
    if not rule.log:
        return Finding(rule, task, rule.rank + NEARER, True, tuple(fit[0] for fit in besides if fit))
    fits = [fit for wording in rule.log if (fit := _fitting(wording, task, whole))]
    if not fits:
        return None
    ends = {stream: max(line.number for line in task.lines if line.stream == stream) for stream in _streams(task)}
    line, values = max(fits, key=lambda fit: (fit[0].number - ends[fit[0].stream], fit[0].stream == "stderr"))
    near = _is_near(line, task, ends[line.stream])
    proof = (line, *(fit[0] for fit in besides if fit))
    return Finding(rule, task, rule.rank + (NEARER if near else 0), near, proof, values)


def _is_near(line: EvidenceLine, task: TaskEvidence, end: int) -> bool:
    """Whether the line is where the program says why it ends: at the end of its log, or in its last traceback. What
    stands before that traceback is an error that the program went on after."""
    own = [other for other in task.lines if other.stream == line.stream]
    begins = [at for at, other in enumerate(own) if TRACEBACK in other.text]
    raised = [at for at in begins if not _is_of_launcher(own[at:])]
    while len(raised) > 1 and any(CAUSED in other.text for other in own[raised[-2] : raised[-1]]):
        raised.pop()
    last = own[raised[-1]].number if raised else None
    if last is not None and line.number < last:
        return False
    return end - line.number < NEAR_END or last is not None


def _is_of_launcher(lines: Sequence[EvidenceLine]) -> bool:
    """Whether the traceback with which these lines begin is that of a launcher, which only says that another process
    failed."""
    told = next((line.text for line in lines[1:] if _OF_EXCEPTION.match(line.text)), "")
    return any(name in told for name in LAUNCHERS)


def _streams(task: TaskEvidence) -> set[str]:
    return {line.stream for line in task.lines}


def _fitting(wording: MessageTemplate, task: TaskEvidence, whole: str) -> tuple[EvidenceLine, dict[str, str]] | None:
    """The last line that fits, with the values of the placeholders."""
    if wording.literal not in whole:
        return None
    for line in reversed(task.lines):
        values = wording.match(line.text)
        if values is not None:
            return line, values
    return None


def _diagnosis(
    chosen: Finding,
    evidence: Evidence,
    tasks: Sequence[TaskEvidence],
    best: Mapping[str, Finding],
    followed: Sequence[str],
) -> Diagnosis:
    rule, task = chosen.rule, chosen.task
    certainty = rule.sure if chosen.near and not rule.follows else WEAKER[rule.sure]
    if task.stopped:
        certainty = WEAKER[certainty]
    values = {**chosen.values, "task": task.label or "The job", "node": task.node, "sentence": task.sentence}
    suspects = _suspects(chosen, tasks, best)
    next_ = without_retry(rule.next) if evidence.is_over else rule.next
    advice = _filled(next_, values)
    return Diagnosis(
        rule=rule.id,
        cause=rule.of_cause,
        name=rule.name,
        whose=rule.whose,
        certainty=certainty,
        says=_filled(rule.says, values),
        advice=advice,
        open_advice="" if set(_FIELD.findall(next_)) - _NOT_OF_A_LOG else advice,
        task=task.label,
        node=task.node,
        lines=excerpt(task, chosen.proof),
        actions=actions(rule, task, evidence, suspects),
        suspects=suspects,
        followed=tuple(followed),
    )


def _suspects(chosen: Finding, tasks: Sequence[TaskEvidence], best: Mapping[str, Finding]) -> tuple[str, ...]:
    """The nodes that the next attempt avoids. Only what failed with the chosen cause counts."""
    if not chosen.task.node or chosen.rule.suspect is None:
        return ()
    cause = chosen.rule.of_cause
    alike = [task for task in tasks if task.label in best and best[task.label].rule.of_cause == cause]
    nodes = {task.node for task in alike}
    if chosen.rule.suspect == "alone":
        return tuple(sorted(nodes))
    is_shared = len(alike) > 1 and len(nodes) == 1 and any(task.node not in nodes for task in tasks)
    return tuple(nodes) if is_shared else ()


def _filled(text: str, values: Mapping[str, str]) -> str:
    """The sentence with the values of its placeholders; "?" where a line did not say."""
    return _FIELD.sub(lambda field: values.get(field[1], "?") or "?", text)


def excerpt(task: TaskEvidence, proof: Sequence[EvidenceLine]) -> tuple[Mapping[str, object], ...]:
    """The lines around the proof, of its stream, with those marked that are the proof."""
    marked = {(line.stream, line.number) for line in proof}
    stream = proof[0].stream if proof else ("stderr" if "stderr" in _streams(task) else "stdout")
    lines = [line for line in task.lines if line.stream == stream]
    last = max((at for at, line in enumerate(lines) if (stream, line.number) in marked), default=len(lines) - 1)
    end = min(len(lines), max(last + 4, SHOWN))
    near = lines[max(0, end - SHOWN) : end]
    shown = [line for line in proof if line not in near] + near
    return tuple(
        {
            "stream": line.stream,
            "number": line.number,
            "text": line.text[:WIDEST_SHOWN],
            "mark": (line.stream, line.number) in marked,
        }
        for line in shown
    )


def _unknown(evidence: Evidence, tasks: Sequence[TaskEvidence]) -> Diagnosis:
    """No rule holds: the exit table's words, and the last lines of the task that decided the outcome."""
    task = next(
        (each for each in tasks if each.label == evidence.decided_by), tasks[0] if tasks else TaskEvidence("", "")
    )
    says = evidence.sentence or task.sentence
    return replace(UNKNOWN, says=says, task=task.label, node=task.node, lines=excerpt(task, ()))
