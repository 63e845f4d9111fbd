"""Shows the what-if panel of the submit page: what would happen if this text were submitted now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from django.utils import timezone

from base.core import words
from base.core.errors import LongshoreError, Problem
from base.models import User
from clusters.placement.blockers import could, shapes_of
from jobs.config import yaml_text
from jobs.config.spec import JobSpec
from jobs.forecast.outlook import Outlook
from jobs.planning.lifecycle import JobState
from jobs.planning.turns import Turn
from jobs.submitting import folders, sweeps
from jobs.submitting.dry_run import CheckResult, check_config
from jobs.submitting.folders import FolderNote
from jobs.submitting.sweeps import Checked, Planned
from jobs.waiting.queue import WaitingJob
from jobs.waiting.why import use_with
from jobs.waiting.words import likely

_NAMED = 3  # nodes


@dataclass(frozen=True, slots=True)
class SubmitPlan:
    """The panel. ``state`` gives its colour: FAILED (it has problems, or can never run), WAITING, RUNNING (starts now),
    "" (nothing is typed). ``refuses``: why it cannot be submitted, empty when it can."""

    state: str
    title: str
    sentences: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    asks: tuple[tuple[str, str], ...] = ()
    refuses: str = ""
    use: PlannedUse | None = None
    instead: tuple[tuple[str, str], ...] = ()  # smallest changes that start it now; of those of the config the JSON too
    notes: tuple[FolderNote, ...] = ()  # what is known of single fields
    sweep: Planned | None = None
    can_never_run: bool = False  # no node could ever take it: sent only by those who insist
    verb: str = ""  # on the button, where it is not Submit job


@dataclass(frozen=True, slots=True)
class PlannedUse:
    """What the virtual cluster would use with the job, of the resource that the job needs most: ``parts`` are those of
    the bar."""

    vc: str
    text: str
    parts: tuple[tuple[str, float], ...]


def plan_for(text: str, user: User) -> SubmitPlan:
    """Return the panel for the text in the editor."""
    if not text.strip():
        return SubmitPlan("", "Nothing typed yet", ("Paste a job config, or start from a sample.",))
    try:
        if sweeps.asks_for(text):
            return _sweep(sweeps.check(text, user), user)
        result = check_config(text, user)
    except LongshoreError as error:
        return SubmitPlan(JobState.FAILED, "It would be refused", (error.message,), refuses=error.message)
    if result.problems:
        return replace(_yaml(text) or refused(result.problems), notes=_notes(result, user))
    return replace(_of_one(result), notes=_notes(result, user))


def _sweep(checked: Checked, user: User) -> SubmitPlan:
    """The panel of a sweep: what happens to its first job, and all of its jobs."""
    if checked.problems or checked.planned is None or checked.first is None:
        return replace(refused(checked.problems), sweep=checked.planned)
    planned, first = checked.planned, _of_one(checked.first)
    number = len(planned.variants)
    gpus = sum(spec.total_gpus for spec in planned.specs)
    asks = [("Jobs", f"{number:,}, {planned.variants[0].name} to {planned.variants[-1].name}")]
    if planned.asked.at_once:
        asks.append(("At once", f"{planned.asked.at_once:,} at most"))
    if stop_after := planned.asked.stop_after:
        asks.append(("The rest is stopped", f"when {stop_after:,} {'has' if stop_after == 1 else 'have'} failed"))
    if gpus:
        asks.append(("GPUs", f"{gpus:,} in all"))
    title = first.title if first.state == JobState.FAILED else f"First job: {first.title[:1].lower()}{first.title[1:]}"
    verb = f"Submit {words.count(number, 'job')}"
    notes = _notes(checked.first, user, jobs=number)
    return replace(first, title=title, asks=(*asks, *first.asks), notes=notes, instead=(), sweep=planned, verb=verb)


def _of_one(result: CheckResult) -> SubmitPlan:
    if result.spec is None or result.outlook is None:
        return SubmitPlan(JobState.RUNNING, "Starts now")
    return _outlook(result, result.outlook, _asks(result.spec))


def _outlook(result: CheckResult, view: Outlook, asks: tuple[tuple[str, str], ...]) -> SubmitPlan:
    if result.never:
        says = (result.never.sentence, "Sent anyway, it fails at once.")
        return SubmitPlan(
            JobState.FAILED, "Can never run here", says, asks=asks, instead=_instead(view), can_never_run=True
        )
    use = _use(view.turn)
    if result.blockers:
        waits = (*_when(view), *(blocker.sentence for blocker in result.blockers))
        return SubmitPlan(JobState.WAITING, "Waits", waits, asks=asks, use=use, instead=_instead(view))
    if result.pull:
        return SubmitPlan(JobState.RUNNING, "Starts once its image is pulled", (result.pull,), asks=asks, use=use)
    return SubmitPlan(JobState.RUNNING, "Starts now", asks=asks, use=use)


def _notes(result: CheckResult, user: User, jobs: int = 1) -> tuple[FolderNote, ...]:
    """What is known of the image, the folders and the cost, problems or not."""
    if result.spec is None or result.outlook is None:
        return ()
    turn = result.outlook.turn
    return (
        *_image(turn),
        *folders.notes(result.spec, user),
        *_cost(result.spec.total_gpus * jobs, result.outlook.ran, jobs),
    )


def _image(turn: Turn[WaitingJob]) -> Iterator[FolderNote]:
    """Which of the nodes that could run its tasks have the image already."""
    shapes, vc = shapes_of(turn.job.demands), turn.job.vc
    able = [node for node in turn.queue.scene.nodes if node.serves(vc) and any(could(node, shape) for shape in shapes)]
    having = [node.name for node in able if shapes[0].image in node.images]
    if not able:
        return
    if not having:
        yield FolderNote("/image", "Image", "not known to be on a node yet; the first start pulls it", "warn")
    elif len(able) == len(having):
        yield FolderNote("/image", "Image", f"on {_nodes(having)}")
    else:
        yield FolderNote(
            "/image", "Image", f"on {len(having):,} of {len(able):,} nodes that fit; the others pull it first"
        )


def _nodes(names: Sequence[str]) -> str:
    return words.listing(list(names)) if len(names) <= _NAMED else f"all {len(names):,} nodes that fit"


def _cost(gpus: int, ran: float | None, jobs: int) -> Iterator[FolderNote]:
    """What it takes if it runs as long as jobs of the like did."""
    if ran is None:
        return
    similar = f"similar jobs ran {words.duration(ran)}"
    hours = f"about {words.hours(gpus * ran / 3600)} GPU-hours; " if gpus else ""
    yield FolderNote("", "Cost" if gpus else "Length", f"{hours}{similar}{' each' if jobs > 1 else ''}")


def _when(view: Outlook) -> tuple[str, ...]:
    """Sentences that say when it starts, with the spread, and after whom."""
    says = []
    if view.forecast:
        about, spread = likely(view.forecast, timezone.localtime())
        says.append(f"It starts at {about}; {spread}.")
    if view.after is not None:
        says.append(f"Most likely {view.after.title} ends right before.")
    return tuple(says)


def _instead(view: Outlook) -> tuple[tuple[str, str], ...]:
    return tuple((change.sentence, json.dumps(change.change) if change.is_of_config else "") for change in view.changes)


def _use(turn: Turn[WaitingJob]) -> PlannedUse:
    use, demands = use_with(turn), turn.job.demands
    what, noun = ("gpu", "GPU") if any(each.gpus for each in demands) else ("cpu", "core")
    used, then = use.used.get(what, 0), use.with_job.get(what, 0)
    guarantee, ceiling = use.guarantee.get(what, 0), use.ceiling.get(what)
    scale = max(then, guarantee, ceiling or 0, 1)
    most = "" if ceiling is None else f", at most {_round(ceiling)}"
    text = f"{_round(used)} used + {words.count(int(then - used), noun)}; {_round(guarantee)} guaranteed{most}"
    return PlannedUse(turn.job.vc, text, (("", 100 * used / scale), ("WAITING", 100 * (then - used) / scale)))


def _round(amount: float) -> str:
    return f"{int(amount):,}"


def _yaml(text: str) -> SubmitPlan | None:
    """The panel for a config in YAML, which says how to turn it into JSON; None for any other text."""
    if text.lstrip()[:1] in ("{", "[", "/", '"') or ":" not in text or yaml_text.to_json(text) is None:
        return None
    says = (
        "Longshore takes jobs as JSON. Lay out, above the text, turns this into JSON, without its comments.",
        "Jobs of protocolVersion 2, with prerequisites and deployments, are not taken: write jobName, image and "
        "taskRoles, or start from a sample.",
    )
    return SubmitPlan(JobState.FAILED, "This is YAML", says, refuses="Turn it into JSON first.")


def refused(problems: Sequence[Problem]) -> SubmitPlan:
    lines = sorted({problem.line for problem in problems if problem.line})
    where = f"line{'s' if len(lines) > 1 else ''} {_and(lines)}" if lines else "the config"
    return SubmitPlan(
        JobState.FAILED,
        words.count(len(problems), "problem"),
        problems=tuple(problems),
        refuses=f"Fix {where} first.",
    )


def _asks(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    cpus = sum(role.task_number * role.cpu_number for role in spec.task_roles)
    memory = sum(role.task_number * role.memory_mb for role in spec.task_roles)
    asks = [("Tasks", f"{spec.total_tasks:,}"), ("CPU", words.count(cpus, "core")), ("Memory", words.memory(memory))]
    if spec.total_gpus:
        asks.append(("GPUs", f"{spec.total_gpus:,} × {spec.gpu_type or 'any'}"))
    return (*asks, ("Virtual cluster", spec.effective_virtual_cluster))


def _and(lines: Sequence[int]) -> str:
    texts = [str(line) for line in lines[:4]]
    if len(lines) > 4:
        return f"{', '.join(texts)} and more"
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
