"""How many starts an engine gets at once follows from how fast it answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from clusters.placement.pace import FIRST, LEAST, MOST, SLOW, Pace
from jobs.planning.planner import plan
from tests.unit.test_planner import NOW, job, node, spec, task, world

LATE = NOW - SLOW


def burst(work: float, starts: int, cores: float) -> tuple[list[int], float]:
    """How many were under way at each moment while so many starts of ``work`` seconds each shared the cores of an
    engine, and the seconds that the slowest took."""
    step = 0.25
    now, pace, waiting, slowest = NOW, Pace(), list(range(starts)), timedelta()
    asked: dict[int, datetime] = {}
    done = dict.fromkeys(waiting, 0.0)
    seen = []
    while waiting or asked:
        pace = pace.after(now, asked, ())
        while waiting and len(asked) < int(pace.limit):
            asked[waiting.pop()] = now
        pace = replace(pace, under_way=dict(asked))
        seen.append(len(asked))
        now += timedelta(seconds=step)
        for id in list(asked):
            done[id] += step * min(1.0, cores / len(asked))
            if done[id] >= work:
                slowest = max(slowest, now - asked.pop(id))
    return seen, slowest.total_seconds()


def test_a_quick_engine_gets_more_and_a_slow_one_fewer() -> None:
    quick, slowest = burst(0.25, 600, cores=64)
    assert max(quick) > 2 * FIRST and max(quick) <= MOST and slowest <= 2
    slow, slowest = burst(2, 300, cores=1)
    assert slow[-20] == LEAST and slowest < 20, "300 at once would take 600 s each"


def test_many_that_were_slow_together_count_once_and_also_before_they_are_answered() -> None:
    ordered = dict.fromkeys(range(16), LATE)
    pace = Pace(limit=16, under_way=ordered).after(NOW, ordered, ())
    assert pace.limit == 8
    assert pace.after(NOW, {}, ()).limit == 8
    later = {99: NOW + timedelta(seconds=1)}
    assert pace.after(NOW, later, ()).after(NOW + 2 * SLOW, {}, ()).limit == LEAST


def test_it_learns_nothing_from_a_start_that_pulls_its_image() -> None:
    assert Pace(under_way=dict.fromkeys(range(8), NOW)).after(NOW + SLOW, {}, range(8)).limit == FIRST
    tasks = [
        task(at, "STARTING", index=at, ordered_at=LATE, claimed_until=NOW + SLOW, progress="pulls")
        for at in range(1, 9)
    ]
    assert plan(world(live=[(job(spec=spec(8)), tasks)])).paces == {}


def test_no_more_are_ordered_than_are_answered() -> None:
    many = [task(at, "STARTING", index=at, ordered_at=None) for at in range(1, 41)]
    big = world(nodes=[node(cpus=64)], live=[(job(spec=spec(40)), many)])
    made = plan(big)
    assert made.paces["n1"].under_way == dict.fromkeys((one.task for one in made.jobs[0].orders), NOW)
    assert len(made.jobs[0].orders) == FIRST
    busy = [task(at, "STARTING", index=at, ordered_at=NOW if at <= 8 else None) for at in range(1, 41)]
    assert plan(world(nodes=[node(cpus=64)], live=[(job(spec=spec(40)), busy)])).jobs[0].orders == []
    grown = {"n1": Pace(limit=10, under_way=made.paces["n1"].under_way)}
    assert len(plan(big, None, grown).jobs[0].orders) == 10


def test_a_start_that_got_lost_is_ordered_again_in_its_own_place() -> None:
    lapsed = [task(at, "STARTING", index=at, ordered_at=LATE - SLOW - SLOW if at <= 8 else None) for at in range(1, 41)]
    made = plan(world(nodes=[node(cpus=64)], live=[(job(spec=spec(40)), lapsed)]))
    assert sorted(order.task for order in made.jobs[0].orders) == list(range(1, 9))
