"""How long jobs run, and when those that wait will start: learnt, spread, and by the queue's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any, NamedTuple

import pytest

from clusters.placement.fit import NodeView
from clusters.placement.shares import Hold, Quota
from jobs.forecast import play
from jobs.forecast.play import Spread, starts
from jobs.planning.queue.lengths import DRAWS, Lengths, LikeJobs, stem
from jobs.planning.queue.scene import Resting, Runner, Scene
from jobs.planning.world import JobView
from tests.unit.test_planner import NOW, job, node, spec

ME = LikeJobs("alice", "train-7", 4, "nlp")


class Mine(NamedTuple):
    id: int = 1
    like: LikeJobs = ME


HOUR = 3600.0


def median(lengths: Sequence[float]) -> float:
    return lengths[DRAWS // 2]


def _likely(lengths: Lengths, ran: float) -> float:
    began = NOW - timedelta(seconds=ran)
    return (lengths.likely_end(Mine(), began, NOW) - began).total_seconds()


# --- lengths ---------------------------------------------------------------------------------------------------------


def test_names_that_differ_in_digits_are_alike() -> None:
    assert stem("bert-v2-007") == stem("bert-v10-8") != stem("bert-v2-x")


def test_many_of_the_like_say_how_long_it_runs() -> None:
    lengths = Lengths([(LikeJobs("alice", f"train-{at}", 4, "nlp"), 100.0 + at) for at in range(101)])
    found = lengths.quantiles(ME)
    assert (len(found), list(found)) == (DRAWS, sorted(found))
    assert median(found) == pytest.approx(149, abs=3)
    assert lengths.number(ME) == 100


def test_few_of_the_like_are_shrunk_to_the_wider_class() -> None:
    wide = [(LikeJobs("alice", "other", 1, "nlp"), HOUR)] * 50
    one, many = Lengths([(ME, 60.0), *wide]), Lengths([(ME, 60.0)] * 40 + wide)
    assert (_likely(one, 0.0), _likely(many, 0.0)) == (HOUR, 60.0)
    assert one.quantiles(ME)[0] < 60.0, "but what is known of the like counts too"


def test_a_stranger_gets_what_the_virtual_cluster_had_and_then_all() -> None:
    lengths = Lengths(
        [(LikeJobs("bob", "a", 1, "nlp"), 50.0)] * 20 + [(LikeJobs("carol", "b", 1, "vision"), 5000.0)] * 20
    )
    assert median(lengths.quantiles(ME)) == 50.0
    assert median(lengths.quantiles(ME._replace(vc="vision"))) == 5000.0


def test_a_running_job_is_compared_with_those_that_ran_longer() -> None:
    lengths = Lengths([(ME, float(seconds)) for seconds in (10, 20, 30, 1000, 1100)])
    assert _likely(lengths, 40.0) == 1000.0
    assert min(lengths.quantiles(ME, ran=40.0)) > 40.0


@pytest.mark.parametrize(("attempts", "least", "most"), [(1, 4.0, 8.0), (5, 2.0, 4.0), (100, 1.1, 1.4)])
def test_the_fewer_are_known_the_wider_is_the_spread(attempts: int, least: float, most: float) -> None:
    """Though all of them ran for the same time."""
    found = Lengths([(ME, HOUR)] * attempts).quantiles(ME)
    p10, p90 = found[2], found[20]
    assert least < p90 / p10 < most
    assert median(found) == pytest.approx(HOUR)


def test_nobody_knows_how_long_it_goes_on_with_what_runs_longer_than_all_known() -> None:
    found = Lengths([(ME, 10.0)]).quantiles(ME, ran=1000.0)
    assert set(found) == {inf}


def test_nothing_runs_longer_than_it_may() -> None:
    assert max(Lengths([(ME, 9000.0)]).quantiles(ME, most=60.0)) == 60.0


# --- the queue played forward ----------------------------------------------------------------------------------------


def waiting(id: int, gpus: int = 4, **values: Any) -> JobView:
    return job(id, "WAITING", spec=spec(gpuNumber=gpus), **values)


def busy(ids: Sequence[int] = (1,), ran: float = 0.0, gpus: int = 4) -> dict[str, Any]:
    """One node whose GPUs these jobs hold, ``gpus`` each."""
    runs = [job(id, started_at=NOW - timedelta(seconds=ran), spec=spec(gpuNumber=gpus)) for id in ids]
    of = {id: tuple(str(at * gpus + gpu) for gpu in range(gpus)) for at, id in enumerate(ids)}
    used = frozenset(gpu for all_ in of.values() for gpu in all_)
    one: NodeView = node(used_gpus=used, used_cpus=len(ids), used_memory_mb=0)
    return {
        "nodes": [one],
        "running": lambda: [Runner(each, (Hold("default", "n1", 1, 0, of[each.id], ()),)) for each in runs],
        "use": {"default": {"gpu": float(gpus * len(ids)), "cpu": float(len(ids))}},
    }


def ahead(jobs: Sequence[JobView], lengths: dict[int, float], **scene: Any) -> dict[int, tuple[float, float, float]]:
    """Seconds until p10, p50 and p90, with lengths spread evenly from half to one and a half times those given."""

    def length(one: JobView) -> list[float]:
        return [lengths[one.id] * (0.5 + draw / (DRAWS - 1)) for draw in range(DRAWS)]

    found = starts(jobs, Scene(now=NOW, **scene), length, lambda: False).spreads
    return {id: tuple((each - NOW).total_seconds() for each in spread) for id, spread in found.items()}  # type: ignore[misc]


def test_what_fits_starts_now() -> None:
    assert ahead([waiting(2)], {2: HOUR}, nodes=[node()]) == {2: (0, 0, 0)}


def test_a_job_starts_when_the_one_before_it_ends() -> None:
    p10, p50, p90 = ahead([waiting(2)], {1: HOUR, 2: HOUR}, **busy())[2]
    assert 0.5 * HOUR < p10 < p50 < p90 < 1.5 * HOUR
    assert p50 == pytest.approx(HOUR, rel=0.1)


def test_what_has_run_already_is_taken_off() -> None:
    _, p50, _ = ahead([waiting(2)], {1: HOUR, 2: HOUR}, **busy(ran=HOUR / 2))[2]
    assert p50 == pytest.approx(HOUR / 2, rel=0.1)


def test_the_uncertainty_of_the_jobs_ahead_adds_up() -> None:
    found = ahead([waiting(2), waiting(3)], {1: HOUR, 2: HOUR, 3: HOUR}, **busy())
    assert found[3][1] == pytest.approx(2 * HOUR, rel=0.2)
    assert found[3][2] - found[3][0] > found[2][2] - found[2][0]


def test_a_job_of_higher_priority_comes_first() -> None:
    found = ahead([waiting(2), waiting(3, priority=5)], {1: HOUR, 2: HOUR, 3: HOUR}, **busy())
    assert found[3][1] < found[2][1]


def test_a_job_of_which_too_much_is_unknown_has_no_forecast() -> None:
    never = waiting(3, gpus=8)
    later = replace(waiting(4), awaits=1)
    assert set(ahead([waiting(2), never, later], {1: HOUR, 2: HOUR, 3: HOUR, 4: HOUR}, **busy())) == {2}


@pytest.mark.parametrize(("rounds", "is_known"), [(4, False), (40, True)])
def test_when_the_time_is_over_what_was_played_counts_if_it_is_enough(rounds: int, is_known: bool) -> None:
    left = iter([False] * rounds)
    found = starts([waiting(2)], Scene(now=NOW, **busy()), lambda _: [HOUR] * DRAWS, lambda: next(left, True))
    assert bool(found.spreads) is is_known


def test_where_the_time_is_short_the_first_jobs_get_times_and_those_behind_them_a_bound() -> None:
    """Each draw is played for its part of the time: here for four rounds of turns, the second one for three, as after
    the first it is asked how long that took."""
    asked = iter(range(10**6))
    jobs = [waiting(id) for id in range(2, 12)]
    found = starts(
        jobs, Scene(now=NOW, **busy()), lambda _: [HOUR] * DRAWS, lambda: next(asked) / (5 * play.LEAST_DRAWS)
    )
    assert list(found.spreads) == [2, 3]
    assert set(found.not_before) == set(range(4, 12))
    assert found.not_before[11] == NOW + timedelta(hours=3)


def test_of_each_virtual_cluster_the_first_jobs_are_played() -> None:
    jobs = [*(waiting(id, vc="a") for id in range(10, 20)), *(waiting(id, vc="b") for id in range(20, 30))]
    assert [one.id for one in play.first(jobs, Scene(now=NOW, nodes=[]), 4)] == [10, 11, 20, 21]


def test_the_same_world_gives_the_same_forecast() -> None:
    jobs, lengths = [waiting(id) for id in range(2, 9)], dict.fromkeys(range(1, 9), HOUR)
    assert ahead(jobs, lengths, **busy()) == ahead(jobs, lengths, **busy())


def ranks(one: JobView) -> list[float]:
    table = play._Table([one], Scene(nodes=[], now=NOW), lambda _: list(range(DRAWS)))
    draws: list[Any] = [play._Draw(table, draw) for draw in range(DRAWS)]
    return [draw._length(one) for draw in draws]


def test_every_job_has_each_of_its_lengths_once() -> None:
    for username in ("", "alice", "bob", "carol"):
        assert set(ranks(waiting(1, username=username))) == set(range(DRAWS))


def test_the_jobs_of_one_user_are_long_or_short_together() -> None:
    mine, also_mine, other = (waiting(1, username="a"), waiting(2, username="a"), waiting(3, username="b"))
    assert ranks(mine) == ranks(also_mine) != ranks(other)


def test_only_the_first_of_a_long_queue_are_played() -> None:
    jobs = [waiting(id, gpus=1) for id in range(2, 30)]
    found = starts(jobs, Scene(now=NOW, nodes=[node()]), lambda _: [HOUR] * DRAWS, lambda: False, most=12).spreads
    assert all(isinstance(each, Spread) for each in found.values())
    assert set(found) == set(range(2, 14))


def test_a_job_with_a_right_to_the_room_starts_when_those_evicted_for_it_have_left() -> None:
    right = Quota(guarantee={"gpu": 4, "cpu": 8, "memory": 16000})
    owner = waiting(2, vc="owner")
    found = ahead([owner], {1: HOUR, 2: HOUR}, quotas={"owner": right, "default": Quota()}, **busy())
    assert found[2] == (30, 30, 30)


def test_whose_jobs_were_evicted_starts_when_the_rest_is_over() -> None:
    quota = {"quotas": {"owner": Quota(guarantee={"gpu": 4, "cpu": 8, "memory": 16000}), "default": Quota()}}
    resting = {"u": Resting(1, NOW, NOW - timedelta(seconds=100))}
    assert ahead([waiting(2)], {2: HOUR}, nodes=[node()], rests=resting, **quota)[2] == (500, 500, 500)
    owner = waiting(2, vc="owner", username="o")
    found = ahead([owner, waiting(3, priority=1)], {1: HOUR, 2: 60, 3: HOUR}, **quota, **busy())
    assert found[3] == (630, 630, 630), "also where that eviction is only foreseen: from the start of the owner's job"


def test_queues_side_by_side_get_the_same_lengths() -> None:
    alike = [waiting(2)], Scene(now=NOW, **busy())
    first, second = play.side_by_side([alike, alike], lambda one: list(map(float, range(DRAWS))), lambda: False)
    assert first == second == starts(*alike, lambda one: list(map(float, range(DRAWS))), never).spreads


# --- one job ---------------------------------------------------------------------------------------------------------


def test_of_one_job_it_says_the_same_and_whose_end_lets_it_start() -> None:
    jobs, lengths = [waiting(2), waiting(3)], {1: HOUR, 2: HOUR, 3: HOUR}
    scene = Scene(now=NOW, **busy())

    def length(one: JobView) -> list[float]:
        return [lengths[one.id] * (0.5 + draw / (DRAWS - 1)) for draw in range(DRAWS)]

    all_ = starts(jobs, scene, length, never).spreads
    for id, after in ((2, 1), (3, 2)):
        found = play.start_of(jobs[id - 2], jobs, scene, length, lambda: False)
        assert found is not None and found.after is not None
        assert (found.spread, found.after.id, found.part) == (all_[id], after, 1.0)


def test_of_what_starts_now_no_end_is_awaited() -> None:
    found = play.start_of(waiting(2), [waiting(2)], Scene(now=NOW, nodes=[node()]), lambda _: [HOUR] * DRAWS, never)
    assert found == play.Foreseen(Spread(NOW, NOW, NOW), None, 0.0)


def test_behind_too_many_of_its_own_virtual_cluster_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "MOST", 3)
    mine = [waiting(id) for id in range(2, 6)]
    others = [waiting(id, vc="other") for id in range(10, 20)]
    scene = Scene(now=NOW, **busy())
    assert play.start_of(mine[3], [*others, *mine], scene, lambda _: [HOUR] * DRAWS, never) is None
    assert play.start_of(mine[2], [*others, *mine], scene, lambda _: [HOUR] * DRAWS, never) is not None


def test_without_time_nothing_is_said_of_one_job() -> None:
    assert play.start_of(waiting(2), [waiting(2)], Scene(now=NOW, **busy()), lambda _: [HOUR] * DRAWS, always) is None


def never() -> bool:
    return False


def always() -> bool:
    return True


def test_an_owner_starts_when_those_that_borrow_have_run_for_their_minimum() -> None:
    """And have left."""
    all_ = {"gpu": 4.0, "cpu": 100.0, "memory": 1e6}
    rights = {"default": Quota(min_run=60), "b": Quota(all_)}
    found = ahead([waiting(2, vc="b")], {1: 1000 * HOUR, 2: HOUR}, quotas=rights, step=NOW, **busy(ran=600.0))
    assert found[2] == (HOUR - 600 + play._GRACE,) * 3, "though the scene is of one moment"
