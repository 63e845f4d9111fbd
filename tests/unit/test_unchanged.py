"""Turns that are not worked out again are those that would be worked out (LONGSHORE_WORLDS=10000 plays more worlds)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from clusters.engines.runtime import Look
from clusters.placement.shares import Hold, Quota, add
from jobs.planning import planner
from jobs.planning.planner import plan
from jobs.planning.queue.lengths import Lengths, LikeJobs
from jobs.planning.queue.scene import NO_LENGTHS, REST, Policy, Resting, Rests
from jobs.planning.queue.unchanged import INTERVAL, hold_for, interval_start
from jobs.planning.world import JobView, TaskView, World
from tests.unit.test_planner import NOW, RECENTLY, container, job, node, spec, task, world

WORLDS = int(os.environ.get("LONGSHORE_WORLDS", "150"))
SOON = [timedelta(seconds=seconds) for seconds in (1, 4, 9, 60)]
START = interval_start(NOW)
LENGTHS = Lengths(
    (LikeJobs("u", "j", gpus, vc), seconds) for gpus in (1, 2) for vc in "ab" for seconds in (3, 20, 90, 400)
)
EXTRAS: list[dict[str, object]] = [{}, {}, {"preemptible": True}, {"maxRunSeconds": 2}, {"maxRunSeconds": 30}]
QUOTAS = {vc: Quota({"gpu": 4, "cpu": 8, "memory": 8000}) for vc in "ab"}


def pending(id: int, draw: st.DrawFn) -> JobView:
    extras = draw(st.sampled_from(EXTRAS))
    asked = spec(draw(st.integers(1, 3)), gpuNumber=draw(st.integers(1, 4))).model_copy(update={"extras": extras})
    pauses = {name: draw(st.sampled_from([None, None, None, *SOON])) for name in ("not_before", "parked_until")}
    moments: dict[str, Any] = {name: START + pause if pause is not None else None for name, pause in pauses.items()}
    return job(id, "WAITING", vc=draw(st.sampled_from("ab")), spec=asked, priority=draw(st.integers(0, 1)), **moments)


def resting(left: timedelta) -> Rests:
    return {"u": Resting(1, START, START + left - 2 * REST)}


@st.composite
def full_worlds(draw: st.DrawFn) -> World:
    """Two nodes on which most GPUs are taken, and jobs that wait for them."""
    live: list[tuple[JobView, list[TaskView]]] = []
    holds: dict[str, Hold] = {}
    seen: dict[str, Look] = {}
    for name in ("n1", "n2"):
        containers = {}
        for gpu in range(draw(st.integers(2, 4))):
            id = 10 * int(name[1]) + gpu
            end = draw(st.sampled_from([None, None, *SOON]))
            view = job(
                *(id, "RUNNING"), vc=draw(st.sampled_from("ab")), is_guest=draw(st.integers(0, 5)) == 0,
                started_at=START - timedelta(seconds=draw(st.sampled_from([1, 19, 50, 1000]))),
                ends_by=START + end if end is not None else None,
            )  # fmt: skip
            live.append((view, [task(id, job_id=id, node=name)]))
            holds[str(id)] = Hold(view.vc, name, 1, 1000, (str(gpu),), ())
            containers[f"c{id}"] = container(f"c{id}")
        seen[name] = Look(name, RECENTLY, True, containers)
    made = world(
        now=START + draw(st.sampled_from([timedelta(0), timedelta(seconds=2)])),
        looks=seen,
        live=live,
        waiting=[pending(100 + at, draw) for at in range(draw(st.integers(0, 4)))],
        quotas=draw(st.sampled_from([{}, QUOTAS])),
        lengths=draw(st.sampled_from([NO_LENGTHS, LENGTHS])),
        rests=draw(st.sampled_from([{}, *map(resting, SOON)])),
    )
    return with_holds(made, holds)


def with_holds(one: World, holds: dict[str, Hold]) -> World:
    """The same with these holds counted as taken."""
    nodes = []
    for name in ("n1", "n2"):
        mine = [hold for hold in holds.values() if hold.node == name]
        gpus = frozenset(gpu for hold in mine for gpu in hold.gpu_ids)
        nodes.append(node(name, used_gpus=gpus, used_cpus=len(mine), used_memory_mb=1000 * len(mine)))
    use: dict[str, dict[str, float]] = {}
    for hold in holds.values():
        add(use.setdefault(hold.vc, {}), {"gpu": 1, "cpu": 1, "memory": 1000})
    return replace(one, nodes=nodes, holds=holds, use=use)


def with_one_ended(one: World) -> World:
    return with_holds(replace(one, live=one.live[1:]), dict(list(one.holds.items())[1:]))


CHANGES: dict[str, Callable[[World], World]] = {
    "nothing": lambda one: one,
    "nothing, but all is read anew": lambda one: replace(
        one, nodes=list(map(replace, one.nodes)), waiting=list(map(replace, one.waiting)), holds=dict(one.holds)
    ),
    "a node is cordoned": lambda one: replace(one, nodes=[replace(one.nodes[0], offered=False), one.nodes[1]]),
    "a node is larger": lambda one: replace(
        one, nodes=[one.nodes[0], replace(one.nodes[1], gpus=(*one.nodes[1].gpus, ("4", ""), ("5", "")))]
    ),
    "a node is not seen": lambda one: replace(one, looks={"n1": one.looks["n1"]}),
    "a container of nobody is there": lambda one: replace(
        one,
        looks={
            **one.looks,
            "n1": replace(
                one.looks["n1"],
                containers={
                    **one.looks["n1"].containers,
                    "c7": container("c7", labels={"longshore.gpus": "3"}),
                },
            ),
        },
    ),
    "a job has ended": with_one_ended,
    "a running job is stopped": lambda one: replace(
        one, live=[(replace(one.live[0][0], stopping=True), one.live[0][1]), *one.live[1:]]
    ),
    "a waiting job is gone": lambda one: replace(one, waiting=one.waiting[1:]),
    "a job has come": lambda one: replace(one, waiting=[*one.waiting, job(200, "WAITING", vc="b")]),
    "a job was moved": lambda one: replace(one, waiting=[replace(each, priority=-each.id) for each in one.waiting]),
    "a pause was ended": lambda one: replace(
        one, waiting=[replace(each, not_before=None, parked_until=None) for each in one.waiting]
    ),
    "a job will never fit": lambda one: replace(one, waiting=[replace(each, never="no") for each in one.waiting]),
    "rights have changed": lambda one: replace(one, quotas={"a": QUOTAS["a"], "b": Quota({"gpu": 8, "cpu": 16})}),
    "a virtual cluster is stopped": lambda one: replace(one, quotas={"a": Quota(stopped=True), "b": QUOTAS["b"]}),
    "something was learnt": lambda one: replace(one, lengths=Lengths([(LikeJobs("u", "j", 0, "a"), 7.0)])),
    "a user rests": lambda one: replace(one, rests={"u": Resting(3, START, START)}),
    "there is a new policy": lambda one: replace(one, policy=Policy(reservations=1)),
}


@settings(max_examples=WORLDS, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    change=st.sampled_from(list(CHANGES)),
    one=full_worlds(),
    is_undone=st.booleans(),
    seconds=st.sampled_from([0, 0.1, 1, 2.5, 5, 9, 60]),
)
def test_a_pass_that_is_spared_its_turns_plans_what_it_would_have_planned(
    change: str, one: World, is_undone: bool, seconds: float
) -> None:
    before, after = (CHANGES[change](one), one) if is_undone else (one, CHANGES[change](one))
    still = plan(before).unchanged
    assume(still is not None)
    later = replace(after, now=before.now + timedelta(seconds=seconds))
    assert plan(later, still) == plan(later)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever turns are worked out, in which no job can start."""
    found: list[int] = []

    def counted(*_: object, **__: object) -> Iterator[object]:
        found.append(1)
        return iter(())

    monkeypatch.setattr(planner, "turns_in", counted)
    return found


