"""In a virtual cluster the user comes first who holds, and lately used, the least of it."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.shares import Right, pool_totals, quotas
from jobs.planning.queue.lines import Queue
from jobs.planning.queue.scene import OVERDUE, since_text
from jobs.planning.queue.users.shares import UserShares
from jobs.planning.queue.users.used_lately import UsedLately, after_use, counts
from jobs.planning.queue.users.waiting_lines import UserLines, WaitingLines
from jobs.planning.turns import Move, Turn, turns, turns_in
from tests.helpers import in_gate
from tests.unit.queue_model import NOW, Play, Played, node, shape

DAY = 86_400


def job(id: int, username: str, gpus: int = 1, tasks: int = 1, **values: object) -> Played:
    named = {"vc": "a", "name": f"j{id}", "since": f"{id:06}", "shape": shape(tasks, gpus, 0), "seconds": 600, **values}
    return Played(id=id, username=username, **named)  # type: ignore[arg-type]


def play(*gpus: int, **right: object) -> Play:
    nodes = [node(f"n{at}", "A" * each) for at, each in enumerate(gpus)]
    return Play(nodes, quotas({"a": Right(100, **right)}, *pool_totals(nodes)))  # type: ignore[arg-type]


def starts(made: Play, *waiting: Played) -> list[int]:
    made.waiting = list(waiting)
    return [turn.job.id for turn in made.turns() if turn.move is Move.GO]


def many(username: str, number: int, first: int, **values: object) -> list[Played]:
    return [job(first + at, username, **values) for at in range(number)]  # type: ignore[arg-type]


def ran(made: Play, seconds: int, step: int = 60) -> Counter[str]:
    """GPU-seconds that each user gets meanwhile."""
    got = Counter[str]()
    for _ in range(seconds // step):
        made.step(step)
        for one, places in made.running.values():
            got[one.username] += step * sum(len(place.gpu_ids) for place in places)
    return got


def test_one_job_does_not_wait_behind_400_of_another_user() -> None:
    made = play(4)
    made.waiting = [*many("ann", 400, 1), job(999, "ben")]
    began = [turn.job.id for turn in made.step() if turn.move is Move.GO]
    assert began == [1, 999, 2, 3]


def test_where_room_comes_free_those_who_hold_less_are_next() -> None:
    made = play(4)
    made.waiting = many("ann", 400, 1)
    made.step()
    made.waiting.append(job(999, "ben"))
    made.step(600)
    assert 999 in made.running


def test_two_users_alternate_whatever_comes_first() -> None:
    assert starts(play(6), *many("ann", 400, 1), *many("ben", 400, 500)) == [1, 500, 2, 501, 3, 502]


def test_a_gang_counts_for_all_that_it_holds() -> None:
    waiting = [job(1, "ann", 2, 2), job(2, "ann", 2, 2), *many("ben", 8, 10)]
    assert starts(play(4, 4), *waiting) == [1, 10, 11, 12, 13]


def test_priority_comes_before_the_share() -> None:
    waiting = [*many("ann", 4, 1, priority=1), *many("ben", 4, 10)]
    assert starts(play(2), *waiting) == [1, 2]


def test_what_counts_is_the_resource_that_a_user_takes_most_of() -> None:
    made = play(8)
    made.waiting = [job(1, "ann", 0, shape=shape(1, 0, 6)), job(2, "ben", 2)]
    made.step()
    assert starts(made, job(3, "ann"), job(4, "ben")) == [4, 3]


def test_who_worked_all_night_comes_after_who_did_not() -> None:
    made = play(4)
    made.waiting = many("night", 60, 1, seconds=3600)
    ran(made, 12 * 3600, 600)
    assert made.waiting, "it had enough for the whole night"
    made.waiting = [*many("night", 8, 500), *many("day", 8, 600)]
    made.step(3600)
    assert Counter(one.username for one, _ in made.running.values()) == {"day": 3, "night": 1}


def test_what_was_used_is_forgotten_by_half_in_each_half_life() -> None:
    used = after_use(None, [({"gpu": 8.0}, 30 * DAY)], NOW, 24)
    assert used.gpu == pytest.approx(8)
    for days, expected in ((0, 1.0), (1, 0.5), (2, 0.25), (400, 0.0)):
        shares = UserShares({"gpu": 8.0})
        shares.add_all((), {("ann", "a"): used, ("ben", "b"): used}, "a", NOW + timedelta(days=days), 24)
        assert shares.of == {"ann": pytest.approx(expected, abs=1e-6)}


def test_without_a_half_life_only_what_is_held_counts() -> None:
    past = {("ann", "a"): UsedLately(8, 8, 8, NOW)}
    for hours, expected in ((0, [1, 2]), (24, [2, 1])):
        made = play(4, share_half_life=hours)
        made.past = dict(past)
        assert starts(made, job(1, "ann"), job(2, "ben")) == expected
    assert after_use(None, [({"gpu": 8.0}, DAY)], NOW, 0) == UsedLately(0, 0, 0, NOW)


def test_splitting_stopping_and_repeating_adds_up_to_the_same() -> None:
    """100 s of 4 GPUs at once; as four jobs; and with a stop in the middle."""
    end = NOW + timedelta(seconds=100)
    whole = after_use(None, [({"gpu": 4.0}, 100)], end, 24)
    split = after_use(None, [({"gpu": 1.0}, 100)] * 4, end, 24)
    half = after_use(None, [({"gpu": 4.0}, 50)], NOW + timedelta(seconds=50), 24)
    again = after_use(half, [({"gpu": 4.0}, 50)], end, 24)
    assert split.gpu == pytest.approx(whole.gpu) and again.gpu == pytest.approx(whole.gpu)


def test_what_still_runs_counts_as_if_it_had_just_ended() -> None:
    made = play(8)
    made.waiting = [job(1, "ann", 4, seconds=DAY)]
    made.step()
    made.now += timedelta(seconds=DAY // 2)
    still = UserShares({"gpu": 8.0})
    still.add_all(made.scene().running(), {}, "a", made.now, 24)
    made.leave(made.running[1][0])
    ended = UserShares({"gpu": 8.0})
    ended.add_all((), made.past, "a", made.now, 24)
    assert still.of["ann"] == pytest.approx(0.5 + ended.of["ann"])
    assert ended.of["ann"] == pytest.approx(0.5 * (1 - counts(DAY / 2, 24)))


HOURS = 2 if in_gate() else 6
ENOUGH = 66 * HOURS  # jobs of each: half of the GPUs are busy with them, also where they are short
LOADS = {
    "many small jobs": {"ann": many("ann", ENOUGH, 1), "ben": many("ben", ENOUGH, 2000)},
    "one has gangs": {"ann": many("ann", ENOUGH, 1), "ben": many("ben", ENOUGH, 2000, gpus=2, tasks=2)},
    "one has a sweep of short ones": {"ann": many("ann", ENOUGH, 1, seconds=240), "ben": many("ben", ENOUGH, 2000)},
    "one has long ones": {"ann": many("ann", ENOUGH, 1), "ben": many("ben", ENOUGH, 2000, seconds=3600)},
}


@pytest.mark.parametrize("case", LOADS)
def test_whatever_jobs_two_users_have_each_gets_about_half(case: str) -> None:
    made = play(4, 4)
    made.waiting = [one for jobs in LOADS[case].values() for one in jobs]
    got = ran(made, HOURS * 3600, 120)
    assert {one.username for one in made.waiting} == {"ann", "ben"}, "neither ran out of them"
    assert got["ann"] == pytest.approx(got["ben"], rel=0.15)


def test_a_user_who_stops_and_submits_again_gains_nothing() -> None:
    made = play(4)
    made.waiting = [*many("ann", 150, 1), *many("ben", 40, 2000)]
    got = Counter[str]()
    for at in range(60):
        made.step(60)
        for one in [one for one, _ in made.running.values() if one.username == "ann"]:
            made.leave(one)
            made.waiting.append(replace(one, id=10_000 * (at + 1) + one.id, since=f"9{at:05}", started_at=None))
        made.step()
        for one, _ in made.running.values():
            got[one.username] += 60
    assert got["ann"] <= 1.1 * got["ben"]


def test_the_first_without_room_keeps_its_turn() -> None:
    """However many users with smaller shares come with small jobs meanwhile."""
    made = play(4)
    made.waiting = [*many("ann", 3, 1, seconds=100), job(4, "ann", 4)]
    made.step()
    assert [one.id for one in made.waiting if one.keeps_turn] == [4]
    for at in range(30):
        made.waiting += [job(100 + at, f"u{at}", seconds=90)]
        made.step(20)
        if 4 in made.started:
            break
    assert made.started[4] <= NOW + timedelta(seconds=120)


def test_an_evicted_job_keeps_its_age() -> None:
    made = play(2)
    made.waiting = [job(1, "ann"), job(2, "ben")]
    made.step()
    for one in [one for one, _ in made.running.values()]:
        made.evict(one)
    made.waiting.append(job(3, "ann"))
    assert starts(made, *made.waiting) == [1, 2]


def test_an_admin_moves_a_job_before_one_of_another_user() -> None:
    made = play(1)
    made.past = {("ann", "a"): UsedLately(8, 8, 8, NOW)}
    moved = job(1, "ann", since="000001", place_of="ben")
    assert starts(made, moved, job(2, "ben")) == [1]


def test_places_are_told_as_they_will_be() -> None:
    """Nothing fits yet: the jobs of two users are told in turn, though only one of them has a reservation."""
    made = play(2)
    made.waiting = [job(1, "cay", 2)]
    made.step()
    made.waiting = [*many("ann", 3, 10), *many("ben", 2, 20)]
    turns_ = {turn.job.id: turn for turn in made.turns()}
    assert [id for id, _ in sorted(turns_.items(), key=lambda each: each[1].position)] == [10, 20, 11, 21, 12]
    says = next(blocker.sentence for blocker in turns_[11].blockers if blocker.kind == "queue")
    assert says.endswith("One of them came later: its user has used less of VC a lately, with what they hold.")
    says = next(blocker.sentence for blocker in turns_[20].blockers if blocker.kind == "queue")
    assert "came later" not in says


def test_a_pass_over_very_many_jobs_of_many_users_looks_at_each_once() -> None:
    """10,000 jobs of 100 users: nothing is sorted anew where one is placed."""
    shares = UserShares({"gpu": 100.0})
    waiting = [job(at, f"u{at % 100}") for at in range(10_000)]
    lines = UserLines(WaitingLines(waiting).of_vc["a"], shares)
    looks = Counter[str]()

    class Counted(dict[str, float]):
        def __getitem__(self, key: str) -> float:
            looks["asked"] += 1
            return super().__getitem__(key)

    shares.of = Counted(shares.of)
    for number, one in enumerate(lines):
        if number % 20 == 0:
            shares.add(one.username, {"gpu": 1})
    assert number == 9_999 and looks["asked"] <= 10_000 + 2 * 500


def test_turns_of_many_users_take_their_depth_in_shapes() -> None:
    made = play(2)
    made.waiting = [job(0, "u0", 2)]
    made.step()
    waiting = [job(at, f"u{at % 100}", 2) for at in range(1, 5_001)]
    found: list[Turn[Played]] = list(turns(waiting, made.scene(), only_tried=True))
    assert [(turn.job.id, turn.move) for turn in found] == [(1, Move.RESERVE)]


def calls(users: int, number: int = 10_000) -> int:
    """The calls of a round of turns over so many waiting jobs, of which some start."""
    made = play(*[8] * 20)
    made.waiting = [job(100_000 + at, f"u{at % users}", 8) for at in range(18)]
    made.step()
    shapes = [shape(1, gpus, 0) for gpus in (1, 2, 4, 8)]
    waiting = [job(at, f"u{at % users}", shape=shapes[at % 4]) for at in range(number)]
    kept = WaitingLines(waiting)
    list(turns_in(Queue(waiting, made.scene(), kept), only_tried=True))
    profile = cProfile.Profile()
    profile.runcall(lambda: list(turns_in(Queue(waiting, made.scene(), kept), only_tried=True)))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_a_hundred_users_cost_little_more_than_one() -> None:
    assert calls(100) < 1.25 * calls(1) + 100 * 4 * 25, "and each of their lines a look at its four kinds"


def test_ten_times_as_many_jobs_of_the_same_kinds_cost_little_more() -> None:
    assert calls(10) < 1.5 * calls(10, 1_000)


QUESTIONS: list[Callable[[Played], bool]] = [
    lambda job: job.demands[0].gpus == 1,
    lambda job: job.most_seconds is None,
    lambda job: job.guest_evictions == 0,
    lambda job: not job.is_preemptible,
]


@given(chance=st.randoms(use_true_random=False), steps=st.integers(2, 6))
def test_lines_that_are_kept_are_those_made_anew(chance: Random, steps: int) -> None:
    """Jobs come, go, are moved, and are asked to stop, between one pass and the next."""
    shapes, kept, waiting = [shape(1, gpus) for gpus in (1, 2)], WaitingLines[Played](), list[Played]()
    for step in range(steps):
        waiting = [one for one in waiting if chance.random() < 0.7]
        waiting = [replace(one, priority=1) if chance.random() < 0.1 else one for one in waiting]
        waiting = [replace(one, keeps_turn=True) if chance.random() < 0.1 else one for one in waiting]
        waiting = [replace(one, stopping=True) if chance.random() < 0.1 else one for one in waiting]
        waiting = [replace(one, guest_evictions=1) if chance.random() < 0.1 else one for one in waiting]
        for at in range(5):
            values = {"shape": chance.choice(shapes), "most": chance.choice([None, 60]), "vc": chance.choice("ab")}
            waiting.append(job(100 * step + at, chance.choice("uvw"), preemptible=chance.random() < 0.2, **values))
        chance.shuffle(waiting)
        kept.learn(waiting)
        anew = WaitingLines(waiting)
        assert (kept.of_vc, kept.ending) == (anew.of_vc, anew.ending)
        for question in QUESTIONS:
            for line in (line for of in kept.of_vc.values() for line in of.values()):
                assert line.is_true_of_all(question) == all(map(question, line))
        assert sum(len(line) for of in kept.of_vc.values() for line in of.values()) + len(kept.ending) == len(waiting)


@given(chance=st.randoms(use_true_random=False))
def test_who_came_later_is_told_of_all_that_are_ahead(chance: Random) -> None:
    """Whatever their users, priorities and ages: as each of those ahead says if it is asked."""
    made = play(1)
    made.past = {("u", "a"): UsedLately(9, 9, 9, NOW - timedelta(days=1)), ("v", "a"): UsedLately(3, 3, 3, NOW)}
    values: list[dict[str, object]] = [{}, {"priority": 1}, {"keeps_turn": True}, {"place_of": "w"}]
    ages = [since_text(NOW - timedelta(hours=hours)) for hours in range(12)]
    waiting = [job(at, chance.choice("uvw"), since=chance.choice(ages), **chance.choice(values)) for at in range(20)]
    for turn in turns(waiting, made.scene()):
        one, line = turn.job, turn.queue.lines["a"]
        ahead = [
            other
            for other in line.ahead(one)
            if (other.priority, other.keeps_turn) == (one.priority, False)
            and other.share_of != one.share_of
            and (other.since, other.id) > (one.since, one.id)
        ]
        overdue = line._before.overdue if line._before else set()
        assert Counter(line.came_later(one)) == Counter(other.id in overdue for other in ahead)


def test_a_reason_costs_no_more_where_a_thousand_jobs_are_ahead() -> None:
    def calls_for(number: int) -> int:
        made = play(1)
        made.waiting = [job(0, "cay")]
        made.step()
        waiting = many("ben", number, 1) + many("ann", number, 50_000)
        last = {turn.job.id: turn for turn in turns(waiting, made.scene())}[49_999 + number]
        last.queue.ahead(last.job)
        profile = cProfile.Profile()
        profile.runcall(lambda: last.blockers)
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    assert calls_for(1_000) <= calls_for(100) + 20


def fresh(play: Play, at: int, number: int, **values: object) -> None:
    """So many users come who have used nothing yet, each with a job."""
    for each in range(number):
        id = 1000 * (at + 1) + each
        named = {"username": f"new{id}", "seconds": 1800, "since": since_text(play.now), **values}
        play.waiting.append(job(id, **named))  # type: ignore[arg-type]


def first_start(made: Play, *watched: int, hours: int, number: int = 8) -> timedelta:
    """When the first of the watched jobs starts, though more users without any use come than have room."""
    for at in range(hours * 6):
        fresh(made, at, number)
        made.step(600)
        if began := [made.started[id] for id in watched if id in made.started]:
            return min(began) - NOW
    raise AssertionError(f"it has waited for {hours} hours")


@pytest.mark.parametrize("gpus", [1, 4])
def test_who_used_much_starts_once_they_are_overdue_though_new_users_come_without_end(gpus: int) -> None:
    made = play(4)
    made.past = {("ann", "a"): UsedLately(4, 4, 4, NOW - timedelta(hours=1))}
    made.waiting = [job(1, "ann", gpus)]
    waited = first_start(made, 1, hours=12)
    print(f"who used much: {waited} until a job of {gpus} GPUs starts")
    assert OVERDUE - timedelta(hours=1) <= waited <= OVERDUE + timedelta(hours=1)


def test_who_has_an_endless_job_starts_a_second_one_all_the_same() -> None:
    made = play(4)
    made.waiting = [job(1, "ann", seconds=10**9)]
    made.step()
    made.waiting = [job(2, "ann")]
    assert first_start(made, 2, hours=12) <= OVERDUE + timedelta(hours=1)


def test_a_sweep_of_accounts_makes_nobody_wait_longer_than_those_that_came_before() -> None:
    """Hundreds of accounts, each with a job as old as that of one who used much, all come before: each has one turn."""
    made = play(4)
    made.past = {("ann", "a"): UsedLately(4, 4, 4, NOW - timedelta(hours=1))}
    made.waiting = [*(job(100 + at, f"old{at}", seconds=600) for at in range(200)), job(999, "ann")]
    waited = first_start(made, 999, hours=24)
    print(f"behind 200 accounts: {waited}")
    assert waited <= OVERDUE + timedelta(seconds=200 * 600 / 4) + timedelta(hours=1)


@pytest.mark.parametrize("gpus", [1, 4])
def test_who_banked_a_hundred_jobs_has_one_turn_for_their_age(gpus: int) -> None:
    """Two days old, of one hour each, when colleagues come who have none: what these get of the first ten hours."""
    made = play(4)
    made.past = {("ann", "a"): UsedLately(4, 4, 4, NOW - 3 * OVERDUE)}
    made.waiting = many("ann", 100, 1, gpus=gpus, seconds=3600, since=since_text(NOW - timedelta(days=2)))
    got = Counter[str]()
    for at in range(60):
        fresh(made, at, 4, seconds=3600, username=f"other{at % 4}")
        made.step(600)
        for one, places in made.running.values():
            got["ann" if one.username == "ann" else "others"] += sum(len(place.gpu_ids) for place in places)
    print(f"a hundred old jobs of {gpus} GPUs: {got}")
    assert got["others"] >= 0.75 * got.total()


def test_who_is_told_of_one_that_is_overdue() -> None:
    made = play(2)
    made.waiting = [job(1, "cay", 2, seconds=10**6)]
    made.step()
    made.past = {("ann", "a"): UsedLately(2, 2, 2, NOW), ("ben", "a"): UsedLately(1, 1, 1, NOW + OVERDUE)}
    made.now += 2 * OVERDUE
    made.waiting = [job(2, "ben"), *many("ann", 2, 3, since=since_text(NOW + timedelta(hours=1)))]
    found = {turn.job.id: turn for turn in made.turns()}
    assert [id for id, _ in sorted(found.items(), key=lambda each: each[1].position)] == [3, 2, 4]
    says = next(blocker.sentence for blocker in found[2].blockers if blocker.kind == "queue")
    assert says.endswith("One of them came later: no job of its user has started or ended in VC a for 6 h.")
