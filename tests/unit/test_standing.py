"""What is kept from pass to pass changes no plan, and of what just runs nothing is looked at again."""

from __future__ import annotations

import gc
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.appointments.rules import Holder, Span
from clusters.engines.runtime import Look
from jobs.planning import live as live_jobs
from jobs.planning.live import Standing
from jobs.planning.planner import plan
from jobs.planning.world import World
from tests.unit.test_planner import NOW, RECENTLY, container, job, task, world
from tests.unit.test_unchanged import CHANGES, START, WORLDS, full_worlds


def other_looks(one: World, **values: Any) -> World:
    """The same with another look at each node, which shows the same mapping of containers."""
    return replace(one, looks={name: replace(look, **values) for name, look in one.looks.items()})


def with_container(one: World, phase: str | None, **values: Any) -> World:
    """The first container of n1 is in another phase by now, or gone. Once all are gone, nothing changes."""
    if not one.looks["n1"].containers:
        return one
    name, *rest = one.looks["n1"].containers
    kept = {each: one.looks["n1"].containers[each] for each in rest}
    now = {name: container(name, phase, **values)} if phase else {}
    return replace(one, looks={**one.looks, "n1": replace(one.looks["n1"], containers={**now, **kept})})


def with_first(one: World, **values: Any) -> World:
    """The first job has another row."""
    (first, tasks), *rest = one.live
    return replace(one, live=[(replace(first, **values), tasks), *rest])


def with_task(one: World, **values: Any) -> World:
    (first, tasks), *rest = one.live
    return replace(one, live=[(first, [replace(tasks[0], **values)]), *rest])


def with_appointment(one: World, holder: Holder) -> World:
    span = Span(1, "firmware", holder, frozenset({"n2"}), one.now, one.now + timedelta(hours=1))
    return replace(one, spans=(span,), appointed={"n2": span})


ALL = CHANGES | {
    "nodes are looked at again": lambda one: other_looks(one, at=NOW),
    "no engine answers": lambda one: other_looks(one, reachable=False, since=RECENTLY),
    "a container has ended": lambda one: with_container(one, "exited", exit_code=1),
    "a container is gone": lambda one: with_container(one, None),
    "a container is held": lambda one: with_container(one, "running", held=True),
    "a job is decided": lambda one: with_first(one, stopping=True),
    "a job has a last moment": lambda one: with_first(one, ends_by=START + timedelta(seconds=3)),
    "a task was noted": lambda one: with_task(one, progress="paused"),
    "a task starts": lambda one: with_task(one, state="STARTING", ordered_at=RECENTLY, container_id=""),
    "a node is drained": lambda one: replace(one, drained=frozenset({"n2"})),
    "an appointment begins": lambda one: with_appointment(one, Holder()),
    "an appointment of its own begins": lambda one: with_appointment(one, Holder(vc="default")),
    "a node is gone": lambda one: replace(one, nodes=one.nodes[:1]),
    "a node is registered": lambda one: replace(one, nodes=[*one.nodes, replace(one.nodes[0], name="n3")]),
    "quarantine was written": lambda one: replace(
        one, nodes=[replace(each, quarantined=(frozenset({"3"}), frozenset())) for each in one.nodes]
    ),
}


@settings(max_examples=WORLDS, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    one=full_worlds(), changes=st.lists(st.tuples(st.sampled_from(list(ALL)), st.sampled_from([0, 1, 4])), max_size=5)
)
def test_the_plan_is_that_of_a_pass_that_looks_at_everything(one: World, changes: list[tuple[str, int]]) -> None:
    kept = Standing()
    worlds = [one]
    for change, seconds in changes:
        last = worlds[-1]
        changed = ALL[change](last) if last.live and len(last.nodes) > 1 and len(last.looks) > 1 else one
        worlds.append(replace(changed, now=last.now + timedelta(seconds=seconds)))
    for each in worlds:
        assert plan(each, standing=kept) == plan(each)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The jobs that are looked at."""
    found: list[int] = []
    just_runs = live_jobs.just_runs

    def noted(world: World, names: Any, one: Any, tasks: Any) -> bool:
        found.append(one.id)
        return just_runs(world, names, one, tasks)

    monkeypatch.setattr(live_jobs, "just_runs", noted)
    return found


def test_only_those_are_looked_at_again_whose_row_or_node_has_changed(looked_at: list[int]) -> None:
    live = [(job(id), [task(id, job_id=id, node=f"n{id}", container_name=f"c{id}")]) for id in (1, 2, 3)]
    looks = {f"n{id}": Look(f"n{id}", RECENTLY, True, {f"c{id}": container(f"c{id}")}) for id in (1, 2, 3)}
    one = world(live=live, looks=looks, nodes=[replace(world().nodes[0], name=f"n{id}") for id in (1, 2, 3)])
    kept = Standing()
    plan(one, standing=kept)
    assert looked_at == [1, 2, 3]
    plan(other_looks(one, at=NOW), standing=kept)
    assert looked_at == [1, 2, 3]
    ended = replace(looks["n2"], containers={"c2": container("c2", "exited", exit_code=0)})
    plan(replace(one, looks={**looks, "n2": ended}), standing=kept)
    assert looked_at == [1, 2, 3, 2]
    plan(replace(one, live=[live[0], live[1], (replace(live[2][0], priority=1), live[2][1])]), standing=kept)
    assert sorted(looked_at[4:]) == [2, 3]


@settings(max_examples=5, suppress_health_check=list(HealthCheck), deadline=None)
@given(one=full_worlds())
def test_a_pass_leaves_nothing_that_only_the_garbage_collector_frees(one: World) -> None:
    kept = Standing()
    plan(one, standing=kept)
    gc.disable()
    gc.freeze()  # what there is already, in all the other tests too, is not looked through
    try:
        plan(one, standing=kept)
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()