def test_the_turns_of_a_full_cluster_are_worked_out_once_a_step(times: list[int]) -> None:
    one = world(now=START, waiting=[job(1, "WAITING")])
    still = plan(one).unchanged
    for part in (0.2, 0.5, 0.9):
        still = plan(replace(one, now=START + part * INTERVAL), still).unchanged
    assert len(times) == 1
    plan(replace(one, now=START + INTERVAL), still)
    assert len(times) == 2


def test_those_of_very_many_jobs_hold_for_longer(times: list[int]) -> None:
    assert [hold_for(cost) for cost in (0.0, 0.025)] == [INTERVAL] * 2
    assert [hold_for(cost).total_seconds() for cost in (0.05, 0.2, 0.4, 60.0)] == [10, 40, 60, 60]
    one = world(now=START, waiting=[job(1, "WAITING")])
    still = plan(one, hold=2 * INTERVAL).unchanged
    still = plan(replace(one, now=START + 1.9 * INTERVAL), still, hold=2 * INTERVAL).unchanged
    assert len(times) == 1
    plan(replace(one, now=START + 2 * INTERVAL), still)
    assert len(times) == 2


def test_a_pause_that_is_over_ends_what_holds_for_longer(times: list[int]) -> None:
    one = world(now=START, waiting=[job(1, "WAITING", not_before=START + INTERVAL)])
    still = plan(one, hold=4 * INTERVAL).unchanged
    plan(replace(one, now=START + INTERVAL), still, hold=4 * INTERVAL)
    assert len(times) == 2


def test_what_was_not_seen_or_stopped_starts_once_it_is() -> None:
    one = world(waiting=[job(1, "WAITING", keeps_turn=True)])
    for before in (replace(one, looks={}), replace(one, quotas={"default": Quota(stopped=True)})):
        still = plan(before).unchanged
        assert still is not None
        assert [made.job.id for made in plan(one, still).jobs] == [1]


def test_a_plan_that_does_something_says_nothing_of_the_next() -> None:
    assert plan(world(waiting=[job(1, "WAITING")])).unchanged is None
