"""What holds in the course of time, for every cluster and every queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.shares import (
    Right,
    add,
    asked,
    is_within,
    pool_totals,
    quotas,
)
from jobs.planning.queue.lengths import Lengths, LikeJobs
from jobs.planning.queue.scene import LONGEST_REST, OVERDUE, REST, Policy, since_text
from jobs.planning.queue.users.used_lately import UsedLately
from jobs.planning.turns import Move
from tests.unit.queue_model import NOW, Play, Played, node, shape
from tests.unit.queue_worlds import SHAPES, VCS, jobs, plays, worlds


@worlds
@given(plays(), jobs(1), jobs(101), st.lists(st.sampled_from([0, 10, 30]), min_size=1, max_size=7))
def test_nobody_is_evicted_without_end(
    play: Play, first: list[Played], stream: list[Played], pauses: list[int]
) -> None:
    """Whatever goes on arriving, in each virtual cluster, and however long the others run."""
    play.waiting, times = [replace(job, seconds=10 * job.seconds) for job in first], Counter[int]()
    for at in range(60):
        new = [replace(job, id=1000 * (at + 1) + job.id, since=f"{1000 + at:04}") for job in stream]
        play.waiting += new if at % 2 else []
        times.update(victim.job.id for turn in play.step(pauses[at % len(pauses)]) for victim in turn.victims)
    rests = sum(REST * 2**n <= play.now - NOW for n in range(1, 10))  # each is at least twice as long as the last one
    assert max(times.values(), default=0) <= 1 + rests + play.policy.guest_evictions


@worlds
@given(
    st.lists(jobs(1), min_size=1, max_size=4),
    st.lists(
        st.tuples(st.sampled_from(["nothing", "stop", "submit", "change"]), st.sampled_from([1, 9, 50, 700])),
        max_size=30,
    ),
)
def test_nothing_that_a_user_does_lets_their_next_borrower_start_sooner(
    groups: list[list[Played]], story: list[tuple[str, int]]
) -> None:
    """Than the evicted job that goes on waiting would, if it rested for its own evictions alone, each from the start of
    the job for which it was."""
    nodes = [node("n0"), node("n1")]
    play = Play(nodes, quotas({"a": Right(50), "b": Right(25), "c": Right(25)}, *pool_totals(nodes)))
    times, rests, left = Counter[int](), dict[str, datetime](), dict[int, list[Played]]()
    for at, (does, pause) in enumerate(story):
        play.waiting += [replace(job, id=100 * at + job.id, since=f"{at:04}") for job in groups[at % len(groups)]]
        mine = [job for job in play.waiting if job.username == "u"]
        if does != "nothing" and mine:
            gone = mine[at % len(mine)]
            play.waiting = [job for job in play.waiting if does == "submit" or job is not gone]
            if does != "stop":
                vc = VCS[at % 3] if does == "change" else gone.vc
                new = Played(id=100 * at + 99, vc=vc, username="u", since=f"{at:04}", shape=gone.shape, seconds=10**5)
                play.waiting.append(new)
        play.now += timedelta(seconds=pause)
        play.end()
        use = {vc: dict(play.use().get(vc, {})) for vc in VCS}
        made = play.step()
        for turn in made:
            job = turn.job
            if turn.move is Move.GO:
                amount = turn.queue.amount(job, turn.placements)
                if not turn.is_guest and not is_within(use[job.vc], amount, play.quotas[job.vc]):
                    assert play.now >= rests.get(job.username, NOW)
                add(use[job.vc], amount)
        for job in (one for turn in made if turn.move is Move.GO for one in left.pop(turn.job.id, ())):
            times[job.id] += 1
            until = play.now + min(LONGEST_REST, REST * 2 ** times[job.id])
            rests[job.username] = max(until, rests.get(job.username, until))
        for turn in made:
            left.setdefault(turn.job.id, []).extend(one.job for one in turn.victims if not one.job.is_guest)


@worlds
@given(plays(), st.lists(jobs(1), min_size=2, max_size=4))
def test_evictions_come_to_rest_where_nothing_comes_or_ends(play: Play, groups: list[list[Played]]) -> None:
    """Who was evicted does not start again before the one for whom they were."""
    for at, group in enumerate(groups):
        play.waiting += [
            replace(job, id=100 * at + job.id, since=f"{100 * at + job.id:04}", seconds=10**6) for job in group
        ]
        play.step(10)
    for _ in range(20):
        play.step(10)
    assert not any(turn.victims for _ in range(4) for turn in play.step(10))


@worlds
@given(plays(), jobs(1), jobs(101), st.sampled_from(SHAPES), st.booleans(), st.booleans())
def test_nobody_starves(
    play: Play, first: list[Played], stream: list[Played], large: tuple[object, ...], new_users: bool, used: bool
) -> None:
    """A job that could run alone starts, though jobs like these go on arriving in its own virtual cluster, also where
    each is of a user who has used nothing yet, and its own user has used much: then once it is overdue."""
    came = since_text(NOW - OVERDUE - timedelta(seconds=1)) if used else "0050"
    mine = Played(id=50, vc="a", username="w", name="mine", since=came, shape=large, seconds=10)  # type: ignore[arg-type]
    play.past = {("w", "a"): UsedLately(99, 99, 99, NOW - 2 * OVERDUE)} if used else {}
    alone = Play(play.nodes, play.quotas, waiting=[mine])
    alone.step()
    if not alone.running:
        return
    play.waiting = [replace(job, vc="a", priority=0) for job in first]
    for at in range(100):
        play.waiting += [mine] if at == 1 else []
        play.waiting += [
            replace(job, id=1000 * (at + 1) + job.id, since=f"{1000 + at:04}", vc="a", priority=0) for job in stream
        ]
        if new_users:
            play.waiting = [replace(job, username=f"new{job.id}") if job.id >= 1000 else job for job in play.waiting]
        play.step(10)
        if mine.id in play.started:
            return
    raise AssertionError("it has waited for 1,000 s, and none of the others runs for more than 90")


@worlds
@given(plays(), jobs(1), jobs(101), st.sampled_from(SHAPES), st.integers(1, 2))
def test_nobody_starves_beside_more_virtual_clusters_than_get_a_reservation(
    play: Play, first: list[Played], stream: list[Played], large: tuple[object, ...], most: int
) -> None:
    """The first job of a virtual cluster, within its guarantee, though jobs like these go on arriving everywhere, and
    start beside what is kept for others."""
    rights = {"a": Right(25), "b": Right(25), "c": Right(50)}
    play = Play([node(one.name, "A" * len(one.gpus), one.cpus) for one in play.nodes], policy=Policy(reservations=most))
    play.quotas = quotas(rights, *pool_totals(play.nodes))
    mine = Played(id=50, vc="c", username="w", name="mine", since="0050", priority=1, shape=large, seconds=10)  # type: ignore[arg-type]
    alone = Play(play.nodes, play.quotas, waiting=[mine])
    alone.step()
    if not alone.running or not is_within({}, asked(mine.shape), play.quotas["c"]):
        return
    play.waiting = [replace(job, priority=0, preemptible=False) for job in first] + [mine]
    for at in range(300):
        new = [replace(job, id=1000 * (at + 1) + job.id, since=f"{1000 + at:04}", priority=0) for job in stream]
        play.waiting += [replace(job, preemptible=False) for job in new if at % 3 == 0]
        play.step(10)
        if mine.id in play.started:
            return
    raise AssertionError("it has waited for 3,000 s, and none of the others runs for more than 90")


@worlds
@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), jobs(1), jobs(101), st.lists(st.floats(1, 100)))
def test_a_reserved_job_starts_no_later_than_without_others_behind_it(
    gpus: list[int], first: list[Played], behind: list[Played], learnt: list[float]
) -> None:
    """Where running jobs say when they end, whatever was learnt of others, as long as what is kept has not lapsed. With
    evictions that take no time; else it is the grace later."""
    mine = Played(id=50, vc="a", since="0050", shape=shape(2, 3), seconds=10, most=10)
    moments = []
    for depth in (1000, 0):
        nodes = [node(f"n{at}", "A" * 2 * each) for at, each in enumerate(gpus)]
        rights = {"a": Right(100)}
        lengths = Lengths((LikeJobs("u", f"j{seconds}", 1, "a"), seconds) for seconds in learnt)
        play = Play(nodes, quotas(rights, *pool_totals(nodes)), lengths=lengths)
        play.waiting = [replace(job, vc="a", priority=0, most=job.seconds, preemptible=False) for job in first]
        play.step()
        play.policy = Policy(depth=depth)
        play.waiting = [mine, *(replace(job, vc="a", priority=0, most=job.seconds) for job in behind)]
        for _ in range(40):
            if any(turn.victims for turn in play.step(5)):
                play.step()
            if any(one.lapses for one in play.idlings.values()):
                return
        moments.append(play.started.get(mine.id))
    assert moments[0] == moments[1] or (moments[0] and moments[1] and moments[0] < moments[1])


@worlds
@given(
    st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), jobs(1), jobs(101), st.integers(0, 8),
    st.sampled_from([(2, 2), (1, 2), (2, 1), (1, 1), (1, 3)]),
)  # fmt: skip
def test_a_job_that_waits_for_its_ceiling_starts_no_later_than_without_others_before_it(
    gpus: list[int], first: list[Played], behind: list[Played], ceiling: int, large: tuple[int, int]
) -> None:
    """Whether its room is held by its own virtual cluster or by another one, as long as what is kept has not lapsed.
    With evictions that take no time."""
    mine = Played(id=50, vc="a", since="0050", shape=shape(*large), seconds=10, most=10)
    moments = []
    for depth in (1000, 0):
        nodes = [node(f"n{at}", "A" * 2 * each) for at, each in enumerate(gpus)]
        rights = {"a": Right(25, gpu_ceiling=ceiling), "b": Right(25), "c": Right(0)}
        play = Play(nodes, quotas(rights, *pool_totals(nodes)))
        play.waiting = [replace(job, priority=0, most=job.seconds, preemptible=False) for job in first]
        play.step()
        play.policy, play.waiting = Policy(depth=depth), [mine]
        play.waiting += [replace(job, vc="a", priority=0, most=job.seconds, seconds=3 * job.seconds) for job in behind]
        for _ in range(40):
            while any(turn.victims for turn in play.step(5)):
                play.now -= timedelta(seconds=5)
            if any(one.lapses for one in play.idlings.values()):
                return
        moments.append(play.started.get(mine.id))
    assert moments[0] == moments[1] or (moments[0] and (not moments[1] or moments[0] < moments[1]))
