"""Users who go as far as the rules let them, and what the others get: pure plays with the real turns.

Each figure is printed (``pytest -s``) and held: it may become better, and not worse.
"""

from __future__ import annotations

from dataclasses import replace

from clusters.placement.shares import Right, pool_totals, quotas
from jobs.planning.queue.scene import Policy
from jobs.planning.turns import Move, turns
from tests.unit.queue_model import Play, Played, node, shape

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


def test_stop_and_resubmit() -> None:
    """A borrower that is stopped and sent again has no past, and makes no owner wait for it."""
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
        for _ in range(1200 // PASS):
            play.step(PASS)
        waits.append((play.started[mine.id] - came).total_seconds())
    print(f"no type before a type: at most {max(waits):.0f} s")
    assert max(waits) <= PASS
    assert not play.waiting and len(play.started) == 50 * 7, "and they wait for nothing either"
