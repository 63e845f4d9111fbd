"""A borrower runs for the minimum of its virtual cluster before it leaves for an owner, who then surely starts."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.shares import Right, pool_totals, quotas
from jobs.planning.queue.scene import Policy
from jobs.planning.turns import Move
from tests.unit.queue_model import NOW, Play, Played, node, shape
from tests.unit.queue_worlds import worlds

PASS = 15  # seconds from one look at the queue to the next
ENDLESS = 10**9


def cluster(gpus: str = "AAAA", **rights: Right) -> Play:
    nodes = [node(f"n{at}", kinds, 64) for at, kinds in enumerate(gpus.split())]
    return Play(nodes, quotas(rights, *pool_totals(nodes)))


def job(id: int, vc: str, gpus: int = 1, **values: object) -> Played:
    given = {"username": vc, "name": f"j{id}", "since": f"{id:06}", "shape": shape(1, gpus), **values}
    return Played(id=id, vc=vc, **given)  # type: ignore[arg-type]


def test_a_borrower_leaves_once_it_has_run_for_the_minimum_and_the_owner_is_told_when() -> None:
    play = cluster(a=Right(0, min_run=30), b=Right(100))
    play.waiting = [job(1, "a", 4, seconds=ENDLESS)]
    play.step()
    play.waiting = [job(2, "b", 4), job(3, "a")]
    for _ in range(29):
        assert not [victim for turn in play.step(60) for victim in turn.victims]
    [why, *_] = [turn.blockers[0] for turn in play.turns() if turn.job.id == 2]
    assert (why.kind, why.until, why.owners) == ("spared", (NOW + timedelta(minutes=30)).isoformat(), ("a",))
    assert why.sentence == (
        "a/j1 must give back the room that this job has a right to. What VC a borrows runs for 30 min at least: that "
        "is over in 1 min, at 12:30:00 (UTC)."
    )
    assert why.otherwise.startswith("Another job must give back")
    assert [victim.job.id for turn in play.step(60) for victim in turn.victims] == [1]
    play.step(PASS)
    assert play.started[2] - NOW == timedelta(minutes=30, seconds=PASS)


def test_who_agreed_to_leave_at_any_moment_and_who_is_a_guest_has_no_minimum() -> None:
    play = cluster("AAAA AAAA", a=Right(0, min_run=30), b=Right(100))
    play.waiting = [job(1, "a", 4, seconds=ENDLESS, preemptible=True), job(2, "a", 4, seconds=ENDLESS)]
    play.step()
    play.waiting = [job(3, "b", 4)]
    assert [victim.job.id for turn in play.step(PASS) for victim in turn.victims] == [1]


def test_who_has_run_long_enough_leaves_before_who_has_not() -> None:
    """Though it loses more work, and has the higher priority."""
    play = cluster("AAAA AAAA", a=Right(0, min_run=30), b=Right(50), c=Right(50))
    play.waiting = [job(1, "a", 4, seconds=ENDLESS, priority=9)]
    play.step()
    play.waiting = [job(2, "a", 4, seconds=ENDLESS)]
    play.step(60)
    play.now += timedelta(minutes=27)
    play.waiting = [job(3, "b", 4)]
    [kept] = [turn.reservation for turn in play.step(60)]
    assert kept and [one.job.id for one in kept.spared] == [1] and kept.moment == NOW + timedelta(minutes=30)
    play.waiting += [job(4, "c", 4)]
    made = play.step(60)
    assert [(turn.job.id, victim.job.id) for turn in made for victim in turn.victims] == [(3, 1)]
    [kept] = [turn.reservation for turn in made if turn.job.id == 4]
    assert kept and [one.job.id for one in kept.spared] == [2] and kept.moment == NOW + timedelta(minutes=31)


def test_what_comes_free_meanwhile_is_gathered_for_each_owner() -> None:
    """Also for more than may have a reservation of another kind: borrowers of a minute come one after the other to the
    second node, on which the second owner wants room for a gang."""
    play = cluster("AAAA AAAA", a=Right(0, min_run=60), b=Right(50), c=Right(50))
    play.policy = Policy(reservations=1)
    play.waiting = [job(1, "a", 4, seconds=ENDLESS)]
    play.step()
    for at in range(4):
        play.waiting.append(job(2 + at, "a", seconds=60))
        play.step(PASS)
    play.waiting = [job(10, "b", 4), job(11, "c", 2)]
    for at in range(8):
        play.waiting.append(job(100 + at, "a", seconds=60))
        play.step(PASS)
    assert 11 in play.started and 10 not in play.started
    assert not any(one.evictions for one in [*play.waiting, *(one for one, _ in play.running.values())])


@worlds
@given(
    st.lists(st.tuples(st.sampled_from("aab"), st.sampled_from([30, 90, 600, ENDLESS])), min_size=1, max_size=12),
    st.sampled_from([(0, 0, 50), (25, 25, 50), (0, 50, 25)]),
    st.lists(st.sampled_from([0, 1, 3]), min_size=2, max_size=2),
    st.integers(1, 4),
    st.lists(st.sampled_from([0, 15, 40, 200]), min_size=1, max_size=5),
)
def test_a_guarantee_is_met_after_the_minimum_run_and_a_pass(
    stream: list[tuple[str, int]], percents: tuple[int, int, int], minimum: list[int], gpus: int, pauses: list[int]
) -> None:
    """Whatever others submit meanwhile, of tasks of one GPU; with evictions that take no time. Nobody leaves sooner."""
    rights = {
        vc: Right(percent, min_run=least) for vc, percent, least in zip("abc", percents, [*minimum, 0], strict=True)
    }
    play = cluster("AAAA AAAA", **rights)
    mine, came = job(99, "c", shape=shape(gpus, 1), seconds=ENDLESS), None
    if gpus > play.quotas["c"].guarantee["gpu"]:
        return
    for at in range(40):
        play.waiting += [
            job(1000 + 100 * at + each, vc, seconds=seconds) for each, (vc, seconds) in enumerate(stream) if at % 2 == 0
        ]
        if at == 6:
            came, play.waiting = play.now, [*play.waiting, mine]
        made = play.step(PASS if came else pauses[at % len(pauses)])
        for victim in (one for turn in made for one in turn.victims):
            assert victim.job.started_at is not None
            assert play.now - victim.job.started_at >= timedelta(minutes=rights[victim.job.vc].min_run)
        if mine.id in play.started:
            assert came is not None
            assert play.now - came <= timedelta(minutes=max(minimum), seconds=3 * PASS)
            return
    raise AssertionError("it has not started")


def test_nothing_of_the_same_virtual_cluster_takes_the_right_to_the_room_meanwhile() -> None:
    """Those behind an owner that waits so long would use up the guarantee, and it would borrow itself then."""
    play = cluster("AAAA AAAA", a=Right(0, min_run=30), b=Right(50))
    play.waiting = [job(1, "a", 4, seconds=ENDLESS)]
    play.step()
    play.waiting = [job(2, "a", 3, seconds=ENDLESS)]
    play.step(60)
    play.waiting = [job(3, "b", 4, seconds=ENDLESS), job(4, "b", seconds=ENDLESS)]
    assert not [turn for turn in play.step(PASS) if turn.move is Move.GO]
    play.step(60 * 29)
    play.step(PASS)
    assert 3 in play.started
