"""What would a change do: how it is written, what it makes of the cluster, and that it tells what then happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.core.errors import BadRequest
from clusters.placement.fit import NodeView
from clusters.placement.shares import Right, pool_totals, quotas
from jobs.forecast.play import Spread
from jobs.what_if.asked import read, read_all
from jobs.what_if.changed import Situation, apply_changes
from jobs.what_if.compare import Consequences, Effect, consequences, felt, moved
from tests.helpers import examples
from tests.unit.queue_model import NOW, Play, Played, node, shape

HALF = Right(capacity=50)
RIGHTS = {"a": HALF, "default": Right(has_rest=True)}


def played(id: int, gpus: int = 1, vc: str = "default", **values: Any) -> Played:
    return Played(id=id, vc=vc, username="u", name=f"j{id}", since=f"{id:04}", shape=shape(gpus=gpus), **values)


def picture(play: Play, rights: dict[str, Right] | None = None) -> Situation[Played]:
    rights = RIGHTS if rights is None else rights
    play.quotas = quotas(rights, *pool_totals(play.nodes))
    return Situation(list(play.waiting), play.scene(), rights)


def busy(*waiting: Played, nodes: Sequence[NodeView] = (node("n1"), node("n2"))) -> Play:
    """On each node a job of four GPUs runs, which borrows nothing."""
    play = Play(nodes)
    for at, one in enumerate(nodes):
        play.waiting = [played(100 + at, len(one.gpus), vc="default", seconds=600)]
        play.step()
    play.waiting = list(waiting)
    return play


# --- how it is written -----------------------------------------------------------------------------------------------

SENTENCES = {
    "vc:vision:+8": "VC vision gets 8 more GPUs",
    "vc:vision:guarantee:-1": "VC vision gets 1 fewer GPU guaranteed",
    "vc:vision:ceiling:+4": "VC vision gets 4 more GPUs at most",
    "node:gpu-03:drain": "Node gpu-03 is drained",
    "node:gpu-03:return": "Node gpu-03 is back in service",
    "node:new:add:8": "Node new is added with 8 GPUs",
    "node:new:add:1:A100": "Node new is added with 1 A100 GPU",
    "node:new:add:8::64:512": "Node new is added with 8 GPUs",
    "job:lena~bert~7:evict": "Job lena/bert~7 is evicted",
    "job:lena~bert:priority:-5": "Job lena/bert has priority -5",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_a_change_is_a_text_and_a_sentence(text: str) -> None:
    asked = read(text)
    assert asked.sentence == SENTENCES[text]
    assert read(asked.text) == asked


WRONG = {
    "": "must begin with vc:, node: or job: and a name",
    "disk:n1:drain": "must begin with vc:",
    "vc:a b:+8": "letters, digits and _ only",
    "vc:a:8.5": "GPUs must be a whole number from -100,000 to 100,000",
    "vc:a:+0": "0 GPUs more are no change",
    "vc:a:users:+8": "only the guarantee or the ceiling",
    "node:n1:explode": "a node can drain, cordon, return, remove or add",
    "node:../n1:drain": "no name of a node",
    "node:n1:add:many": "GPUs must be a whole number from 0 to 64",
    "node:n1:add:1:A:1:1:1": "node:NAME:add:GPUS:TYPE:CORES:GB",
    "job:bert:stop": "a job is written user~name",
    "job:lena~bert:priority:101": "priority must be a whole number from -100 to 100",
    "job:lena~bert:pause": "a job can evict, stop or have a priority",
    "job:lena~bert:priority:٣": "whole number",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(BadRequest, match=WRONG[text]):
        read(text)


def test_not_more_changes_than_can_be_tried() -> None:
    with pytest.raises(BadRequest, match="At most 8 changes"):
        read_all(["vc:a:+1"] * 9)


# --- what it makes of the cluster ------------------------------------------------------------------------------------

IMPOSSIBLE = {
    "vc:nobody:+8": "There is no virtual cluster nobody",
    "vc:default:+8": "VC default has what the others leave",
    "vc:a:+5": "The pool has 8 GPUs",
    "vc:a:-5": "VC a has only 4 GPUs guaranteed",
    "vc:a:ceiling:+1": "VC a has no ceiling",
    "vc:a:ceiling:-5": "It may not be less than the 4 GPUs",
    "node:n9:drain": "There is no node n9",
    "node:n1:add:8": "There is a node n1 already",
    "job:u~j9:evict": "Job u/j9 does not run",
    "job:u~j9:stop": "No job u/j9 waits or runs",
    "job:u~j100:priority:5": "No job u/j100 waits",
}


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_what_cannot_be_is_said(text: str) -> None:
    with pytest.raises(BadRequest, match=IMPOSSIBLE[text]):
        apply_changes(picture(busy()), [read(text)])


def test_no_node_is_no_model_for_a_new_one() -> None:
    with pytest.raises(BadRequest, match="say also how many cores"):
        apply_changes(picture(Play([])), [read("node:n1:add:8")])


# Who waits beside two jobs of four GPUs that run on n1 and n2; the change; who starts now, and who is evicted.
CASES: dict[str, tuple[list[Played], list[str], set[int], set[int]]] = {
    "nothing": ([played(1)], [], set(), set()),
    "a new node": ([played(1), played(2, 4)], ["node:n3:add:4"], {1}, set()),
    "two new nodes": ([played(1), played(2, 4)], ["node:n3:add:4", "node:n4:add:4"], {1, 2}, set()),
    "the end of a job": ([played(1)], ["job:u~j100:stop"], {1}, set()),
    "an evicted job comes back behind": ([played(1, 4)], ["job:u~j100:evict"], {1}, {100}),
    "an evicted job that nobody overtakes": ([], ["job:u~j100:evict"], {100}, {100}),
    "a drained node": ([played(1)], ["node:n1:drain"], set(), {100}),
    "a removed node": ([played(1)], ["node:n2:remove", "node:n3:add:8"], {1, 101}, {101}),
    "a cordoned node evicts nobody": ([played(1)], ["node:n1:cordon"], set(), set()),
}


@pytest.mark.parametrize("case", CASES)
def test_it_says_who_starts_and_who_is_evicted(case: str) -> None:
    waiting, changes, starts, evicted = CASES[case]
    now = consequences(apply_changes(picture(busy(*waiting), {"default": Right(has_rest=True)}), read_all(changes)), {})
    assert (set(now.starts), {one.job.id for one in now.evicted}) == (starts, evicted)


def test_a_larger_guarantee_evicts_a_borrower_and_says_for_whom() -> None:
    rights = {"a": Right(capacity=10), "default": Right(has_rest=True)}
    there = picture(busy(played(1, vc="a")), rights)
    assert consequences(there, {}).evicted == []
    then = consequences(apply_changes(there, [read("vc:a:guarantee:+4")]), {})
    assert [(one.job.id, one.because) for one in then.evicted] == [(101, "u/j1 has a right to its room")]
    wide = apply_changes(there, [read("vc:a:guarantee:+4")])
    assert wide.scene.quotas["a"].guarantee["gpu"] == 4
    assert wide.scene.quotas["default"].guarantee["gpu"] == 4


def test_a_priority_changes_who_is_next() -> None:
    there = picture(Play([node("n1")], waiting=[played(1, 4), played(2, 4)]))
    assert set(consequences(there, {}).starts) == {1}
    assert set(consequences(apply_changes(there, [read("job:u~j2:priority:5")]), {}).starts) == {2}


def test_a_cordoned_node_that_is_away_does_not_come_back_by_being_cordoned() -> None:
    play = Play([node("n1", offered=False, why_not="unreachable since 14:21")], waiting=[played(1)])
    assert not consequences(apply_changes(picture(play), [read("node:n1:cordon")]), {}).starts
    assert consequences(apply_changes(picture(play), [read("node:n1:return")]), {}).starts


def test_the_picture_before_stays_as_it_is() -> None:
    there = picture(busy(played(1)))
    before = repr(there)
    apply_changes(there, read_all(["node:n1:remove", "vc:a:-1", "job:u~j101:evict", "job:u~j1:priority:3"]))
    assert repr(there) == before


# --- job by job ------------------------------------------------------------------------------------------------------


def case(starts: Sequence[int] = (), **minutes: float | None) -> Consequences[Played]:
    """Spreads of the jobs j1, j2 ...: p50 in so many minutes."""
    spreads = {
        int(name[1:]): None if each is None else Spread(*[NOW + timedelta(minutes=each)] * 3)
        for name, each in minutes.items()
    }
    there = Situation([played(id) for id in (1, 2)], Play([node("n1")]).scene(), RIGHTS)
    return Consequences(there, dict.fromkeys(starts, ()), [], {}, spreads)


@pytest.mark.parametrize(
    ("before", "then", "effect"),
    [
        (case(j1=30), case(j1=10), Effect.EARLIER),
        (case(j1=30), case(j1=60), Effect.LATER),
        (case(j1=30), case(j1=30.5), None),
        (case(j1=600), case(j1=620), None),
        (case(j1=30), case([1], j1=0), Effect.NOW),
        (case([1], j1=0), case(j1=0), Effect.LATER),
        (case(j1=None), case(j1=30), Effect.EARLIER),
        (case(j1=30), case(j1=None), Effect.LATER),
        (case(j1=None), case(j1=None), None),
        (case(), case(j1=30), None),
    ],
)
def test_a_job_feels_a_change_or_not(
    before: Consequences[Played], then: Consequences[Played], effect: Effect | None
) -> None:
    assert [one.effect for one in felt(before, then)] == ([effect] if effect else [])


def test_a_reservation_moves_to_a_new_node() -> None:
    there = picture(busy(played(1, 4)))
    then = apply_changes(there, [read("node:n1:drain")])
    cases = [consequences(one, {}) for one in (there, then)]
    [(job, now, later)] = moved(*cases)
    assert (job.id, list(now), list(later)) == (1, ["n1"], ["n2"])


# --- what is announced is what happens -------------------------------------------------------------------------------


@st.composite
def plays(draw: st.DrawFn) -> Play:
    nodes = [node(f"n{at}", gpus="A" * draw(st.integers(1, 4))) for at in range(draw(st.integers(1, 3)))]
    play = Play(nodes, quotas=quotas(RIGHTS, *pool_totals(nodes)))
    for id in range(1, draw(st.integers(1, 10))):
        vc, gpus = draw(st.sampled_from(["a", "default"])), draw(st.integers(1, 4))
        play.waiting.append(played(id, gpus, vc=vc, priority=draw(st.integers(-1, 1))))
        if draw(st.booleans()):
            play.step()
    return play


CHANGES = st.sampled_from(
    ["vc:a:-1", "vc:a:guarantee:-1", "node:n0:drain", "node:n0:cordon", "node:n0:remove", "node:n9:add:3"]
)


@settings(max_examples=examples(300))
@given(plays())
def test_without_a_change_it_says_the_present_turns(play: Play) -> None:
    there = picture(play)
    now = consequences(apply_changes(there, []), {})
    turns = [turn for turn in play.turns() if turn.move == "go"]
    assert now.starts == {turn.job.id: turn.placements for turn in turns}
    cases = [consequences(one, {}) for one in (there, apply_changes(there, []))]
    assert felt(*cases) == [] and moved(*cases) == []


@settings(max_examples=examples(300))
@given(plays(), st.lists(CHANGES, max_size=2, unique=True))
def test_made_for_real_a_change_starts_exactly_those_it_announced(play: Play, texts: list[str]) -> None:
    there = picture(play)
    try:
        then = apply_changes(there, read_all(texts))
    except BadRequest:
        return
    now = consequences(then, {})
    _make(play, texts)
    play.quotas = quotas(then.rights, *pool_totals(play.nodes))
    made = play.step()
    assert {turn.job.id for turn in made if turn.move == "go"} == set(now.starts)
    by_turns = {victim.job.id for turn in made for victim in turn.victims}
    assert by_turns == {one.job.id for one in now.evicted} - {one.job.id for one in then.evicted}


def _make(play: Play, texts: Sequence[str]) -> None:
    """The change itself, as the cluster would go through it."""
    for text in texts:
        kind, name, does, *_ = text.split(":")
        if kind != "node":
            continue
        if does in ("drain", "remove"):
            for job, places in list(play.running.values()):
                if any(place.node == name for place in places):
                    guest = replace(job, is_guest=False)
                    play.running[job.id] = guest, places
                    play.evict(guest)
        if does == "remove":
            play.nodes = [one for one in play.nodes if one.name != name]
        elif does == "add":
            largest = max(play.nodes, key=lambda one: (len(one.gpus), one.cpus))
            play.nodes = [
                *play.nodes,
                replace(node(name, gpus="   ", cpus=largest.cpus), gpus=(("0", ""), ("1", ""), ("2", ""))),
            ]
        else:
            play.nodes = [replace(one, offered=False) if one.name == name else one for one in play.nodes]
