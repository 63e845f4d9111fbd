"""Users who go as far as the rules let them, and what the others get: pure plays with the real turns.

Each figure is printed (``pytest -s``) and held: it may become better, and not worse.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.free import FreeNodes
from clusters.placement.shares import Quota, Right, pool_totals, quotas
from jobs.planning.queue.scene import LONGEST_REST, MOST_EVICTIONS, Policy, Rests, displaced_by, rests_after
from jobs.planning.turns import Move, turns
from tests.unit.queue_model import NOW, Play, Played, node, shape

ENDLESS = 10**9
PASS = 15  # seconds from one look at the queue to the next
TEN_MINUTES = (60, 60, 60, 420)  # somebody comes and leaves in the first of them


def cluster(gpus: int, kinds: str = "A", **rights: Right) -> Play:
    nodes = [node(f"n{at}", kind * gpus, cpus=64) for at, kind in enumerate(kinds)]
    return Play(nodes, quotas(rights, *pool_totals(nodes)))


def until(end: datetime, play: Play, watched: list[Played]) -> None:
    """Pass by pass while one of these waits, whose wait is measured, and then by the minute: each pass takes time."""
    while play.now < end:
        waits = any(one.id not in play.started for one in watched)
        play.step(PASS if waits else min(60, int((end - play.now).total_seconds())))


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
        until(came + timedelta(hours=1), play, mine)
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
    """It is stopped once it was evicted, and twenty like it were sent beforehand."""
    play.waiting = [each for each in play.waiting if not each.evictions]


SQUATTERS = {"stays": stays, "resubmits": resubmits, "changes": changes, "has others": has_others}


@pytest.mark.parametrize("squats", SQUATTERS)
def test_a_squatter_disturbs_no_more_often_whatever_they_do_with_their_jobs(squats: str) -> None:
    """For two days: the owner of all comes every ten minutes, for a minute."""
    play, disturbed, id = cluster(8, b=Right(100)), 0, 10**6
    play.quotas = {**play.quotas, "c": Quota(ceiling={"gpu": 0})}
    count = 20 if squats == "has others" else 1  # twice as many as are evicted
    play.waiting = [job(1000 * at, "a", 8, username="s", seconds=ENDLESS) for at in range(1, count + 1)]
    for _ in range(2 * 24 * 6):
        id += 1
        play.waiting.append(job(id, "b", 8, seconds=60))
        for seconds in TEN_MINUTES:
            disturbed += sum(len(turn.victims) for turn in play.step(seconds))
            for one in [each for each in play.waiting if each.username == "s"][:1]:
                SQUATTERS[squats](play, one)
    print(f"squatter who {squats}: {disturbed} evictions in two days")
    assert disturbed == 10, "after 10, 20, 40 minutes, at last half a day"


def test_who_has_many_virtual_clusters_disturbs_no_more_often() -> None:
    """The same for one who has an endless job in each of five: their owners come every ten minutes, for a minute."""
    play, disturbed, id = cluster(8, b=Right(100)), 0, 10**6
    play.waiting = [job(at, f"v{at}", 8, username="s", seconds=ENDLESS) for at in range(5)]
    for _ in range(2 * 24 * 6):
        id += 1
        play.waiting.append(job(id, "b", 8, seconds=60))
        disturbed += sum(len(turn.victims) for seconds in TEN_MINUTES for turn in play.step(seconds))
    print(f"squatter in five virtual clusters: {disturbed} evictions in two days")
    assert disturbed == 10, "as one who has a single one"


def test_who_takes_their_claims_back_makes_nobody_rest() -> None:
    """Somebody who may claim all does so every ten minutes, a hundred times, and deletes it before it starts: the
    GPU-hours that the borrower still gets of what would be idle."""
    play, used = cluster(8, b=Right(100)), 0
    play.waiting = [job(1, "a", 8, seconds=ENDLESS)]
    play.step()
    for claim in range(100):
        play.waiting.append(job(1000 + claim, "b", 8, seconds=ENDLESS))
        play.step()
        play.waiting = [each for each in play.waiting if each.vc != "b"]
        play.running.pop(1000 + claim, None)
        for _ in range(600 // PASS):
            used += used_by(play, "a")
            play.step(PASS)
    part = used / (100 * 8 * 600 // PASS)
    print(f"claims that are taken back: the borrower has {part:.1%} of the time")
    assert part > 0.95


def test_who_makes_room_for_a_claim_borrows_nothing_else_until_it_has_started() -> None:
    """What the claim leaves over of their place would else be taken in the same pass, and be taken back by the next."""
    play = cluster(8, b=Right(100))
    play.waiting = [job(1, "a", 8, username="s", seconds=ENDLESS)]
    play.step()
    play.waiting += [job(2, "c", 1, username="s"), job(3, "c", 1, username="o"), job(9, "b", 6, seconds=ENDLESS)]
    play.step(PASS)
    play.step(PASS)
    assert sorted(play.running) == [3, 9]
    play.step(600 - PASS)
    assert 2 not in play.started
    play.step(PASS)
    assert 2 in play.started, "of the same user, in another virtual cluster"


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
        rests = rests_after(rests, displaced_by({}, [("u", now - timedelta(days=ran))]), "o/owner", now)
        assert rests["u"].evictions <= min(len(moves), MOST_EVICTIONS)
        assert rests["u"].until <= now + LONGEST_REST


def test_those_who_leave_for_one_owner_count_once_though_the_clock_was_set_back() -> None:
    displaced = displaced_by({}, [("u", NOW - timedelta(hours=1))])
    once = rests_after({}, displaced, "o/owner", NOW)
    assert rests_after(once, displaced, "o/owner", NOW - timedelta(minutes=1))["u"].evictions == 1


def keep_busy(play: Play, vc: str, gpus: int, first: int, **values: object) -> None:
    """Whenever fewer of its one-GPU jobs than that wait or run on, the team submits others."""
    jobs = [*play.waiting, *(one for one, _ in play.running.values() if not play.is_over(one, PASS))]
    ours = sum(one.vc == vc and one.name.startswith("small") for one in jobs)
    for at in range(ours, gpus):
        id = first + at
        play.waiting.append(job(id, vc, name=f"small{id}", since=f"{id:09}", **values))


def used_by(play: Play, vc: str) -> int:
    return sum(sum(each.gpus for each in one.shape) for one, _ in play.running.values() if one.vc == vc)


def test_hog() -> None:
    """A gang of all GPUs, of a team with half of them, while the other team keeps most of its half busy: the others of
    its team, and whoever borrows, go on as if it did not wait."""
    play = cluster(8, "AA", a=Right(50), b=Right(50))
    least: dict[str, int] = {}
    for at in range(200):
        for vc, gpus in {"a": 5, "b": 7, "c": 4}.items():
            keep_busy(play, vc, gpus, 1000 * at + {"a": 200, "b": 400, "c": 600}[vc], seconds=60 + 10 * (at % 7))
        if at == 20:
            play.waiting.append(job(1, "a", shape=shape(2, 8), seconds=600, since="0"))
        play.step(PASS)
        if at > 20:
            least = {vc: min(least.get(vc, 99), used_by(play, vc)) for vc in "abc"}
    print(f"hog: GPUs in use at least {least}")
    assert least == {"a": 5, "b": 7, "c": 4}
    [why] = [turn.blockers for turn in play.turns() if turn.job.id == 1]
    [kept] = [each.sentence for each in why if each.kind == "owners"]
    assert kept == (
        "VC b uses room within its guarantee that this job would need, and with it VC a would be beyond its own: no "
        "room is kept for it, and those behind it go on. An appointment would give it the room; it may also ask for "
        "fewer GPUs."
    )


def test_a_gang_beyond_the_guarantee_gathers_what_no_owner_holds() -> None:
    """Borrowers come without end, and the other team rests: what borrowers leave is kept for the gang."""
    play = cluster(8, "AA", a=Right(50), b=Right(50))
    for at in range(40):
        keep_busy(play, "c", 16, 1000 * at + 600, seconds=60)
        if at == 3:
            play.waiting.append(job(1, "a", shape=shape(2, 8), seconds=600, since="0"))
        play.step(PASS)
    assert 1 in play.started
    play.waiting.append(job(2, "b", 4, seconds=60, since="1"))
    play.step(PASS)
    play.step(PASS)
    assert 2 in play.started, "an owner takes back what is its own"


def test_an_owner_takes_what_a_gang_beyond_its_guarantee_has_gathered() -> None:
    """Also where its turn comes after that of the gang, since one before it in its own queue borrows."""
    play = cluster(4, "AA", a=Right(50), b=Right(50))
    play.waiting = [job(1, "c", 3, seconds=ENDLESS), job(2, "c", 3, seconds=ENDLESS)]
    play.step()
    play.waiting = [job(10, "a", shape=shape(2, 4), since="1"), job(11, "b", shape=shape(2, 3, 30), since="2")]
    play.waiting += [job(12, "b", 1, since="3"), job(13, "c", 1, since="4"), job(14, "c", 1, since="5")]
    assert [turn.job.id for turn in play.turns() if turn.move is Move.GO] == [12]


@pytest.mark.parametrize(("shapes", "most"), [(1, 10), (10_000, 3 * 100)])
def test_many_gangs_beyond_the_guarantee_take_a_pass_no_more_work(
    shapes: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = cluster(8, "AA", a=Right(50), b=Right(50))
    play.policy = Policy(depth=90)
    play.waiting = [job(1, "b", 8, seconds=ENDLESS)]
    play.step()
    gangs = [shape(2, 8, 1 + at) for at in range(min(shapes, 60))]
    gangs = [gangs[at % len(gangs)] if shapes > 1 else gangs[0] for at in range(10_000)]
    play.waiting = [job(10 + at, "a", shape=each) for at, each in enumerate(gangs)] + [job(20_000, "a")]
    searched: list[object] = []
    search = FreeNodes.place
    monkeypatch.setattr(FreeNodes, "place", lambda *one, **more: searched.append(one) or search(*one, **more))
    made = list(turns(play.waiting, play.scene(), only_tried=True))
    assert [turn.job.id for turn in made if turn.move is Move.GO] == [20_000]
    assert len(searched) <= most


def test_ceiling() -> None:
    """A gang waits for its team's ceiling behind a job of an hour. Small ones that say that they are short, or may be
    evicted, use what it leaves, and it starts when it would without them."""
    started = []
    for fill in (False, True):
        play = cluster(8, "AA", a=Right(25, 50), b=Right(25))
        play.waiting = [job(1, "a", 5, seconds=3600, most=3600)]
        play.step()
        play.waiting = [job(2, "a", 6, seconds=600)]
        used = []
        for at in range(3600 // PASS + 4):
            if fill:
                keep_busy(play, "a", 2, 1000 * at + 200, seconds=60, most=90)
                play.waiting += [] if at % 9 else [job(1000 * at + 300, "a", seconds=ENDLESS, preemptible=True)]
            play.step(PASS)
            used.append(used_by(play, "a"))
        started.append(play.started[2])
        print(f"ceiling: {sum(used) / len(used):.1f} of 8 GPUs in use")
        assert max(used) <= 8
        assert not fill or sum(used) / len(used) > 7.5
    assert (started[1] - started[0]).total_seconds() <= PASS, "the grace"


def test_who_does_not_leave_in_time_waits_behind_the_ceiling() -> None:
    play = cluster(8, "AA", a=Right(25, 50), b=Right(25))
    play.waiting = [job(1, "a", 5, seconds=600, most=600)]
    play.step()
    play.waiting = [
        job(2, "a", 6),
        job(3, "a", most=700),
        job(4, "a"),
        job(5, "a", 2, most=600),
        job(6, "a", 2, most=9),
    ]
    made = {turn.job.id: turn for turn in play.turns()}
    assert [id for id, turn in made.items() if turn.move is Move.GO] == [5] and made[5].is_guest
    said = [made[id].blockers[0].sentence for id in (2, 3)]
    assert said[0].startswith("VC a may use 8 GPUs at most; it uses 7 GPUs, and this job asks for 6 GPUs.")
    assert said[1].endswith(
        "a/j2 is ahead of it there; before that only those start that end in time, or that may be evicted."
    )


def test_those_who_name_no_type_before_those_who_do() -> None:
    """A user fills a mixed cluster with jobs that take any GPU, all before one of another user that needs the only node
    of its type: the waits of that one in seconds."""
    play = cluster(4, "ABBB", a=Right(100))
    waits = []
    for at in range(50):
        anything = [job(100 * at + 10 + each, "a", 2, seconds=600) for each in range(6)]
        mine = job(100 * at + 90, "a", username="b", shape=shape(1, 4, 1, "A"), seconds=600)
        play.waiting += [*anything, mine]
        came = play.now
        until(came + timedelta(minutes=20), play, [mine])
        waits.append((play.started[mine.id] - came).total_seconds())
    print(f"no type before a type: at most {max(waits):.0f} s")
    assert max(waits) <= PASS
    assert not play.waiting and len(play.started) == 50 * 7, "and they wait for nothing either"


def test_who_names_a_type_keeps_none_below_the_ceiling_that_takes_any() -> None:
    """A gang of three GPUs of any type may have two of A and one of B. Others of its team, who come without end, ask
    for B, so that A comes first for it: it still gets both."""
    nodes = [node("n0", "AA"), node("n1", "AABB")]
    play = Play(nodes, quotas({"a": Right(50, 50)}, *pool_totals(nodes)))
    play.waiting = [job(1, "a", shape=shape(3, 1), seconds=10)]
    for at in range(20):
        play.waiting.append(job(1000 + at, "a", username="u", shape=shape(1, 1, 1, "B"), seconds=10))
        play.step(10)
    assert 1 in play.started
