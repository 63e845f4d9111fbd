"""Users who go as far as the rules let them, and what the others get: pure plays with the real turns.

Each figure is printed (``pytest -s``) and held: it may become better, and not worse.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.shares import Quota, Right, pool_totals, quotas
from jobs.planning.queue.scene import LONGEST_REST, MOST_EVICTIONS, Policy, Rests, rests_after
from jobs.planning.turns import Move, turns
from tests.unit.queue_model import NOW, Play, Played, node, shape

ENDLESS = 10**9
PASS = 15  # seconds from one look at the queue to the next


def cluster(gpus: int, kinds: str = "A", **rights: Right) -> Play:
    nodes = [node(f"n{at}", kind * gpus, cpus=64) for at, kind in enumerate(kinds)]
    return Play(nodes, quotas(rights, *pool_totals(nodes)))


def job(id: int, vc: str, gpus: int = 1, **values: object) -> Played:
    named = {"username": vc, "name": f"j{id}", "since": f"{id:06}", "shape": shape(1, gpus), **values}
    return Played(id=id, vc=vc, **named)  # type: ignore[arg-type]


def test_squatter() -> None:
    """Endless borrowers of a team without a guarantee take everything; the other team comes every hour, for
    ten minutes, a hundred times: its waits in seconds."""
    play = cluster(8, b=Right(100))
    play.waiting = [job(id, "a", 2, seconds=ENDLESS) for id in range(1, 5)]
    play.step()
    waits = []
    for burst in range(100):
        mine = [job(1000 + 10 * burst + at, "b", 4, seconds=600) for at in range(2)]
        play.waiting += mine
        came = play.now
        for _ in range(3600 // PASS):
            play.step(PASS)
        waits += [(play.started[one.id] - came).total_seconds() for one in mine if one.id in play.started]
    evictions = sum(one.evictions for one in [*play.waiting, *(one for one, _ in play.running.values())])
    print(f"squatter: {len(waits)} of 200 jobs started, at most {max(waits):.0f} s late, {evictions} evictions")
    assert len(waits) == 200 and max(waits) <= 3 * PASS, "one gang of a team after the other"
    assert evictions <= 4 * 15, "each borrower rests twice as long after each eviction, half a day at most"


def stays(play: Play, one: Played) -> None:
    """It goes on waiting."""


def resubmits(play: Play, one: Played) -> None:
    """It is stopped, or deleted, and sent anew."""
    play.waiting = [replace(one, id=one.id + 1, evictions=0) if each is one else each for each in play.waiting]


def changes(play: Play, one: Played) -> None:
    """It is changed to another virtual cluster, where it has no room, and back in the next pass."""
    vc = "a" if one.vc == "c" else "c"
    play.waiting = [replace(one, id=one.id + 1, vc=vc, evictions=0) if each is one else each for each in play.waiting]


def has_others(play: Play, one: Played) -> None:
    """It is stopped once it was evicted, and a hundred like it were sent beforehand."""
    play.waiting = [each for each in play.waiting if not each.evictions]


SQUATTERS = {"stays": stays, "resubmits": resubmits, "changes": changes, "has others": has_others}


@pytest.mark.parametrize("squats", SQUATTERS)
def test_a_squatter_disturbs_no_more_often_whatever_they_do_with_their_jobs(squats: str) -> None:
    """For two days: the owner of all comes every ten minutes, for a minute."""
    play, disturbed, id = cluster(8, b=Right(100)), 0, 10**6
    play.quotas = {**play.quotas, "c": Quota(ceiling={"gpu": 0})}
    count = 100 if squats == "has others" else 1
    play.waiting = [job(1000 * at, "a", 8, username="s", seconds=ENDLESS) for at in range(1, count + 1)]
    for minute in range(2 * 24 * 60):
        if minute % 10 == 0:
            id += 1
            play.waiting.append(job(id, "b", 8, seconds=60))
        disturbed += sum(len(turn.victims) for turn in play.step(60))
        for one in [each for each in play.waiting if each.username == "s"][:1]:
            SQUATTERS[squats](play, one)
    print(f"squatter who {squats}: {disturbed} evictions in two days")
    assert disturbed == 10, "after 10, 20, 40 minutes, at last half a day"


def test_stop_and_resubmit() -> None:
    """A borrower that is stopped and sent again makes no owner wait for it."""
    play = cluster(8, b=Right(100))
    waits = []
    for at in range(50):
        play.running.clear()
        play.waiting = [job(100 * at + 1, "a", 8, seconds=ENDLESS)]
        play.step(PASS)
        mine = job(100 * at + 2, "b", 8, seconds=60)
        play.waiting += [mine]
        came = play.now
        for _ in range(4):
            play.step(PASS)
        waits.append((play.started[mine.id] - came).total_seconds())
    print(f"stop and resubmit: {max(waits):.0f} s")
    assert max(waits) <= 2 * PASS


def test_who_is_within_is_never_evicted_whoever_asks() -> None:
    """A job within, among endless borrowers, bursts of others, and a gang beyond the guarantee of its team."""
    play = cluster(8, a=Right(25), b=Right(25), c=Right(50))
    mine = job(1, "a", 2, seconds=ENDLESS)
    play.waiting = [mine]
    play.step()
    play.waiting = [
        *(job(10 + at, "b", 1, seconds=ENDLESS, priority=100) for at in range(8)),
        job(30, "c", 8, priority=100, seconds=60),
        *(replace(job(40 + at, "c", 2, seconds=90), preemptible=True) for at in range(8)),
    ]
    for _ in range(200):
        play.step(PASS)
    print(f"within: {len(play.running)} jobs run, {len(play.waiting)} wait")
    assert mine.id in play.running and play.running[mine.id][0].evictions == 0


def test_depth() -> None:
    """Ten thousand jobs of one shape wait, for nodes that are full; behind them one of another user and another type of
    GPUs, and one without any, which a pass finds."""
    play = cluster(4, "AB", a=Right(100))
    play.waiting = [job(1, "a", 4, shape=shape(1, 4, 1, "A"), seconds=ENDLESS)]
    play.step()
    one_shape = shape(1, 2, 1, "A")
    play.waiting = [job(10 + at, "a", shape=one_shape, seconds=ENDLESS) for at in range(10_000)]
    play.waiting += [job(20_000, "a", shape=shape(1, 4, 1, "B")), job(20_001, "a", shape=shape(1, 0))]
    made = list(turns(play.waiting, play.scene(), only_tried=True))
    print(f"depth: {[turn.job.id for turn in made if turn.move is Move.GO]} start behind 10,000")
    assert [turn.job.id for turn in made if turn.move is Move.GO] == [20_000, 20_001]
    assert {turn.job.id for turn in play.turns() if turn.move is Move.GO} == {20_000, 20_001}, "so the pages say"


def test_shapes_have_a_depth() -> None:
    """However many shapes somebody thinks of, a pass tries so many of them."""
    play = cluster(4, a=Right(100))
    play.policy = Policy(depth=20)
    play.waiting = [job(1, "a", 4, seconds=ENDLESS)]
    play.step()
    play.waiting = [job(10 + at, "a", shape=shape(1, 1, 1 + at), seconds=60) for at in range(40)]
    play.waiting += [job(100, "a", shape=shape(1, 0))]
    assert not [turn for turn in turns(play.waiting, play.scene(), only_tried=True) if turn.move is Move.GO]
    play.policy = Policy(depth=60)
    assert [turn.job.id for turn in play.turns() if turn.move is Move.GO] == [100]


@given(
    st.lists(st.tuples(st.integers(-90, 90), st.integers(0, 90)), max_size=12),
)
def test_a_clock_that_is_set_back_makes_nobody_rest_longer(moves: list[tuple[int, int]]) -> None:
    """Each eviction has its day and how many days its job has run: the days come in any order."""
    rests: Rests = {}
    for day, ran in moves:
        now = NOW + timedelta(days=day)
        rests = rests_after(rests, [("u", "a", now - timedelta(days=ran))], now)
        assert rests["u", "a"].evictions <= min(len(moves), MOST_EVICTIONS)
        assert rests["u", "a"].until <= now + LONGEST_REST


def test_those_who_leave_for_one_owner_count_once_though_the_clock_was_set_back() -> None:
    started = NOW - timedelta(hours=1)
    once = rests_after({}, [("u", "a", started)], NOW)
    back = NOW - timedelta(minutes=1)
    assert rests_after(once, [("u", "a", started)], back)["u", "a"].evictions == 1
