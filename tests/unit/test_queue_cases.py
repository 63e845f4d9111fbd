"""Whose turn it is, who waits and who has to go: named cases of each policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from clusters.placement.free import FreeNodes
from clusters.placement.shares import Hold, Quota, Right, pool_totals, quotas
from jobs.planning.queue.lengths import Lengths, LikeJobs
from jobs.planning.queue.lines import VcQueue
from jobs.planning.queue.reservations import _Spot, nearest
from jobs.planning.queue.scene import Resting, displaced_by, rests_after
from jobs.planning.turns import Move, Turn, _Round, turns
from tests.unit.queue_model import NOW, Play, Played, node, shape

HALVES = {"a": Right(50), "b": Right(50)}


def job(id: int, vc: str = "a", gpus: int = 1, tasks: int = 1, **values: object) -> Played:
    named = {"username": "u", "name": f"j{id}", "since": f"{id:04}", "shape": shape(tasks, gpus), **values}
    return Played(id=id, vc=vc, **named)  # type: ignore[arg-type]


def play(*gpus: str, rights: dict[str, Right] = HALVES, running: tuple[Played, ...] = ()) -> Play:
    """On nodes with these GPUs, with jobs that came one after the other and run."""
    nodes = [node(f"n{at}", each) for at, each in enumerate(gpus)]
    made = Play(nodes, quotas(rights, *pool_totals(nodes)))
    for each in running:
        made.waiting = [each]
        made.step(1)
        assert each.id in made.running
    return made


def starts(made: Play, *waiting: Played) -> list[int]:
    made.waiting = list(waiting)
    return [turn.job.id for turn in made.turns() if turn.move is Move.GO]


def victims(made: Play, *waiting: Played) -> list[int]:
    made.waiting = list(waiting)
    return [one.job.id for turn in made.turns() for one in turn.victims]


ORDER = {
    "by priority, then by age": ([job(1), job(2, priority=1), job(3, priority=1)], [2, 3, 1]),
    "an admin moved it": ([job(1), job(2, since="0000")], [2, 1]),
    "the smallest share is next, and shares grow": ([job(1), job(2), job(3, "b"), job(4, "b")], [1, 3, 2, 4]),
    "those within their guarantee come before those that borrow": ([job(1, gpus=3), job(2, "b", 2)], [2]),
}


@pytest.mark.parametrize("case", ORDER)
def test_the_order(case: str) -> None:
    waiting, expected = ORDER[case]
    assert starts(play("AAAA"), *waiting[::-1]) == expected


PASSES = {
    "a ceiling lets those pass that do not need what is short": (
        {"a": Right(50, 50)}, [job(1, gpus=2), job(2), job(3, gpus=0)], [1, 3],
    ),
    "behind one at its ceiling small ones wait": ({"a": Right(50, 50)}, [job(1), job(2, gpus=2), job(3)], [1]),
    "one that no ceiling would ever allow lets all pass": ({"a": Right(50, 50)}, [job(1, gpus=3), job(2)], [2]),
    "a cap lets the next user pass": (
        {"a": Right(100, user_jobs=1)}, [job(1), job(2), job(3, username="v")], [1, 3],
    ),
    "a cap of GPUs lets those without GPUs pass": (
        {"a": Right(100, user_gpus=1)}, [job(1), job(2), job(3, gpus=0)], [1, 3],
    ),
    "a stopped virtual cluster": ({"a": Right(50, stopped=True), "b": Right(50)}, [job(1), job(2, "b")], [2]),
}  # fmt: skip


@pytest.mark.parametrize("case", PASSES)
def test_who_passes(case: str) -> None:
    rights, waiting, expected = PASSES[case]
    assert starts(play("AAAA", rights=rights), *waiting) == expected


def test_a_cap_counts_the_jobs_of_its_own_virtual_cluster_alone() -> None:
    rights = {"a": Right(50, user_jobs=1), "b": Right(50)}
    assert starts(play("AAAA", rights=rights, running=(job(1, "b"),)), job(2)) == [2]
    assert starts(play("AAAA", rights=rights, running=(job(1, "a"),)), job(2)) == []


RECLAIMED = {
    "the youngest borrower": ((job(1, "b", 2), job(2, "b", 1), job(3, "b", 1)), job(9, gpus=1), [3]),
    "as few as are needed": ((job(1, "b", 1), job(2, "b", 2), job(3, "b", 1)), job(9, gpus=2), [2]),
    "one of lower priority first": ((job(1, "b", 2), job(2, "b", 1, priority=-1), job(3, "b", 1)), job(9), [2]),
    "nobody for a job that borrows itself": ((job(1, "b", 4),), job(9, gpus=3), []),
    "nobody who is within": ((job(1, "b", 2), job(2, "a", 2)), job(9, "b", gpus=1), []),
    "a guest before a borrower": ((job(1, "b", 3), job(2, "b", 1, is_guest=True)), job(9), [2]),
}


@pytest.mark.parametrize("case", RECLAIMED)
def test_who_has_to_go(case: str) -> None:
    running, waiting, expected = RECLAIMED[case]
    made = play("AAAA", running=tuple(replace(each, is_guest=False) for each in running))
    guests = {each.id for each in running if each.is_guest}
    made.running = {id: (replace(one, is_guest=id in guests), places) for id, (one, places) in made.running.items()}
    assert sorted(victims(made, waiting)) == expected


def evictions(made: Play, *waiting: Played, passes: int = 8) -> list[int]:
    made.waiting = list(waiting)
    return [one.job.id for _ in range(passes) for turn in made.step(1) for one in turn.victims]


def two_types(first: str, *running: Played) -> Play:
    """A node with GPUs of type A, and one with five of type B and a single core."""
    nodes = [node("n0", first), node("n1", "BBBBB", cpus=1)]
    made = Play(nodes, quotas(HALVES, *pool_totals(nodes)))
    for each in running:
        made.waiting = [replace(each, seconds=10_000)]
        made.step(1)
    return made


def test_who_leaves_as_it_has_too_many_of_one_type_does_not_come_back_first() -> None:
    made = two_types("AA", job(1, shape=shape(kind="B")), job(2, "b", 2))
    assert evictions(made, job(9, shape=shape(kind="A"), seconds=10_000)) == [2], "it asked for any type, and has all A"
    assert 9 in made.running


def test_nobody_is_evicted_for_one_that_would_have_too_many_of_one_type_itself() -> None:
    made = two_types("AAA", job(1, shape=shape(kind="B")), job(2, shape=shape(kind="A")), job(3, "b", 2))
    assert evictions(made, job(9, seconds=10_000)) == []


def test_the_one_that_others_leave_for_keeps_its_right_until_they_have_left() -> None:
    made = play("AAA", "A", running=(job(1, "b", 3, username="v", seconds=10_000),))
    assert evictions(made, job(8, gpus=2, seconds=10_000), job(9, seconds=10_000)) == [1]
    assert {8, 9} <= set(made.running), "the second one fitted at once, but with it their virtual cluster borrows"


def dedicated(made: Play, name: str, vc: str) -> Play:
    """As if the node had been dedicated to the virtual cluster just now; the guarantees stay."""
    made.nodes = [replace(one, dedicated_to=vc) if one.name == name else one for one in made.nodes]
    return made


def test_a_virtual_cluster_takes_back_its_own_node_before_anybody_borrows_less() -> None:
    made = play("AA", "AA", running=(job(1, "b", 2, shape=shape(gpus=2)), job(2, "b", 2)))
    assert victims(dedicated(made, "n0", "a"), job(9, gpus=2)) == [1], "2 is younger, and borrows"


def test_who_is_within_leaves_a_node_that_serves_another_virtual_cluster_by_now() -> None:
    rights = {"a": Right(100), "b": Right(50)}
    made = dedicated(play("AA", "AA", rights=rights, running=(job(1, "b", 2, seconds=10_000),)), "n0", "a")
    assert evictions(made, job(8, gpus=2, seconds=10_000), job(9, gpus=2, seconds=10_000)) == [1]
    assert set(made.running) == {8, 9}


def test_a_borrower_leaves_where_the_job_on_the_own_node_holds_nothing_that_is_needed() -> None:
    made = play("A", "BB", rights=HALVES, running=(job(1, "b", shape=shape(kind="A")), job(2, "b", 2)))
    assert victims(dedicated(made, "n0", "a"), job(9, shape=shape(kind="B"))) == [2]


def test_no_room_is_kept_of_a_type_of_gpus_that_the_ceiling_forbids() -> None:
    rights = {"a": Right(50), "b": Right(50)}
    made = play("AA", "BBB", rights=rights, running=(job(1, "b", 2, most=10), job(2, "b", 3, most=100)))
    made.quotas = {**made.quotas, "a": replace(made.quotas["a"], ceiling={"gpu": 5, "gpu:A": 0, "gpu:B": 3})}
    made.quotas = {**made.quotas, "b": replace(made.quotas["b"], guarantee={"gpu": 5, "cpu": 16, "memory": 16000})}
    made.waiting = [job(9)]
    [turn] = made.turns()
    assert turn.reservation is not None and turn.reservation.names == ["n1"], "n0 is free sooner"
    made.quotas = {**made.quotas, "a": replace(made.quotas["a"], ceiling={"gpu": 5, "gpu:A": 0, "gpu:B": 0})}
    [turn] = made.turns()
    assert (turn.reservation, turn.ceiling) == (None, ["gpu:A"])


def test_of_nodes_that_are_as_near_a_job_that_names_no_type_waits_for_the_least_wanted() -> None:
    made = play("AAAA", "BBBB", running=(job(1, shape=shape(1, 4, kind="A")), job(2, gpus=4)))
    made.waiting = [job(9, gpus=4)]
    [turn] = made.turns()
    assert turn.reservation is not None and turn.reservation.names == ["n1"]


def test_nobody_becomes_immune_by_evictions() -> None:
    made = play("AAAA", running=(job(1, "b", 2), job(2, "b", 2)))
    young, places = made.running[2]
    made.running[2] = replace(young, evictions=40), places
    assert victims(made, job(9, gpus=2)) == [2]


@pytest.mark.parametrize(("seconds", "gpus", "expected"), [(599, 3, [10]), (600, 3, [9]), (0, 2, [9])])
def test_who_was_evicted_rests_before_they_borrow_again(seconds: int, gpus: int, expected: list[int]) -> None:
    made = play("AAAA")
    made.now += timedelta(seconds=seconds)
    made.rests = {"u": Resting(1, NOW, NOW)}
    assert starts(made, job(9, gpus=gpus), job(10, gpus=4, username="v")) == expected, "others do not wait"


def test_a_job_that_rests_says_until_when() -> None:
    made = play("AAAA")
    made.rests = {"u": Resting(2, NOW, NOW, "o/owner")}
    made.waiting = [job(9, gpus=3)]
    [turn] = made.turns()
    [why] = turn.blockers
    assert (why.kind, why.until) == ("delay", "2026-11-20T12:20:00+00:00")
    said = (
        "Jobs of u left borrowed room for {}: they borrow again in 20 min, at 12:20:00 (UTC), each time after twice as "
        "long. Within the guarantee of their virtual cluster they start before that."
    )
    assert (why.sentence, why.owners) == (said.format("o/owner"), ("o",))
    assert why.otherwise == said.format("another job"), "for who may not know whose"


def test_who_makes_room_for_a_job_that_is_about_to_start_says_so() -> None:
    made = play("AAAA", "AA", running=(job(1, "b", 4, username="u"),))
    made.waiting = [job(9, "a", 2, since="0", shape=shape(1, 3)), job(10, "b", 2, username="u")]
    turns_made = {turn.job.id: turn for turn in made.turns()}
    assert [victim.job.id for victim in turns_made[9].victims] == [1]
    [why] = [each for each in turns_made[10].blockers if each.kind == "delay"]
    assert (why.until, why.owners) == ("", (turns_made[9].job.username,))
    assert why.sentence == (
        f"Jobs of u leave borrowed room for {turns_made[9].job.title}, and borrow nothing before that has started. "
        "Within the guarantee of their virtual cluster they start before that."
    )


def after_evictions(*evicted: tuple[float, float]) -> list[tuple[int, float]]:
    """How many count, and for how long the user rests, after evictions at these hours of jobs that started at those."""
    rests, told = dict[str, Resting](), []
    for at, began in evicted:
        now = NOW + timedelta(hours=at)
        rests = dict(rests_after(rests, displaced_by({}, [("u", NOW + timedelta(hours=began))]), "o/j", now))
        told.append((rests["u"].evictions, (rests["u"].until - now) / timedelta(minutes=1)))
    return told


def test_those_that_leave_for_one_owner_count_once() -> None:
    assert after_evictions((1, 0), (1, 0.5), (1.1, 0.9), (1.2, 0)) == [(1, 10)] * 4


def test_one_that_started_after_the_last_counts_also_when_an_older_one_goes_before_it() -> None:
    assert after_evictions((1, 0), (2, 0), (2.1, 1.5), (2.2, 1.6)) == [(1, 10), (1, 10), (2, 20), (2, 20)]


def test_a_rest_is_half_a_day_at_most_and_each_quiet_day_takes_an_eviction_off() -> None:
    often = [(13.0 * at, 13.0 * at) for at in range(12)]
    assert after_evictions(*often)[5:] == [(6, 320), (7, 640), *[(8, 720)] * 5]
    last = often[-1][0]
    assert after_evictions(*often, (last + 49, last))[-1] == (7, 640)
    assert after_evictions(*often, (last + 24 * 8, 0))[-1] == (1, 10)


def test_among_borrowers_those_go_that_lose_the_least_work() -> None:
    large, small = job(1, "b", 2, seconds=10_000), job(2, "b", 2, seconds=10_000)
    made = play("AAAA", rights={"a": Right(50)}, running=(large, small))
    made.now += timedelta(seconds=60)
    assert victims(made, job(9, gpus=2)) == [2], "it is younger"
    old, places = made.running[1]
    made.running[1] = replace(old, saved_at=made.now), places
    assert victims(made, job(9, gpus=2)) == [1], "it has just saved"


def test_a_plan_that_evicts_already_waits_for_it() -> None:
    made = play("AAAA", running=(job(1, "b", 2), job(2, "b", 2)))
    ended, places = made.running[2]
    made.running[2] = replace(ended, stopping=True), places
    made.waiting = [job(9, gpus=2)]
    [turn] = made.turns()
    assert (turn.awaits, list(turn.victims)) == (True, [])
    assert [blocker.kind for blocker in turn.blockers] == ["evicting", "gpus"]


GUESTS = {
    "preemptible": (job(9, preemptible=True), True),
    "preemptible, but evicted twice": (job(9, preemptible=True, guest_evictions=2), False),
    "ends before the room comes": (job(9, most=50), True),
    "ends after the room comes": (job(9, most=100), False),
    "nobody knows when it ends": (job(9), False),
}


@pytest.mark.parametrize("case", GUESTS)
def test_who_may_be_a_guest(case: str) -> None:
    guest, expected = GUESTS[case]
    made = play("AAAA", rights={"a": Right(100)}, running=(job(1, gpus=3, most=60, seconds=60),))
    made.waiting = [job(2, gpus=4), guest]
    assert [(turn.move, turn.is_guest) for turn in made.turns()][1][1] is expected


LIKELY = {  # seconds that jobs of the like ran, of the one that runs (for 20 s by now) and of the guest
    "as long as those ran, it leaves before": (100.0, 50.0, True),
    "those ran longer than what it waits for": (60.0, 50.0, False),
    "nothing ran as long as the other has: it goes on as long again": (10.0, 15.0, True),
}


@pytest.mark.parametrize("case", LIKELY)
def test_who_likely_leaves_in_time_may_be_a_guest(case: str) -> None:
    runs, guest, expected = LIKELY[case]
    made = play("AAAA", rights={"a": Right(100)}, running=(job(1, gpus=3),))
    made.running = {id: (replace(one, username="x", name="long"), places) for id, (one, places) in made.running.items()}
    long, short = LikeJobs("x", "long", 3, "a"), LikeJobs("y", "short", 1, "a")
    made.lengths = Lengths([(long, runs)] * 50 + [(short, guest)] * 50)
    made.now += timedelta(seconds=20)
    made.waiting = [job(2, gpus=4), replace(job(9), username="y", name="short")]
    assert [turn.is_guest for turn in made.turns()] == [False, expected]


@pytest.mark.parametrize(("first", "second", "expected"), [(600, 60, True), (60, 600, False)])
def test_a_guest_has_to_leave_before_those_only_whose_room_it_takes(first: int, second: int, expected: bool) -> None:
    made = play("AAAA", "AAAA", running=(job(1, gpus=2, most=first), job(2, "b", 3, most=second)))
    made.waiting = [job(3, gpus=4), job(4, "b", 4), job(9, "b", 2, most=300)]
    guest = next(turn for turn in made.turns() if turn.job.id == 9)
    assert guest.is_guest is expected


def test_no_guest_takes_the_room_for_which_another_one_leaves() -> None:
    made = play("AAAA", rights={"a": Right(100)}, running=(job(1, gpus=3, seconds=60),))
    made.waiting = [job(2, gpus=4), job(9, preemptible=True)]
    made.step()
    made.waiting.append(job(10, preemptible=True))
    made.step(60)
    made.step()
    assert list(made.running) == [2]


def test_a_guest_that_is_ahead_is_not_evicted_for_one_behind() -> None:
    made = play("AAAA", rights={"a": Right(100)}, running=(job(1, gpus=1), job(2, gpus=3)))
    made.running = {id: (replace(one, is_guest=id == 1), places) for id, (one, places) in made.running.items()}
    del made.running[2]
    assert victims(made, job(9, gpus=4)) == []


def test_a_guest_within_its_guarantee_is_not_evicted_for_a_job_that_borrows() -> None:
    """It would have its turn before that one again."""
    made = play("AAAA", running=(job(1, "a", 2), job(2, "b", 1)))
    made.running = {id: (replace(one, is_guest=id == 2), places) for id, (one, places) in made.running.items()}
    assert victims(made, job(9, "a", 2)) == []
    assert victims(made, job(9, "b", 2)) == [], "it is ahead there too"


def test_a_job_that_cannot_start_does_not_hide_the_right_of_those_behind_it() -> None:
    made = play("AAAA", rights={"b": Right(25), "c": Right(75)}, running=(job(1, "b", 4),))
    made.waiting = [job(2, "c", 8), job(3, "c", 2)]
    assert [[one.job.id for one in turn.victims] for turn in made.step()] == [[], [1]]
    assert [turn.job.id for turn in made.step() if turn.move is Move.GO] == [3]
    assert not any(turn.victims for turn in made.step())


def test_nobody_is_evicted_for_places_above_a_ceiling() -> None:
    rights = {"a": Right(50, 50), "b": Right(0)}
    made = play("AA", "AA", "BBBB", rights=rights, running=(job(1, "b", 4),))
    assert victims(made, job(9, "a", 4)) == []


def crowded(*vcs: str, reservations: int) -> Play:
    """Each virtual cluster runs a job on a node of its own and waits for four GPUs; on the last node two are free."""
    running = tuple(job(at, each, 3) for at, each in enumerate(vcs, 1))
    rights = {name: Right(100 // len(vcs)) for name in vcs}
    made = play(*("AAAA" for _ in vcs), "AA", rights=rights, running=running)
    made.policy = replace(made.policy, reservations=reservations)
    made.waiting = [job(10 + at, each, 4) for at, each in enumerate(vcs)]
    return made


def test_only_so_many_get_a_reservation_and_the_others_start_what_fits_beside_them() -> None:
    made = crowded(*"abcde", reservations=2)
    made.waiting += [job(20 + at, each, 1) for at, each in enumerate("abcde")]
    found = made.turns()
    kept = [name for turn in found if turn.reservation is not None for name in turn.reservation.names]
    assert len(kept) == 2
    went = {turn.job.id: turn.placements[0].node for turn in found if turn.move is Move.GO}
    assert went.keys() == {20, 21, 22, 23, 24} and not set(went.values()) & set(kept)


@pytest.mark.parametrize(
    ("since", "expected"),
    {
        "0012": "others start on what is kept for nobody.",
        "0000": "nothing starts before it, as no job has waited longer.",
    }.items(),
)
def test_behind_a_job_without_a_reservation_others_wait_once_it_has_waited_longest(since: str, expected: str) -> None:
    """Its virtual cluster comes to use less than the others then, and its turn is before theirs."""
    made = crowded(*"abc", reservations=2)
    made.quotas = {**made.quotas, "c": replace(made.quotas["c"], guarantee={"gpu": 1, "cpu": 1, "memory": 1})}
    made.waiting = [replace(one, since=since) if one.vc == "c" else one for one in made.waiting]
    made.waiting += [job(20, "c", gpus=2), job(21, "c", gpus=2)]
    found = {turn.job.id: turn for turn in made.turns()}
    assert found[12].reservation is None
    assert (found[20].move is Move.GO) == (since == "0012")
    blocker = next(each for each in found[21].blockers if each.kind == "queue")
    assert blocker.sentence == (
        f"2 jobs are ahead of it in VC c; no room can be kept for u/j12 yet, since room is kept for others, and "
        f"{expected}"
    )


NEAREST = {
    "the node that lacks least": ((3, 1), shape(gpus=4), ("n1",)),
    "a gang together where it fits": ((0, 4), shape(2, 2), ("n0", "n0")),
    "a gang apart where that is nearer": ((2, 2), shape(2, 2), ("n0", "n1")),
    "by name where they are alike": ((2, 2), shape(gpus=4), ("n0",)),
    "no node is large enough": ((0, 0), shape(gpus=5), None),
    "for each role anew": ([0, 2, 1], (*shape(1, 4), *shape(1, 1)), ("n0", "n1")),
}


@pytest.mark.parametrize("case", NEAREST)
def test_where_the_least_is_still_to_wait_for(case: str) -> None:
    used, demands, expected = NEAREST[case]
    nodes = [node(f"n{at}", used_gpus=frozenset(str(gpu) for gpu in range(taken))) for at, taken in enumerate(used)]
    found = nearest(demands, "a", FreeNodes(nodes), nodes, [], {}, NOW)
    assert (found and found[0]) == expected


def test_where_the_room_comes_first_as_far_as_jobs_say_when_they_end() -> None:
    made = play("AAAA", "AAAA", rights={"a": Right(100)}, running=(job(1, gpus=4, most=90), job(2, gpus=4, most=30)))
    made.waiting = [job(3, gpus=4)]
    [turn] = made.turns()
    assert turn.reservation is not None
    assert (turn.reservation.names, turn.reservation.moment) == (["n1"], made.now + timedelta(seconds=30))


def test_a_job_that_leaves_the_type_open_takes_the_one_of_which_its_virtual_cluster_has_not_enough_yet() -> None:
    """On the type that the tightest node has it would borrow, and come behind the job that was evicted for it."""
    two = job(1, gpus=2, shape=shape(kind="B", gpus=2))
    made = play("BBB", "AAAA", rights=HALVES, running=(two,))
    made.waiting = [job(2, "b", 4), job(3, "a", 1)]
    assert [(turn.job.id, [place.node for place in turn.placements]) for turn in made.turns() if turn.placements] == [
        (3, ["n1"])
    ]


def test_of_many_nodes_only_those_are_looked_at_closely_that_may_be_the_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks: list[str] = []
    rank = _Spot.rank
    monkeypatch.setattr(_Spot, "rank", lambda spot, demand: ranks.append(spot.node.name) or rank(spot, demand))
    full = [node(f"n{at:03}", used_gpus=frozenset("0123")) for at in range(200)]
    ends = {
        each.name: [(NOW + timedelta(minutes=500 - at), Hold("a", each.name, 1, 100, ("0", "1", "2", "3"), ()))]
        for at, each in enumerate(full)
    }
    found = nearest(shape(2, 4), "a", FreeNodes(full), full, [], ends, NOW)
    assert found == (("n199", "n198"), NOW + timedelta(minutes=302))
    assert len(ranks) < 10


def test_limits_are_asked_once_for_many_jobs_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    limited = _Round._limited

    def noted(self: _Round[Played], line: VcQueue[Played], one: Played) -> Turn[Played] | None:
        if line.is_limited(one) is None:
            asked.append(one.id)
        return limited(self, line, one)

    monkeypatch.setattr(_Round, "_limited", noted)
    made = play("AAAA", running=(job(1, gpus=2), job(2, "b", gpus=2)))
    made.quotas = {**made.quotas, "a": replace(made.quotas["a"], user_gpus=2), "b": Quota({"gpu": 2}, {"gpu": 4})}
    one = shape(gpus=1)
    made.waiting = [
        *(job(at, shape=one) for at in range(10, 200)),
        *(job(at, "b", shape=one) for at in range(200, 400)),
    ]
    assert [turn.job.id for turn in turns(made.waiting, made.scene(), only_tried=True) if turn.move is Move.GO] == []
    assert len(asked) < 10


def test_one_that_waits_for_its_ceiling_and_that_no_node_holds_is_not_told_that_owners_are_in_its_way() -> None:
    made = play("AAAA", rights={"a": Right(100), "b": Right(0, 25)})
    made.waiting = [job(1, "b", seconds=10_000, preemptible=True)]
    made.step(1)
    running, places = made.running[1]
    made.running[1] = replace(running, is_guest=True), places
    made.waiting = [job(2, "a", 3, seconds=10_000)]
    made.step(1)
    made.waiting = [job(9, "b", since="0000", shape=shape(kind="B"))]
    [turn] = made.turns()
    assert {blocker.kind for blocker in turn.blockers} == {"ceiling", "never"}


def test_who_starts_beside_what_is_kept_leaves_it_its_part_of_the_ceiling() -> None:
    """Of three GPUs at most, where the job for which they are kept on the other node asks for all."""
    nodes = [node("n0", "AA"), node("n1", "AAAA")]
    made = Play(nodes, quotas({"a": Right(25, gpu_ceiling=3), "b": Right(25)}, *pool_totals(nodes)))
    made.waiting = [job(1, "b", 4, seconds=10, most=10)]
    made.step()
    made.waiting = [job(2, gpus=3), job(3), job(4, most=5, seconds=5), job(5, gpus=0)]
    found = {turn.job.id: turn for turn in made.turns()}
    assert [id for id, turn in found.items() if turn.move is Move.GO] == [4, 5] and found[4].is_guest
    assert found[3].blockers[0].sentence.startswith("VC a may use 3 GPUs at most; it uses 1 GPU, and this job asks")
    assert "u/j2 is ahead of it there" in found[3].blockers[0].sentence
