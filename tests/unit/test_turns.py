"""Whose turn it is: what is printed is what the planner does, and every job that waits has a true reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.engines.runtime import Look
from clusters.placement.fit import NodeView
from clusters.placement.free import FreeNodes
from clusters.placement.shares import Quota
from jobs.planning.planner import plan
from jobs.planning.queue.scene import Scene
from jobs.planning.turns import Move, Turn, turns
from jobs.planning.world import JobView
from tests.helpers import examples
from tests.unit.test_planner import NOW, RECENTLY, job, node, spec, world

LATER = NOW + timedelta(seconds=7)


def waiting(id: int, gpus: int = 1, **values: Any) -> JobView:
    return job(id, "WAITING", spec=spec(values.pop("tasks", 1), gpuNumber=gpus), **values)


def turns_of(
    jobs: Sequence[JobView], nodes: Sequence[NodeView] = (node(),), stopped: Sequence[str] = ()
) -> list[Turn[JobView]]:
    """In the order of their ids."""
    return sorted(turns(jobs, Scene(nodes, NOW, stopping(stopped))), key=lambda turn: turn.job.id)


def stopping(vcs: Iterable[str]) -> dict[str, Quota]:
    return {vc: Quota(stopped=True) for vc in vcs}


def kinds(turn: Turn[JobView]) -> list[str]:
    return [blocker.kind for blocker in turn.blockers]


def test_a_job_that_does_not_fit_holds_the_queue_of_its_virtual_cluster_alone() -> None:
    busy = node(used_gpus=frozenset("01"))
    other, large, behind = turns_of([waiting(1, vc="b"), waiting(2, 4), waiting(3)], [busy])
    assert (large.move, behind.move, other.move) == ("reserve", "skip", "go")
    assert (kinds(large), kinds(behind), kinds(other)) == (["gpus"], ["reserved", "queue"], [])
    assert behind.behind is large.job and behind.position == 2


def test_a_job_whose_node_is_away_lets_the_others_pass() -> None:
    away = node("n2", gpus=tuple((str(at), "B") for at in range(8)), offered=False, why_not="cordoned")
    eight, one = turns_of([waiting(1, 8), waiting(2)], [node(), away])
    assert (eight.move, one.move) == ("skip", "go")
    assert kinds(eight) == ["gpus", "nodes"]


def test_a_job_that_is_about_to_end_takes_no_turn() -> None:
    gone = [waiting(1, stopping=True), waiting(2, deleted=True), waiting(3, never="No node has so much.")]
    [turn] = turns_of([*gone, waiting(4)])
    assert (turn.job.id, turn.position, turn.move) == (4, 1, "go")


def test_it_is_first_in_first_out_whatever_the_order_of_the_rows() -> None:
    four, three = turns_of([waiting(4, 3), waiting(3, 3)][::-1])
    assert [(turn.job.id, turn.move) for turn in (four, three)] == [(3, "go"), (4, "reserve")]


def test_every_reason_is_told_and_not_only_the_first() -> None:
    busy = node(used_gpus=frozenset("0123"))
    _, last = turns_of([waiting(1), waiting(2, not_before=LATER)], [busy])
    assert kinds(last) == ["delay", "gpus", "queue"]
    [stopped] = turns_of([waiting(1)], [busy], ["default"])
    assert kinds(stopped) == ["vc_stopped", "gpus"]


def test_a_job_that_cannot_be_planned_is_told_to_be_parked_and_the_others_go_on() -> None:
    bad, good = turns_of([job(1, "WAITING", demands=None), waiting(2)])
    assert isinstance(bad.error, TypeError) and kinds(bad) == ["parked"]
    assert good.move is Move.GO


SHAPES = st.sampled_from([(1, 0), (1, 1), (1, 4), (2, 3), (3, 2), (1, 8), (9, 1)])


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[JobView], list[NodeView], frozenset[str]]:
    jobs = []
    for id in draw(st.permutations(range(1, draw(st.integers(1, 9)) + 1))):
        tasks, gpus = draw(SHAPES)
        moments = {
            name: draw(st.sampled_from([None, None, RECENTLY, LATER])) for name in ("not_before", "parked_until")
        }
        vc = draw(st.sampled_from(["a", "b", "c"]))
        jobs.append(waiting(id, gpus, tasks=tasks, vc=vc, stopping=draw(st.integers(0, 9)) == 0, **moments))
    nodes = [
        node(f"n{at}", used_gpus=frozenset(draw(st.sets(st.sampled_from("0123")))), offered=draw(st.integers(0, 4)) > 0)
        for at in range(draw(st.integers(0, 3)))
    ]
    return jobs, nodes, frozenset(draw(st.sets(st.sampled_from(["a", "b"]))))


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(queues())
def test_the_planner_does_what_the_turns_say(queue: tuple[list[JobView], list[NodeView], frozenset[str]]) -> None:
    jobs, nodes, stopped = queue
    seen = {one.name: Look(one.name, RECENTLY, one.offered, {}) for one in nodes}
    made = plan(world(waiting=jobs, nodes=nodes, looks=seen, quotas=stopping(stopped)))
    placed = {one.job.id: one.placements for one in made.jobs if one.placements}
    assert placed == {
        turn.job.id: turn.placements for turn in turns_of(jobs, nodes, list(stopped)) if turn.move == "go"
    }


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(queues())
def test_every_job_that_waits_has_reasons_and_all_are_true(
    queue: tuple[list[JobView], list[NodeView], frozenset[str]],
) -> None:
    jobs, nodes, stopped = queue
    given_turns = turns_of(jobs, nodes, list(stopped))
    free = any(one.offered for one in nodes)
    for turn in given_turns:
        found = kinds(turn)
        assert bool(found) == (turn.move != "go")
        if "parked" in found:
            assert found == ["parked"] and turn.job.parked_until == LATER
            continue
        held = [one.job.id for one in given_turns if one.move == "reserve" and one.job.vc == turn.job.vc]
        assert ("queue" in found) == (turn.move != "go" and bool(held) and turn.job.id > min(held))
        assert ("vc_stopped" in found) == (turn.job.vc in stopped)
        assert ("delay" in found) == (turn.job.not_before == LATER)
        if "reserved" in found:
            assert [kept for kept in turn.queue.reservations if kept.job is not turn.job]
        elif set(found) - {"queue", "vc_stopped", "delay"}:
            assert not free or FreeNodes(turn.queue.left()).place(turn.job.demands) is None
