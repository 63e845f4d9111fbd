"""The smallest changes that start a waiting job: named cases, and each one really starts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.appointments.rules import Holder, Span
from clusters.engines.runtime import Look
from clusters.placement.fit import NodeView
from jobs.config.spec import JobSpec
from jobs.planning.planner import plan
from jobs.planning.queue.appointments import by_node
from jobs.planning.queue.scene import Scene
from jobs.planning.turns import turns
from jobs.planning.world import JobView
from jobs.waiting.changes import Change, smallest_changes
from tests.helpers import examples
from tests.unit.test_planner import NOW, RECENTLY, job, node, spec, world
from tests.unit.test_turns import LATER, queues, stopping, waiting

VCS = {"default": 0, "other": 0}
TASKS = {"name": "w", "command": "x", "gpuNumber": 1}
BUSY = node(used_gpus=frozenset("01"))  # two of its four GPUs are free
AWAY = node("n2", offered=False, why_not="cordoned")


def changes(jobs: Sequence[JobView], nodes: Sequence[NodeView], **more: Any) -> list[Change]:
    """Of the last job."""
    scene = Scene(nodes, NOW, **more)
    turn = next(turn for turn in turns(jobs, scene) if turn.job is jobs[-1])
    return smallest_changes(turn, VCS)


HOUR = timedelta(hours=1)
KEPT = st.sampled_from(["n0", "n1", "n0 n1 n2"])


def kept(begin: timedelta, nodes: str = "n1") -> Span:
    """An appointment of two hours for nobody."""
    return Span(1, "firmware", Holder(), frozenset(nodes.split()), NOW + begin, NOW + begin + 2 * HOUR)


def replace_extras(asked: JobSpec, extras: dict[str, Any]) -> JobSpec:
    return JobSpec.from_json({**asked.to_json(), "extras": extras})


CASES: dict[str, tuple[Sequence[JobView], Sequence[NodeView], dict[str, Any], list[dict[str, Any]]]] = {
    "fewer GPUs a task": ([waiting(1, 4)], [BUSY], {}, [{"gpuNumber": 2}]),
    "as few as needed": ([waiting(1, 4)], [node(used_gpus=frozenset("0"))], {}, [{"gpuNumber": 3}]),
    "fewer tasks": ([waiting(1, 1, tasks=3)], [BUSY], {}, [{"taskNumber": {"w": 2}}]),
    "another virtual cluster": (
        [waiting(1)],
        [node()],
        {"quotas": stopping(["default"])},
        [{"virtualCluster": "other"}],
    ),
    "a node that comes back": ([waiting(1, 4)], [BUSY, AWAY], {}, [{"gpuNumber": 2}, {"nodeReturns": "n2"}]),
    "an end before the appointment, or a stop for it": (
        [waiting(1, 4)],
        [node()],
        {"spans": [kept(2 * HOUR)]},
        [{"maxRunSeconds": 6900}, {"preemptible": True}],
    ),
    "the longest time that ends before one of several": (
        [waiting(1, 4)],
        [node(), node("n2", used_gpus=frozenset("0"))],
        {"spans": [kept(2 * HOUR), kept(HOUR), kept(3 * HOUR, "n2")]},
        [{"maxRunSeconds": 3300}, {"preemptible": True}],
    ),
    "no end that is too near to be of use": (
        [waiting(1, 4)],
        [node()],
        {"spans": [kept(HOUR / 5)]},
        [{"preemptible": True}],
    ),
    "further apart": (
        [job(1, "WAITING", spec=replace_extras(spec(2, gpuNumber=4), {"topology": {"require": 2}}))],
        [node(f"n{rack}", labels=frozenset({("topology", f"h1/r{rack}")})) for rack in (1, 2)],
        {},
        [{"topology": {"prefer": 2}}, {"gpuNumber": 2}, {"taskNumber": {"w": 1}}],
    ),
    "none while the appointment runs": ([waiting(1, 4)], [node()], {"spans": [kept(-HOUR)]}, []),
    "none for one that starts": ([waiting(1)], [node()], {}, []),
    "none for one that waits for its next try": ([waiting(1, 4, not_before=LATER)], [BUSY], {}, []),
    "none where nothing is free": ([waiting(1)], [node(used_gpus=frozenset("0123"))], {}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_the_smallest_change_of_each_kind_is_found(case: str) -> None:
    jobs, nodes, more, expected = CASES[case]
    assert [one.change for one in changes(jobs, nodes, **more)] == expected


def test_fewer_tasks_are_those_of_the_role_with_the_most() -> None:
    roles = [{"name": "ps", "command": "x", "taskNumber": 2, "gpuNumber": 1}, TASKS | {"taskNumber": 3}]
    asked = JobSpec.from_json({"jobName": "j", "image": "i", "taskRoles": roles})
    [found] = changes([job(1, "WAITING", spec=asked)], [node(used_gpus=frozenset("0"))])
    assert found.change == {"taskNumber": {"w": 1}}
    assert len(found.placements) == 3


def test_a_change_is_a_sentence_and_says_where_the_job_would_start() -> None:
    [fewer, back] = changes([waiting(1, 4)], [BUSY, AWAY])
    assert fewer.sentence == "Ask for 2 GPUs a task instead of 4." and fewer.is_of_config
    assert [(place.node, place.gpu_ids) for place in fewer.placements] == [("n1", ("2", "3"))]
    assert back.sentence == "Node n2, which is cordoned, takes tasks again." and not back.is_of_config


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(queues(), st.lists(st.builds(kept, st.sampled_from([-HOUR, HOUR / 5, HOUR, 5 * HOUR]), KEPT), max_size=3))
def test_applied_each_of_them_makes_the_planner_start_the_job(
    queue: tuple[list[JobView], list[NodeView], frozenset[str]], spans: list[Span]
) -> None:
    jobs, nodes, stopped = queue
    quotas = stopping(stopped)
    now = {"spans": tuple(spans), "appointed": by_node(spans, NOW)}
    for turn in list(turns(jobs, Scene(nodes, NOW, quotas, spans=spans))):
        for change in smallest_changes(turn, dict.fromkeys("abc", 100)):
            there = _nodes_with(change, nodes)
            seen = {one.name: Look(one.name, RECENTLY, True, {}) for one in there}
            changed = [_with(change, one) if one is turn.job else one for one in jobs]
            made = plan(world(waiting=changed, nodes=there, looks=seen, quotas=quotas, **now))
            assert turn.job.id in {one.job.id for one in made.jobs if one.placements}, change


def _with(change: Change, job: JobView) -> JobView:
    asked = change.change
    tasks, gpus = len(job.demands), job.demands[0].gpus
    tasks = asked.get("taskNumber", {}).get("w", tasks)
    other = waiting(job.id, asked.get("gpuNumber", gpus), tasks=tasks, vc=asked.get("virtualCluster", job.vc))
    extras = {name: asked[name] for name in ("maxRunSeconds", "preemptible") if name in asked}
    return replace(job, vc=other.vc, demands=other.demands, spec=replace_extras(spec(tasks), extras))


def _nodes_with(change: Change, nodes: Sequence[NodeView]) -> list[NodeView]:
    return [replace(one, offered=True) if one.name == change.change.get("nodeReturns") else one for one in nodes]
