"""Clusters and queues of every kind, to play laws in (LONGSHORE_WORLDS=10000 plays more of them)."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st

from clusters.placement.fit import NodeView, PortDemand
from clusters.placement.shares import (
    Right,
    pool_totals,
    quotas,
)
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.scene import OVERDUE, Runner, holds_at, since_text
from jobs.planning.turns import Move, Turn
from tests.helpers import examples
from tests.unit.queue_model import NOW, Play, Played, node, shape

WORLDS = int(os.environ.get("LONGSHORE_WORLDS", examples(40)))
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
        least = draw(st.sampled_from([0, 0, 1]))
        rights[vc] = Right(percent, most, stopped=draw(st.integers(0, 9)) == 0, min_run=least, **caps)
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


def old(job: Played) -> Played:
    """The same, overdue if its user has had no turn."""
    return replace(job, since=since_text(NOW - 2 * OVERDUE + timedelta(seconds=job.id)))


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
        play.waiting += [draw(st.sampled_from([one, one, old(one)])) for one in draw(jobs(100 * at + 1))]
        play.step(draw(st.sampled_from([0, 10, 30])))
        play.waiting += draw(jobs(100 * at + 51))
        before = replace(play, waiting=list(play.waiting), running=dict(play.running), started={}, past=dict(play.past))
        told.append((before, play.turns()))
    return told


def started(before: Play, made: list[Turn[Played]]) -> list[Runner[Played]]:
    return [Runner(turn.job, holds_at(turn.job, turn.placements)) for turn in made if turn.move is Move.GO]
