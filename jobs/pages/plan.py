"""Shows the what-if panel of the submit page: what would happen if this text were submitted now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs import services
from jobs.config import yaml_text
from jobs.config.spec import JobSpec
from jobs.planning.lifecycle import JobState
from portal.core import words
from portal.core.errors import LongshoreError, Problem
from portal.models import User


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The panel. ``state`` gives its colour: FAILED (it has problems, or can never run), WAITING, RUNNING (starts now),
    "" (nothing is typed). ``refuses``: why it cannot be submitted, empty when it can."""

    state: str
    title: str
    sentences: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    asks: tuple[tuple[str, str], ...] = ()
    refuses: str = ""


def plan_for(text: str, user: User) -> WhatIf:
    """The panel for the text in the editor."""
    if not text.strip():
        return WhatIf("", "Nothing typed yet", ("Paste a job config, or start from a sample.",))
    try:
        result = services.check(text, user)
    except LongshoreError as error:
        return WhatIf(JobState.FAILED, "It would be refused", (error.message,), refuses=error.message)
    if result.problems:
        return _yaml(text) or refused(result.problems)
    asks = _asks(result.spec) if result.spec else ()
    if result.never:
        says = (result.never.sentence, "Sent anyway, it fails at once.")
        return WhatIf(JobState.FAILED, "Can never run here", says, asks=asks)
    if result.blockers:
        return WhatIf(JobState.WAITING, "Waits", tuple(blocker.sentence for blocker in result.blockers), asks=asks)
    if result.pull:
        return WhatIf(JobState.RUNNING, "Starts once its image is pulled", (result.pull,), asks=asks)
    return WhatIf(JobState.RUNNING, "Starts now", asks=asks)


def _yaml(text: str) -> WhatIf | None:
    """The panel for a config in YAML, which says how to turn it into JSON; None for any other text."""
    if text.lstrip()[:1] in ("{", "[", "/", '"') or ":" not in text or yaml_text.to_json(text) is None:
        return None
    says = (
        "Longshore takes jobs as JSON. Lay out, above the text, turns this into JSON, without its comments.",
        "Jobs of protocolVersion 2, with prerequisites and deployments, are not taken: write jobName, image and "
        "taskRoles, or start from a sample.",
    )
    return WhatIf(JobState.FAILED, "This is YAML", says, refuses="Turn it into JSON first.")


def refused(problems: Sequence[Problem]) -> WhatIf:
    lines = sorted({problem.line for problem in problems if problem.line})
    where = f"line{'s' if len(lines) > 1 else ''} {_and(lines)}" if lines else "the config"
    return WhatIf(
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
