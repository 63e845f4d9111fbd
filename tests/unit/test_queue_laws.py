"""What holds for every cluster and every queue (LONGSHORE_WORLDS=10000 plays more of them)."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.placement.fit import NodeView, Placement, PortDemand
from clusters.placement.free import FreeNodes
from clusters.placement.shares import (
    Quota,
    Right,
    above_ceiling,
    add,
    asked,
    exceeded,
    is_within,
    nodes_without,
    pool_totals,
    quotas,
    taken,
)
from jobs.planning.queue import reclaim
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.lengths import Lengths, LikeJobs
from jobs.planning.queue.scene import LONGEST_REST, REST, Policy, Runner, holds_at
from jobs.planning.queue.users.used_lately import UsedLately
from jobs.planning.turns import Move, Turn
from tests.unit.queue_model import NOW, Play, Played, node, shape

WORLDS = int(os.environ.get("LONGSHORE_WORLDS", "40"))
VCS = ("a", "b", "c")
STEPS = 5
SHAPES = [
    *(shape(), shape(gpus=2), shape(gpus=4), shape(2, 2), shape(3, 1), shape(1, 0, 3), shape(2, 4)),
    *(shape(kind="B"), shape(1, 0, 1, "", (PortDemand("web", 30000, 1),))),
]
SHARES = [(50, 50, 0), (25, 25, 50), (100, 0, 0), (0, 30, 70)]
# What reservations have idled: nothing, as much as they may in a moment, or they have lapsed for a while.
IDLINGS = [
    *(None, Idling(0, (), NOW, NOW, 4, 120.0), Idling(50, (), NOW, NOW, 1, 5.0)),
    Idling(50, (), NOW, NOW, 0, 9.0, 9.0, 60.0, 1, NOW + timedelta(seconds=60)),
]

worlds = settings(max_examples=WORLDS, deadline=None)


@st.composite
def plays(draw: st.DrawFn) -> Play:
    nodes = [
        node(f"n{at}", draw(st.sampled_from(["AAAA", "AA", "AABB", ""])), draw(st.sampled_from([4, 8])),
             dedicated_to=draw(st.sampled_from(["", "", "", "c"])))
        for at in range(draw(st.integers(1, 4)))
    ]  # fmt: skip
    rights = {}
    for vc, percent in zip(VCS, draw(st.sampled_from(SHARES)), strict=True):
        most = max(percent, draw(st.sampled_from([25, 50, 100, 100])))
        caps = {name: draw(st.sampled_from([None, None, 2])) for name in ("user_gpus", "user_jobs")}
        rights[vc] = Right(percent, most, stopped=draw(st.integers(0, 9)) == 0, **caps)
    idlings = {vc: one for vc in VCS if (one := draw(st.sampled_from(IDLINGS))) is not None}
    return Play(nodes, quotas(rights, *pool_totals(nodes)), idlings=idlings)


@st.composite
def jobs(draw: st.DrawFn, first: int) -> list[Played]:
    return [
        Played(
            id=first + at,
            vc=draw(st.sampled_from(VCS)),
            username=draw(st.sampled_from(["u", "v"])),
            name=f"j{first + at}",
            since=f"{first + at:04}",
            priority=draw(st.sampled_from([0, 0, 0, 1, -1])),
            shape=draw(st.sampled_from(SHAPES)),
            seconds=draw(st.sampled_from([10, 30, 90])),
            preemptible=draw(st.booleans()),
        )
        for at in range(draw(st.integers(0, 6)))
    ]


def dedicate(play: Play, one: NodeView, vc: str) -> None:
    """As an admin may at any moment, whoever runs there. The rights of the virtual clusters stay in this play."""
    play.nodes = [replace(each, dedicated_to=vc) if each is one else each for each in play.nodes]


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[Play, list[Turn[Played]]]]:
    """Some steps of a play: as it was before each, and the turns that were carried out then."""
    play, told = draw(plays()), []
    for at in range(STEPS):
        if draw(st.integers(0, 3)) == 0:
            dedicate(play, draw(st.sampled_from(play.nodes)), draw(st.sampled_from(["", "a", "b", "c"])))
        play.waiting += draw(jobs(100 * at + 1))
        play.step(draw(st.sampled_from([0, 10, 30])))
        play.waiting += draw(jobs(100 * at + 51))
        before = replace(play, waiting=list(play.waiting), running=dict(play.running), started={}, past=dict(play.past))
        told.append((before, play.turns()))
    return told


@worlds
@given(stories())
def test_nothing_is_given_twice_and_every_gang_is_whole(story: list[tuple[Play, list[Turn[Played]]]]) -> None:
    for before, made in story:
        for turn in made:
            if turn.move is Move.GO:
                assert [place.index for place in turn.placements] == [demand.index for demand in turn.job.shape]
                before.start(turn.job, turn.placements)
        for one in before.views():
            assert one.used_cpus <= one.cpus and one.used_memory_mb <= one.memory_mb
        taken = Counter(
            (place.node, what)
            for _, places in before.running.values()
            for place in places
            for what in (*place.gpu_ids, *(port for ports in place.ports.values() for port in ports))
        )
        assert not [what for what, times in taken.items() if times > 1]


@worlds
@given(stories())
def test_no_virtual_cluster_is_above_its_ceiling_and_no_user_above_their_cap(
    story: list[tuple[Play, list[Turn[Played]]]],
) -> None:
    for before, made in story:
        dedicated = {one.name: one.dedicated_to for one in before.nodes}
        for turn in made:
            if turn.move is Move.GO:
                assert all(dedicated[place.node] in ("", turn.job.vc) for place in turn.placements)
                before.start(turn.job, turn.placements)
        for vc, use in before.use().items():
            assert above_ceiling({}, use, before.quotas[vc]) == []
            for user in ("u", "v"):
                mine = [one for one, _ in before.running.values() if (one.vc, one.username) == (vc, user)]
                assert len(mine) <= (before.quotas[vc].user_jobs or len(mine))
                gpus = sum(demand.gpus for one in mine for demand in one.shape)
                assert gpus <= (before.quotas[vc].user_gpus or gpus)


def would_fit(before: Play, made: list[Turn[Played]], turn: Turn[Played], gone: list[Runner[Played]]) -> bool:
    """Whether the job of this turn fits beside those whose turn was before, and beside what is kept for others, with
    GPUs of any types that its limits allow: its ceiling, and its guarantee where others are evicted for that."""
    free = FreeNodes(nodes_without(before.views(), [hold for one in gone for hold in one.holds]))
    queue, vc, ids, use = turn.queue, turn.job.vc, {one.job.id for one in gone}, dict[str, float]()
    for one, _ in before.running.values():
        add(use, before.amount(one) if one.vc == vc and one.id not in ids else {})
    for other in made[: made.index(turn)]:
        if other.move is Move.GO:
            free.take(other.job.shape, other.placements)
            add(use, queue.amount(other.job, other.placements) if other.job.vc == vc else {})
        elif other.reservation is not None:
            free.set_aside(other.reservation.demands, other.reservation.nodes)
    quota, shape, is_owner = before.quotas[vc], turn.job.shape, not all(one.job.is_guest for one in turn.victims)
    for demands in (shape, *queue.typed(shape, quota.guarantee, use), *queue.typed(shape, quota.ceiling, use)):
        placements = free.copy().place(demands, turn.job.id, vc=vc)
        amount = taken(shape, placements, turn.queue.scene.gpu_types) if placements else {}
        if placements and not above_ceiling(use, amount, quota) and (not is_owner or is_within(use, amount, quota)):
            return True
    return False


@worlds
@given(stories())
def test_victims_are_guests_or_borrow_and_none_is_evicted_in_vain(story: list[tuple[Play, list[Turn[Played]]]]) -> None:
    for before, made in story:
        gone: list[Runner[Played]] = []
        for turn in made:
            victims = list(turn.victims)
            if not victims:
                continue
            assert not {one.job.id for one in gone} & {one.job.id for one in victims}
            assert would_fit(before, made, turn, [*gone, *victims]), "it fits once they are gone"
            for one in victims:
                others = [other for other in victims if other is not one]
                assert not would_fit(before, made, turn, [*gone, *others]), "each of them is needed"
                is_ours = one in reclaim.on_nodes_of(turn.job.vc, victims, before.scene())
                assert one.job.is_guest or is_ours or borrows(before, one.job), "who stays within is never evicted"
                assert one.job.is_guest or one.job.vc != turn.job.vc
                if not (one.job.is_guest or is_ours or turn.queue.types_differ):
                    scene, ids = before.scene(), {each.job.id for each in gone}
                    ours = reclaim.on_nodes_of(turn.job.vc, scene.running(), scene)
                    ours = [each for each in ours if each.job.id not in ids]
                    assert not would_fit(before, made, turn, [*gone, *ours]), "own nodes are taken back first"
            gone += victims


def test_nobody_is_evicted_for_gpus_of_one_type_where_fewer_leave_for_several() -> None:
    """With 4, 5 and 6 gone it could have two of either type, and may have one of A; one of B is then enough."""
    play = Play([node("n0", "AABB")], {"c": Quota({"cpu": 8, "memory": 8000, "gpu": 3, "gpu:A": 1, "gpu:B": 2})})
    for id, gpu, kind in ((4, "0", "A"), (5, "2", "B"), (6, "3", "B")):
        borrower = Played(id=id, vc="a", shape=shape(kind=kind), priority=id - 6, seconds=10**6)
        play.start(borrower, [Placement("w", 0, "n0", "n0", (gpu,))])
    play.waiting = [Played(id=9, vc="c", shape=shape(2, 1))]
    assert [[one.job.id for one in turn.victims] for turn in play.step()] == [[5]]
    assert [turn.job.id for turn in play.step() if turn.move is Move.GO] == [9]


def test_who_leaves_for_a_job_at_its_ceiling_leaves_together_with_the_guests_that_are_in_its_way() -> None:
    """Where a borrower has its room, and guests of its own virtual cluster keep it above the ceiling: without those it
    would not surely start."""
    most = {"cpu": 8.0, "memory": 8000.0, "gpu": 2.0}
    play = Play([node("n0", "AA"), node("n1", "BB")], {"c": Quota(most, most)})
    play.start(Played(id=1, vc="a", shape=shape(1, 2), seconds=10**6), [Placement("w", 0, "n1", "n1", ("0", "1"))])
    for id in (2, 3):
        guest = Played(id=id, vc="c", shape=shape(), seconds=10**6, preemptible=True)
        play.start(guest, [Placement("w", 0, "n0", "n0", (str(id - 2),))], is_guest=True)
    play.waiting = [Played(id=9, vc="c", priority=1, shape=shape(1, 2, kind="B"))]
    assert [sorted(one.job.id for one in turn.victims) for turn in play.step()] == [[1, 2, 3]]
    assert [turn.job.id for turn in play.step() if turn.move is Move.GO] == [9]


def borrows(before: Play, job: Played) -> bool:
    """Whether those of its virtual cluster that are as old hold more than the guarantee of something that it holds."""
    mine, use = before.amount(job), dict[str, float]()
    for other, _ in before.running.values():
        assert other.started_at is not None and job.started_at is not None
        if other.vc == job.vc and (other.started_at, other.id) <= (job.started_at, job.id):
            add(use, before.amount(other))
    return any(mine.get(what) for what in exceeded({}, use, before.quotas[job.vc].guarantee, named_only=False))


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
@given(stories(), st.randoms())
def test_the_same_world_has_the_same_turns(story: list[tuple[Play, list[Turn[Played]]]], chance: object) -> None:
    for before, made in story:
        chance.shuffle(before.waiting)  # type: ignore[attr-defined]
        before.running = dict(sorted(before.running.items(), reverse=True))
        again = before.turns()
        assert [(one.job.id, one.move, list(one.placements)) for one in again] == [
            (one.job.id, one.move, list(one.placements)) for one in made
        ]
        assert [{victim.job.id for victim in one.victims} for one in again] == [
            {victim.job.id for victim in one.victims} for one in made
        ]


@worlds
@given(
    st.lists(st.sampled_from("uvw"), max_size=30),
    st.lists(st.sampled_from("uvw"), max_size=6),
    st.dictionaries(st.sampled_from("uvw"), st.floats(0, 8)),
    st.integers(0, 8),
)
def test_each_place_goes_to_the_user_with_the_smallest_share_then(
    waiting: list[str], running: list[str], used: dict[str, float], free: int
) -> None:
    """As if the queue were sorted anew after each placement."""
    nodes = [node("n0", "A" * (len(running) + free), 100)]
    play = Play(nodes, quotas({"a": Right(100, share_half_life=0 if not used else 24)}, *pool_totals(nodes)))
    play.waiting = [Played(id=at, vc="a", username=user, shape=shape(cpus=0)) for at, user in enumerate(running)]
    play.step()
    play.past = {(user, "a"): UsedLately(0, 0, gpus, NOW) for user, gpus in used.items()}
    play.waiting = [
        Played(id=100 + at, vc="a", username=user, since=f"{at:04}", shape=shape(cpus=0))
        for at, user in enumerate(waiting)
    ]
    shares, left, expected = Counter(running) + Counter(used), list(play.waiting), list[int]()
    for _ in range(min(free, len(left))):
        following = min(left, key=lambda job: (round(shares[job.username] / len(nodes[0].gpus), 9), job.since))
        shares[following.username] += 1
        expected.append(following.id)
        left.remove(following)
    assert [turn.job.id for turn in play.turns() if turn.move is Move.GO] == expected


@worlds
@given(stories())
def test_every_job_that_waits_has_a_reason_and_each_is_true(story: list[tuple[Play, list[Turn[Played]]]]) -> None:
    for before, made in story:
        assert sorted(turn.job.id for turn in made) == sorted(job.id for job in before.waiting)
        for turn in made:
            found = {blocker.kind for blocker in turn.blockers}
            assert bool(found) == (turn.move is not Move.GO)
            quota = before.quotas[turn.job.vc]
            assert ("vc_stopped" in found) == (quota.stopped and bool(found))
            if "reserved" in found:
                free = FreeNodes(one for one in turn.queue.left() if one.serves(turn.job.vc))
                for kept in turn.queue.reservations:
                    if kept.job is not turn.job:
                        free.set_aside(kept.demands, kept.nodes)
                assert free.place(turn.job.shape, turn.job.id, vc=turn.job.vc) is None
            if "never" in found:
                serving = [one for one in before.nodes if one.serves(turn.job.vc)]
                assert FreeNodes(serving).place(turn.job.shape, vc=turn.job.vc) is None
            if "owners" in found:
                quota, vcs = before.quotas[turn.job.vc], {*turn.owners}
                assert not is_within({}, asked(turn.job.shape), quota) and turn.job.vc not in vcs
                theirs = [*before.scene().running(), *started(before, made)]
                left = [hold for one in theirs if one.job.vc not in vcs for hold in one.holds]
                assert FreeNodes(nodes_without(turn.queue.left(), left)).place(turn.job.shape, vc=turn.job.vc) is None
                assert FreeNodes(before.nodes, empty=True).place(turn.job.shape, vc=turn.job.vc) is not None
            if found & {"gpus", "cpu", "memory", "ports", "gang", "node"}:
                left = [one for one in turn.queue.left() if one.serves(turn.job.vc)]
                assert FreeNodes(left).place(turn.job.shape, vc=turn.job.vc) is None


def started(before: Play, made: list[Turn[Played]]) -> list[Runner[Played]]:
    return [Runner(turn.job, holds_at(turn.job, turn.placements)) for turn in made if turn.move is Move.GO]


@worlds
@given(stories())
def test_no_job_within_waits_for_room_that_is_kept_for_one_beyond_its_guarantee(
    story: list[tuple[Play, list[Turn[Played]]]],
) -> None:
    """Unless that one is ahead of it in its own virtual cluster."""
    for _, made in story:
        for turn in made:
            queue, wants, vc = turn.queue, asked(turn.job.shape), turn.job.vc
            line = queue.lines[vc]
            if turn.move is Move.GO or queue.types_differ or line.closed or line.exceeds_with_reclaimed(wants):
                continue
            if not is_within(line.use, wants, line.quota) or {each.kind for each in turn.rules} - {"queue"}:
                continue
            free = FreeNodes(queue.left())
            for kept in queue.reservations:
                if not kept.yields or kept.job.vc == vc:
                    free.set_aside(kept.demands, kept.nodes)
            assert free.place(turn.job.shape, turn.job.id, vc=vc) is None


@worlds
@given(plays(), jobs(1), jobs(101), st.sampled_from(SHAPES), st.booleans())
def test_nobody_starves(
    play: Play, first: list[Played], stream: list[Played], large: tuple[object, ...], new_users: bool
) -> None:
    """A job that could run alone starts, though jobs like these go on arriving in its own virtual cluster, also where
    each is of a user who has used nothing yet."""
    mine = Played(id=50, vc="a", username="w", name="mine", since="0050", shape=large, seconds=10)  # type: ignore[arg-type]
    alone = Play(play.nodes, play.quotas, waiting=[mine])
    alone.step()
    if not alone.running:
        return
    play.waiting = [replace(job, vc="a", priority=0) for job in first] + [mine]
    for at in range(100):
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
    """Where running jobs say when they end, whatever was learnt of others. With evictions that take no time; else it is
    the grace later."""
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
    """Whether its room is held by its own virtual cluster or by another one. With evictions that take no time."""
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
        moments.append(play.started.get(mine.id))
    assert moments[0] == moments[1] or (moments[0] and (not moments[1] or moments[0] < moments[1]))
