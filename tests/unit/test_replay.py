"""A day played again: what each policy does, that no room is given twice, and how a day is summed up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.placement.fit import Demand
from clusters.placement.shares import Quota, Right, pool_totals, quotas
from jobs.planning.queue.scene import since_text
from jobs.replay.day import Chosen, Day, EndedRun, Played, ReplayCluster, ReplayPolicy, Run, RunStart
from jobs.replay.outcome import Setting, sum_up
from jobs.replay.policies import Backfill, Easy, Fifo, Longshore
from tests.helpers import examples
from tests.unit.queue_model import NOW, node, shape

HOUR = 3600.0
POLICIES: dict[str, type[ReplayPolicy]] = {
    "fifo": Fifo,
    "backfill": Backfill,
    "easy": Easy,
    "longshore": Longshore,
}
SHAPES = {(tasks, gpus): shape(tasks, gpus) for tasks in (1, 2, 3) for gpus in (0, 1, 2, 4)}


def run(id: int, gpus: int = 1, at: float = 0.0, seconds: float = HOUR, tasks: int = 1, **values: Any) -> Run:
    fields = {"vc": "a", "username": "u", "name": f"j{id}", "since": since_text(NOW + timedelta(seconds=at)), **values}
    return Run(id=id, demands=SHAPES[tasks, gpus], submitted=at, seconds=seconds, **fields)


def cluster(*gpus: int, rights: dict[str, Right] | None = None) -> ReplayCluster:
    nodes = [node(f"n{at}", gpus="A" * each) for at, each in enumerate(gpus or (4,))]
    return ReplayCluster.of(nodes, quotas(rights or {"a": Right(has_rest=True)}, *pool_totals(nodes)), NOW)


def day(policy: str, runs: Sequence[Run], there: ReplayCluster | None = None, until: float = 24 * HOUR) -> Played:
    return Day(runs, there or cluster(), POLICIES[policy](), step=10.0, look=60.0).play(until)


def starts(played: Played) -> dict[int, float]:
    return {span.id: round(span.began / HOUR, 2) for span in played.stays}


# A job of 2 GPUs runs for an hour on 4, behind it wait one of 4 and two small ones, short and long.
QUEUE = [run(1, 2), run(2, 4, at=1), run(3, 1, at=2, seconds=1800), run(4, 1, at=3, seconds=2 * HOUR)]
DAYS = {
    "fifo": {1: 0.0, 2: 1.0, 3: 2.0, 4: 2.0},
    "backfill": {1: 0.0, 2: 2.0, 3: 0.0, 4: 0.0},
    "easy": {1: 0.0, 2: 1.0, 3: 0.0, 4: 2.0},
    "longshore": {1: 0.0, 2: 1.0, 3: 2.0, 4: 2.0},
}


@pytest.mark.parametrize("policy", DAYS)
def test_who_passes_whom(policy: str) -> None:
    assert starts(day(policy, QUEUE)) == pytest.approx(DAYS[policy], abs=0.01)


def test_with_foresight_a_long_job_passes_on_room_that_the_first_one_will_not_need() -> None:
    queue = [run(1, 4), run(2, 4, tasks=1, at=1), run(3, 2, at=2, seconds=5 * HOUR)]
    assert starts(day("easy", queue, cluster(4, 2)))[3] == pytest.approx(0, abs=0.01)


def test_with_foresight_a_long_job_gets_no_room_that_a_short_one_has_just_got() -> None:
    queue = [run(1, 4), run(2, 4, at=1), run(3, 2, at=2, seconds=600), run(4, 2, at=2, seconds=5 * HOUR)]
    played = day("easy", queue, cluster(4, 2))
    assert played.refused == 0
    assert starts(played) == pytest.approx({1: 0, 2: 1, 3: 0, 4: 0.17}, abs=0.02)


def test_a_guest_that_says_when_it_ends_passes_under_longshore() -> None:
    limited = run(3, 1, at=2, seconds=600, most_seconds=900)
    runs = [run(1, 2, most_seconds=int(HOUR)), run(2, 4, at=1), limited]
    assert starts(day("longshore", runs)) == pytest.approx({1: 0, 2: 1, 3: 0}, abs=0.01)


def test_what_is_lent_comes_back_and_the_evicted_job_begins_anew() -> None:
    rights = {"a": Right(capacity=50), "b": Right(has_rest=True)}
    runs = [run(1, 4, vc="b", seconds=HOUR), run(2, 2, vc="a", at=600, seconds=HOUR)]
    played = day("longshore", runs, cluster(4, rights=rights))
    first, owner, again = sorted(played.stays, key=lambda span: (span.began, span.id))
    assert (first.is_evicted, first.id, owner.id, again.id) == (True, 1, 2, 1)
    assert (first.ended - first.began, again.ended - again.began) == (pytest.approx(630, abs=20), HOUR)


def test_whose_job_was_evicted_rests_with_all_their_jobs() -> None:
    rights = {"a": Right(capacity=50), "b": Right(has_rest=True)}
    runs = [run(1, 4, vc="b"), run(2, 2, vc="a", at=600, seconds=60), run(3, 4, vc="b", at=700, username="v")]
    runs += [run(4, 4, vc="b", at=650, seconds=10), run(5, 1, vc="b", at=650, seconds=10)]
    played = day("longshore", [*runs[:2], *runs[3:]], cluster(4, rights=rights))
    began = {span.id: span.began for span in played.stays}
    assert began == pytest.approx({1: 1200, 2: 630, 4: 1200 + HOUR, 5: 650}, abs=30), "5 is within the guarantee"
    began = {span.id: span.began for span in day("longshore", runs, cluster(4, rights=rights)).stays}
    assert began[3] == pytest.approx(700, abs=30), "others do not rest"


def test_a_job_remembers_its_evictions_while_it_waits_and_runs_again() -> None:
    """Rules about evictions count them as the rows of Job do: as a borrower, and as a guest."""

    class EvictsTwice(Fifo):
        """Lets it run as a guest the second time."""

        seen: tuple[Run, ...] = ()  # the job as it runs

        def decide(self, cluster: ReplayCluster) -> Chosen:
            running = [placed.runner.job for placed in cluster.running.values()]
            self.seen += tuple(running)
            starts = [start._replace(is_guest=start.run.evictions == 1) for start in super().decide(cluster)[0]]
            is_first = not any(job.guest_evictions for job in running)
            owner = min(cluster.waiting)
            return starts if is_first else (), {job.id: owner for job in running if is_first}

    policy = EvictsTwice()
    Day([run(1, 4), run(2, 4, at=1)], cluster(), policy, step=10.0, look=60.0).play(HOUR / 4)
    told = [(job.is_guest, job.evictions, job.guest_evictions) for job in policy.seen if not job.stopping]
    assert list(dict.fromkeys(told)) == [(False, 0, 0), (True, 1, 0), (True, 1, 1)]


def test_what_ran_when_the_day_began_holds_its_room() -> None:
    there = cluster()
    placed = there.start(RunStart(run(1, 4, at=-100), _places(there, 4)), ends=HOUR)
    assert placed is not None
    played = day("fifo", [run(2, 4)], there)
    assert starts(played)[2] == pytest.approx(1, abs=0.01)


def _places(there: ReplayCluster, gpus: int) -> Any:
    from clusters.placement.free import FreeNodes

    return FreeNodes(there.nodes).place(SHAPES[1, gpus])


def test_a_place_that_is_taken_is_refused_whole() -> None:
    there = cluster()
    places = _places(there, 4)
    assert there.start(RunStart(run(1, 4), places), HOUR) is not None
    before = there.nodes
    assert there.start(RunStart(run(2, 4), places), HOUR) is None
    assert there.nodes == before and list(there.running) == [1]


def test_the_day_can_be_left_in_the_middle() -> None:
    played = Day(QUEUE, cluster(), Fifo(), step=10.0, look=60.0).play(24 * HOUR, lambda now: now >= HOUR / 2)
    assert (played.until, played.waits) == (pytest.approx(HOUR / 2, abs=61), {2, 3, 4})


@st.composite
def days(draw: st.DrawFn) -> tuple[list[Run], list[int]]:
    gpus = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    runs = [
        run(
            id,
            draw(st.sampled_from([0, 1, 2, 4])),
            at=draw(st.integers(0, 3000)),
            seconds=draw(st.integers(1, 5000)),
            tasks=draw(st.integers(1, 3)),
            vc=draw(st.sampled_from(["a", "b"])),
            is_preemptible=draw(st.booleans()),
        )
        for id in range(1, draw(st.integers(1, 12)))
    ]
    return runs, gpus


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(60))
@given(days())
def test_no_room_is_given_twice_and_every_job_that_could_run_does(
    policy: str, given_day: tuple[list[Run], list[int]]
) -> None:
    runs, gpus = given_day
    rights = {"a": Right(capacity=50), "b": Right(has_rest=True)}
    there = cluster(*gpus, rights=rights)
    possible = [one for one in runs if _fits(there, one.demands)]
    played = day(policy, possible, there, until=200 * HOUR)
    assert played.refused == 0
    assert not played.waits
    whole = {one.id: one.seconds for one in possible}
    assert {span.id: span.ended - span.began for span in played.stays if not span.is_evicted} == pytest.approx(whole)
    assert all(not one.used_gpus and not one.used_cpus for one in there.nodes) or there.running


def _fits(there: ReplayCluster, asked: tuple[Demand, ...]) -> bool:
    from clusters.placement.free import FreeNodes

    return FreeNodes(there.nodes).place(asked) is not None


# --- summing up ------------------------------------------------------------------------------------------------------

HALVES = {"a": Quota({"gpu": 2.0}), "b": Quota({"gpu": 2.0})}
SETTING = Setting(4 * HOUR, 4, "gpu", HALVES)


def test_use_waits_and_fairness() -> None:
    runs = [run(1, 4), run(2, 2, at=HOUR, vc="b"), run(3, 1, at=0, vc="b")]
    spans = [EndedRun(1, 0, HOUR), EndedRun(2, HOUR, 2 * HOUR), EndedRun(3, 2 * HOUR, 3 * HOUR)]
    found = sum_up(runs, spans, SETTING)
    assert found.utilisation == pytest.approx((4 + 2 + 1) / 16)
    assert {name: (one.number, one.mean, one.p95) for name, one in found.waits.items()} == {
        "1 GPU": (1, 2 * HOUR, 2 * HOUR),
        "2-8 GPUs": (2, 0, 0),
    }
    assert found.fairness == 1.0 and found.got == {"a": 1.0, "b": 1.0}
    assert found.used[:24] == pytest.approx([1.0] * 24) and found.used[-1] == 0


def test_what_has_not_started_waited_until_the_end() -> None:
    found = sum_up([run(1, 1, at=HOUR)], [], SETTING, until=4 * HOUR)
    assert (found.waits["1 GPU"].mean, found.not_started, found.got) == (3 * HOUR, 1, {"a": 0.0})


def test_what_ran_already_did_not_wait() -> None:
    found = sum_up([run(1, 1, at=-HOUR)], [EndedRun(1, -600, HOUR)], SETTING, until=4 * HOUR)
    assert (found.waits, found.utilisation) == ({}, pytest.approx(1 / 16))


def test_an_eviction_is_lost_work_and_the_wait_goes_on() -> None:
    spans = [EndedRun(1, 0, HOUR, is_evicted=True), EndedRun(1, 2 * HOUR, 3 * HOUR)]
    found = sum_up([run(1, 2)], spans, SETTING, until=4 * HOUR)
    assert (found.evictions, found.lost, found.waits["2-8 GPUs"].mean) == (1, 2.0, 2 * HOUR)


def test_one_who_gets_all_and_one_who_gets_nothing_is_not_fair() -> None:
    runs = [run(1, 4, seconds=4 * HOUR), run(2, 4, vc="b", seconds=4 * HOUR)]
    assert sum_up(runs, [EndedRun(1, 0, 4 * HOUR)], SETTING, until=4 * HOUR).fairness == 0.5


def test_without_gpus_cores_count() -> None:
    setting = Setting(HOUR, 8, "cpu", {"a": Quota({"cpu": 8.0})})
    found = sum_up([run(1, 0)], [EndedRun(1, 0, HOUR)], setting)
    assert (found.utilisation, found.waits["no GPU"].number) == (1 / 8, 1)
