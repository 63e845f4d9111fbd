"""Says when a job would start with other numbers of GPUs, for its author to choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from base.core.errors import LongshoreError
from base.models import User
from jobs.config.spec import JobSpec
from jobs.forecast.outlook import Outlook, outlooks
from jobs.planning.lifecycle import JobState
from jobs.planning.turns import Move
from jobs.reading import read
from jobs.submitting import sweeps
from jobs.waiting.queue import recent_queue
from jobs.waiting.words import clocks

MOST = 6  # numbers that are tried
_NODES = 3  # that are named


@dataclass(frozen=True, slots=True)
class Size:
    """``gpus`` of each task of the role; ``state`` is RUNNING (fits now), WAITING or FAILED (never)."""

    gpus: int
    state: str
    title: str
    says: str
    is_asked: bool


def other_sizes(text: str, user: User, role: int) -> list[Size]:
    """The sizes for the role of this number in the config; of a sweep, of its first job. There are none where the
    config cannot be read, and for a role without GPUs."""
    try:
        config = sweeps.plan(text, user.username).variants[0].config if sweeps.asks_for(text) else text
        spec = read(config, username=user.username)[1]
    except LongshoreError:
        return []
    asked = spec.task_roles[role].gpu_number if role < len(spec.task_roles) else 0
    if not asked:
        return []
    numbers = _numbers(asked, _largest(spec))
    views = outlooks([_with(spec, role, number) for number in numbers], user.username)
    return [size_of(number, view, number == asked) for number, view in zip(numbers, views, strict=True)]


def _largest(spec: JobSpec) -> int:
    """How many GPUs that the job takes the largest node has."""
    types = ("", None, spec.gpu_type)
    nodes = recent_queue().scene.nodes
    return max((sum(spec.gpu_type in types[:2] or kind in types for _, kind in node.gpus) for node in nodes), default=0)


def _numbers(asked: int, largest: int) -> list[int]:
    """Powers of two up to the first that no node has, and what is asked for."""
    powers = [1]
    while powers[-1] <= largest and len(powers) < MOST:
        powers.append(powers[-1] * 2)
    return sorted({*powers, asked})


def _with(spec: JobSpec, role: int, gpus: int) -> JobSpec:
    data: dict[str, Any] = dict(spec.to_json())
    roles = [{**each, "gpuNumber": gpus} if at == role else each for at, each in enumerate(data["taskRoles"])]
    return JobSpec.from_json({**data, "taskRoles": roles})


def size_of(gpus: int, view: Outlook, is_asked: bool) -> Size:
    """What the outlook of a job of this size says, in a few words."""
    if view.turn.move is Move.GO:
        nodes = list(dict.fromkeys(place.node for place in view.turn.placements))
        more = f" and {len(nodes) - _NODES} more" if len(nodes) > _NODES else ""
        pull = ", after a pull of the image" if view.pull else ""
        return Size(gpus, JobState.RUNNING, "fits now", f"{', '.join(nodes[:_NODES])}{more}{pull}", is_asked)
    if view.never:
        return Size(gpus, JobState.FAILED, "never", view.never.sentence, is_asked)
    return Size(gpus, JobState.WAITING, *_waits(view), is_asked)


def _waits(view: Outlook) -> tuple[str, str]:
    if view.forecast:
        first, likely, last = clocks(view.forecast, timezone.localtime())
        after = f", when {view.after.title} ends" if view.after else ""
        return f"about {likely}", f"{first} to {last}{after}"
    return "waits", view.blockers[0].sentence if view.blockers else ""
