"""What holds in each pass, for every cluster and every queue."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.fit import Placement
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
from jobs.planning.queue.scene import Runner
from jobs.planning.queue.users.used_lately import UsedLately
from jobs.planning.turns import Move, Turn
from tests.unit.queue_model import NOW, Play, Played, node, shape
from tests.unit.queue_worlds import started, stories, worlds


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
    evicted = {one.job.id for one in turn.victims if not one.job.is_guest}
    quota, shape, is_owner = before.quotas[vc], turn.job.shape, not evicted.isdisjoint(ids)
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
                assert one.job.is_guest or is_ours or not reclaim.spared_until(one, before.scene())
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
