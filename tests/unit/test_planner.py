"""One pass over made-up worlds: what any plan may and may not contain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.engines.runtime import LABEL_GPUS, LABEL_TASK, ContainerStatus, Look, Phase
from clusters.placement.fit import NodeView
from clusters.placement.shares import Quota
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.planning.lifecycle import (
    JOB_END_STATES,
    TASK_END_STATES,
    TASK_LIVE_STATES,
    JobState,
    TaskState,
    move_job,
    move_task,
)
from jobs.planning.planner import MOST_SETTLED, plan
from jobs.planning.world import JobView, OrderKind, Owner, TaskView, World

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PORT_TAKEN = {"reason": "port_taken", "sentence": "Port 80 is taken.", "permanent": False}
MINUTES_AGO = NOW - timedelta(minutes=3)
BEFORE, RECENTLY, JUST_NOW = NOW - timedelta(minutes=10), NOW - timedelta(seconds=1), NOW


def node(name: str = "n1", **values: Any) -> NodeView:
    gpus = tuple((str(at), "") for at in range(4))
    return NodeView(**{"name": name, "address": name, "cpus": 8, "memory_mb": 8000, "gpus": gpus,
                       "port_from": 30000, "port_to": 30200, **values})  # fmt: skip


def spec(tasks: int = 1, **role: Any) -> JobSpec:
    listed = [{"name": "w", "command": "x", "taskNumber": tasks, **role}]
    return JobSpec.from_json({"jobName": "j", "image": "i", "taskRoles": listed, "retryCount": 1})


def job(id: int = 1, state: str = "RUNNING", tasks: int = 1, **values: Any) -> JobView:
    asked = values.pop("spec", None) or spec(tasks)
    return JobView(**{"id": id, "username": "u", "name": f"j{id}", "vc": "default", "state": JobState(state),
                      "spec": asked, "demands": demands(asked), "attempt_number": 1, "changed_at": BEFORE,
                      **values})  # fmt: skip


def task(id: int = 1, state: str = "RUNNING", job_id: int = 1, index: int = 0, **values: Any) -> TaskView:
    return TaskView(**{"id": id, "job_id": job_id, "role": "w", "index": index, "state": TaskState(state),
                       "changed_at": BEFORE, "node": "n1", "container_name": f"c{id}", "container_id": "",
                       "ordered_at": BEFORE, "claimed_until": None, "fact_at": None, "fault": None, "exit": {},
                       "finished_at": None, **values})  # fmt: skip


def container(name: str, phase: str = "running", **values: Any) -> ContainerStatus:
    return ContainerStatus(
        f"id-{name}", name, Phase(phase), {LABEL_TASK: name[1:], **values.pop("labels", {})}, **values
    )


def seen(*containers: ContainerStatus, **values: Any) -> dict[str, Look]:
    found = {status.name: status for status in containers}
    return {"n1": Look(**{"node": "n1", "at": RECENTLY, "reachable": True, "containers": found, **values})}


def world(**values: Any) -> World:
    return World(**{"now": NOW, "nodes": [node()], "looks": seen(), "live": [], "waiting": [],
                    "leftovers": [], "purgeable": [], **values})  # fmt: skip


@pytest.mark.parametrize(
    ("the_task", "observed", "after", "code"),
    [
        (task(state="STARTING"), seen(container("c1")), "RUNNING", None),
        (task(state="STARTING"), seen(container("c1", "exited", exit_code=0)), "SUCCEEDED", 0),
        (task(), seen(container("c1", "exited", exit_code=3)), "FAILED", 255),
        (task(), seen(container("c1", "exited", exit_code=137, oom_killed=True)), "FAILED", 196),
        (task(), seen(), "FAILED", -7110),
        (task(changed_at=JUST_NOW), seen(), None, None),
        (task(fact_at=JUST_NOW), seen(), None, None),
        (task(), seen(container("c1"), reachable=False, since=BEFORE), "FAILED", -7111),
        (task(), seen(container("c1"), reachable=False, since=RECENTLY), None, None),
        (task(), seen(container("c1"), reachable=False, since=MINUTES_AGO, away=True), None, None),
        (task(), seen(container("c1"), reachable=False, since=BEFORE, away=True), "FAILED", -7111),
        (task(), {}, None, None),
        (task(node="gone"), seen(), "FAILED", -7111),
        (task(state="STOPPING"), seen(), "STOPPED", -7400),
        (task(state="STOPPING", claimed_until=NOW + timedelta(seconds=9)), seen(), None, None),
        (task(state="STOPPING"), seen(container("c1", "created")), "STOPPED", -7400),
        (task(state="STOPPING"), seen(container("c1", "exited", exit_code=143)), "STOPPED", -7400),
        (task(state="STOPPING", ordered_at=None), seen(container("c1", "exited", exit_code=0)), "SUCCEEDED", 0),
        (
            task(state="STARTING", fault={"reason": "port_taken", "sentence": "s", "permanent": False}),
            seen(),
            "FAILED",
            -7103,
        ),
    ],
)
def test_a_task_beside_its_node(
    the_task: TaskView, observed: dict[str, Look], after: str | None, code: int | None
) -> None:
    made = plan(world(live=[(job(), [the_task])], looks=observed))
    changes = [change for one in made.jobs for change in one.changes]
    assert [change.after for change in changes] == ([after] if after else [])
    if after in TASK_END_STATES:
        assert changes[0].exit is not None
        assert changes[0].exit.code == code


@pytest.mark.parametrize(
    ("the_task", "observed", "ordered"),
    [
        (task(state="STARTING"), seen(), OrderKind.START),
        (task(state="STARTING", ordered_at=RECENTLY), seen(), None),
        (task(state="STARTING", claimed_until=NOW + timedelta(seconds=9)), seen(), None),
        (task(state="STARTING"), seen(container("c1", "created")), OrderKind.START),
        (task(state="STOPPING", ordered_at=None), seen(container("c1")), OrderKind.STOP),
        (task(state="STOPPING", ordered_at=RECENTLY), seen(container("c1")), None),
    ],
)
def test_what_is_ordered(the_task: TaskView, observed: dict[str, Look], ordered: OrderKind | None) -> None:
    made = plan(world(live=[(job(), [the_task])], looks=observed))
    assert [order.kind for one in made.jobs for order in one.orders] == ([ordered] if ordered else [])


def test_a_kept_container_is_noted_once_and_ends_when_somebody_releases_it() -> None:
    looks = seen(container("c1", held=True, held_code=3))
    [noted] = plan(world(live=[(job(), [task()])], looks=looks)).jobs
    assert [(kept.task.id, kept.exit.raw_code) for kept in noted.held] == [(1, 3)]
    assert plan(world(live=[(job(), [task(held_at=BEFORE)])], looks=looks)).is_empty
    released = task(held_at=BEFORE, released_at=RECENTLY, ordered_at=None)
    [ends] = plan(world(live=[(job(), [released])], looks=looks)).jobs
    assert [order.kind for order in ends.orders] == [OrderKind.RELEASE]


def test_an_attempt_out_of_time_is_over_and_what_runs_of_it_is_stopped() -> None:
    late = job(tasks=2, ends_by=NOW, spec=spec(2).model_copy(update={"extras": {"maxRunSeconds": 60}}))
    two = [task(1), task(2, "STARTING", index=1)]
    [made] = plan(world(live=[(late, two)], looks=seen(container("c1")))).jobs
    assert made.decision is not None
    assert (made.decision.exit.code, made.decision.exit.permanent) == (-7501, True)
    assert [change.after for change in made.changes] == ["STOPPING", "STOPPING"]
    assert made.after is None, "its containers are still there"


def test_time_alone_ends_an_attempt_and_the_plan_says_when() -> None:
    in_time = job(ends_by=NOW + timedelta(seconds=7))
    made = plan(world(live=[(in_time, [task()])], looks=seen(container("c1"))))
    assert (made.is_empty, made.again_at) == (True, NOW + timedelta(seconds=7))


def test_a_job_that_ends_in_its_last_moment_has_the_end_that_it_had() -> None:
    [made] = plan(world(live=[(job(ends_by=NOW), [task()])], looks=seen(container("c1", "exited", exit_code=0)))).jobs
    assert made.after == "SUCCEEDED"


def test_starts_are_limited_to_twice_the_cores_of_a_node() -> None:
    many = spec(30)
    made = plan(world(nodes=[node(cpus=2)] * 1, waiting=[job(state="WAITING", spec=many)]))
    assert made.jobs == [], "30 cores do not fit on 2"
    wide = [task(at, "STARTING", index=at, ordered_at=None) for at in range(30)]
    made = plan(world(nodes=[node(cpus=2)], live=[(job(spec=many), wide)]))
    assert len(made.jobs[0].orders) == 4


def test_losing_everything_at_once_is_settled_in_several_passes_and_each_job_whole() -> None:
    lost = [
        (job(at, tasks=2), [task(2 * at + n, job_id=at, index=n) for n in (0, 1)]) for at in range(2 * MOST_SETTLED)
    ]
    passes = 0
    while lost:
        made = plan(world(live=lost))
        done = {one.job.id for one in made.jobs}
        assert done
        assert sum(len(one.changes) for one in made.jobs) <= MOST_SETTLED + 1
        assert all(len(one.changes) == 2 and one.retry for one in made.jobs)
        lost = [(its, tasks) for its, tasks in lost if its.id not in done]
        assert made.more == bool(lost), "the rest follows at once"
        passes += 1
    assert passes > 4


def test_many_waiting_jobs_that_end_at_once_end_in_several_passes() -> None:
    ends = [job(at, state="WAITING", stopping=True, spec=spec(MOST_SETTLED // 2)) for at in range(1, 6)]
    made = plan(world(waiting=ends))
    assert [one.job.id for one in made.jobs] == [1, 2]
    assert made.more, "the rest follows at once"
    made = plan(world(waiting=ends[2:]))
    assert [one.job.id for one in made.jobs] == [3, 4] and made.more
    made = plan(world(waiting=ends[4:]))
    assert [one.job.id for one in made.jobs] == [5] and not made.more


def test_orders_that_wait_for_a_hand_do_not_fill_a_pass() -> None:
    starting = [(job(at), [task(at, "STARTING", job_id=at, ordered_at=None)]) for at in range(1, MOST_SETTLED + 100)]
    last = (job(9999), [task(9999, job_id=9999)])
    made = plan(world(live=[*starting, last]))
    assert not made.more
    assert made.jobs[-1].job.id == 9999


@pytest.mark.parametrize("phase", ["running", "created"])
def test_a_container_without_an_owner_keeps_its_gpus_out_of_the_offer(phase: str) -> None:
    """Also one that never ran: a pod that is being deleted has them until its node says that it is gone."""
    stray = container("c9", phase, labels={LABEL_GPUS: "0,1,2"})
    wants_two = job(state="WAITING", spec=spec(gpuNumber=2))
    made = plan(world(looks=seen(stray), waiting=[wants_two], owners={"c9": Owner(9, BEFORE)}))
    assert made.jobs == []
    assert made.quarantine["n1"][0] == {"0", "1", "2"}
    assert [(order.kind, order.container) for order in made.orders] == [(OrderKind.REMOVE, "c9")]


def test_a_container_that_an_older_picture_still_shows_is_not_removed_twice() -> None:
    made = plan(world(looks=seen(container("c9")), owners={"c9": Owner(9, JUST_NOW)}))
    assert made.orders == []


def test_a_container_that_ends_while_its_start_is_claimed_is_collected_once_the_claim_is_closed() -> None:
    ended, later = seen(container("c1", "exited", exit_code=0)), NOW + timedelta(seconds=9)
    first = plan(world(live=[(job(), [task(1, "STARTING", claimed_until=later)])], looks=ended))
    assert [(change.after, one.orders) for one in first.jobs for change in one.changes] == [(TaskState.SUCCEEDED, [])]
    closed = task(1, "SUCCEEDED", ordered_at=None, changed_at=RECENTLY, fact_at=JUST_NOW)
    made = plan(world(leftovers=[closed], looks=ended, owners={"c1": Owner(1, JUST_NOW)}))
    assert [order.kind for order in made.orders] == [OrderKind.COLLECT]


@pytest.mark.parametrize(
    ("more", "ordered"),
    [
        ({"answers_since": JUST_NOW}, [OrderKind.COLLECT]),
        ({"answers_since": BEFORE}, []),
        ({}, []),
    ],
)
def test_an_order_from_before_the_engine_was_away_is_given_again_as_soon_as_it_answers(
    more: dict[str, Any], ordered: list[OrderKind]
) -> None:
    ended = task(1, "FAILED", ordered_at=RECENTLY, fact_at=RECENTLY)
    observed = seen(container("c1", "exited", exit_code=1), at=JUST_NOW, **more)
    owners = {"c1": Owner(1, RECENTLY)}
    assert [order.kind for order in plan(world(leftovers=[ended], looks=observed, owners=owners)).orders] == ordered
    claimed = replace(ended, claimed_until=NOW + timedelta(seconds=9))
    assert plan(world(leftovers=[claimed], looks=observed, owners=owners)).orders == []


@pytest.mark.parametrize(
    ("silent", "gone", "after", "ordered"),
    [
        ({"silent": True}, {"n1"}, ["FAILED"], [(OrderKind.REMOVE, "c2")]),
        ({"away": True}, {"n1"}, ["FAILED"], []),
        ({}, {"n1"}, ["FAILED"], []),
        ({"silent": True}, set(), [], []),
        ({"reachable": True}, {"n1"}, [], [(OrderKind.COLLECT, "c2")]),
    ],
)
def test_an_admin_s_word_that_a_silent_node_is_gone_ends_what_was_there(
    silent: dict[str, bool], gone: set[str], after: list[str], ordered: list[tuple[OrderKind, str]]
) -> None:
    """Once nothing is left to collect, what a cluster still lists is removed. A node that answers is not gone."""
    looks = seen(container("c1"), container("c2"), **{"reachable": False, "since": RECENTLY, **silent})
    left, owners = task(2, "FAILED"), {"c1": Owner(1, BEFORE), "c2": Owner(2, BEFORE)}
    world_ = world(live=[(job(), [task()])], leftovers=[left], looks=looks, owners=owners, gone=frozenset(gone))
    made = plan(world_)
    assert [change.after for one in made.jobs for change in one.changes] == after
    later = plan(replace(world_, leftovers=[])) if made.collected == [2] else made
    assert [(order.kind, order.container) for order in later.orders] == ordered


def test_what_an_older_picture_does_not_show_is_not_collected_yet() -> None:
    fresh = task(1, "STOPPED", ordered_at=None, changed_at=JUST_NOW)
    assert plan(world(leftovers=[fresh], looks=seen())).orders == []


def test_a_stopped_vc_starts_nothing_and_the_others_go_on() -> None:
    waiting = [job(1, "WAITING", vc="a"), job(2, "WAITING", vc="b")]
    made = plan(world(waiting=waiting, quotas={"a": Quota(stopped=True)}))
    assert [one.job.id for one in made.jobs if one.placements] == [2]


def test_a_delay_and_a_parked_job_do_not_hold_the_queue() -> None:
    later = NOW + timedelta(seconds=7)
    waiting = [job(1, "WAITING", not_before=later), job(2, "WAITING", parked_until=later), job(3, "WAITING")]
    made = plan(world(waiting=waiting))
    assert [one.job.id for one in made.jobs if one.placements] == [3]
    assert made.again_at == later


def test_a_job_that_makes_planning_raise_is_parked() -> None:
    broken = task(state="STARTING", fault={"no reason": 1})
    made = plan(world(live=[(job(1), [broken]), (job(2), [task(2, job_id=2)])], looks=seen(container("c2"))))
    assert [(one.job.id, bool(one.parked)) for one in made.jobs] == [(1, True)]


# --- any world -------------------------------------------------------------------------------------------------------

STATES = st.sampled_from([str(state) for state in TaskState if state is not TaskState.WAITING])
MOMENTS = st.sampled_from([BEFORE, RECENTLY, JUST_NOW])
PHASES = st.sampled_from([None, "created", "running", "exited"])
CODES = st.sampled_from([0, 1, 137, 143])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    live, containers, id = [], [], 0
    for job_id in range(1, draw(st.integers(0, 4)) + 1):
        tasks = []
        for index in range(draw(st.integers(1, 3))):
            id += 1
            state = draw(STATES)
            ended = {"exit": {"code": 1, "sentence": ""}} if state in TASK_END_STATES else {}
            tasks.append(
                task(id, state, job_id, index, changed_at=draw(MOMENTS), fact_at=draw(st.none() | MOMENTS),
                     ordered_at=draw(st.none() | MOMENTS), node=draw(st.sampled_from(["n1", "n2", "gone"])),
                     claimed_until=draw(st.sampled_from([None, BEFORE, NOW + timedelta(seconds=5)])), **ended)
            )  # fmt: skip
            phase = draw(PHASES)
            if phase:
                code = draw(CODES) if phase == "exited" else None
                containers.append(container(f"c{id}", phase, exit_code=code, labels={LABEL_GPUS: str(id % 4)}))
        live.append((job(job_id, tasks=len(tasks), stopping=draw(st.booleans())), tasks))
    waiting = [
        job(100 + at, "WAITING", stopping=draw(st.booleans()), vc=draw(st.sampled_from(["default", "b"])),
            spec=spec(draw(st.integers(1, 3)), gpuNumber=draw(st.integers(0, 3))))
        for at in range(draw(st.integers(0, 5)))
    ]  # fmt: skip
    away = draw(st.booleans())
    return world(
        nodes=[node("n1", used_gpus=frozenset({"3"})), node("n2", offered=not away)],
        looks={**seen(*containers), "n2": Look("n2", RECENTLY, not away, {}, BEFORE if away else None)},
        live=live,
        waiting=waiting,
    )


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(worlds())
def test_any_plan_is_legal_and_whole(given_world: World) -> None:
    made = plan(given_world)
    assert not [one.parked for one in made.jobs if one.parked]
    taken: dict[str, list[str]] = {}
    for one in made.jobs:
        for change in one.changes:
            assert move_task(change.task.state, change.after) is change.after
        if one.after:
            move_job(one.job.state, one.after)
            assert one.after in JOB_END_STATES
        if one.placements:
            move_job(one.job.state, JobState.RUNNING)
            assert len(one.placements) == one.job.spec.total_tasks, "a gang was half placed"
            assert not one.job.stopping
            for place in one.placements:
                taken.setdefault(place.node, []).extend(place.gpu_ids)
        if one.after or one.retry:
            assert_nothing_lives(
                given_world, one.job.id, {change.task.id for change in one.changes if change.after in TASK_END_STATES}
            )
    for name, gpus in taken.items():
        held = made.quarantine[name][0]
        assert len(set(gpus)) == len(gpus), "a GPU was given twice"
        assert not set(gpus) & (held | ({"3"} if name == "n1" else set()))
    assert plan(given_world) == made, "the same world gave another plan"


def assert_nothing_lives(given_world: World, job_id: int, ending: set[int]) -> None:
    for view, tasks in given_world.live:
        if view.id == job_id:
            assert not [one for one in tasks if one.state in TASK_LIVE_STATES and one.id not in ending]
