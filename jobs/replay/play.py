"""Plays a past day again, and sums it up beside what really happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.utils import timezone

from clusters.placement.fit import OWN_LABEL, NodeView
from clusters.placement.shares import Quota, Right, quotas, wholes
from clusters.vcs.queries import load_rights
from jobs.history import window as windows
from jobs.history.lengths import ended
from jobs.planning.queue.scene import Scene
from jobs.planning.replay.cluster import Cluster, Run, Start
from jobs.planning.replay.day import Day, Played
from jobs.planning.replay.outcome import Setting, sum_up
from jobs.planning.replay.policies import Longshore, Policy
from jobs.planning.what_if.asked import read_all
from jobs.planning.what_if.changed import Picture, after
from jobs.replay import past as pasts
from jobs.replay.asked import POLICIES, Asked
from jobs.replay.past import Past
from portal.core import words
from portal.core.errors import BadRequest

MOST_TASKS = 50_000  # of a day that is played
MOST_NODES = 5_000
_STEP, _LOOK = 5.0, 60.0  # seconds of the day between two looks at the queue


def require_possible(asked: Asked) -> None:
    """Raises BadRequest where the window is too full, or a change cannot be."""
    rows = pasts.rows_of(asked.window).order_by()[: MOST_TASKS + 1].count()
    if rows > MOST_TASKS:
        raise BadRequest(f"More than {MOST_TASKS:,} tasks ran in this window; ask for a shorter one.")
    _changed(_sized(pasts.registered(), asked.nodes), asked)


def play(asked: Asked, is_over: Callable[[float], bool] = lambda part: False) -> dict[str, Any]:
    """What really happened and what would have, for ``Replay.result``. ``is_over`` is told how far it is, and may end
    it. Raises BadRequest where a change cannot be."""
    began = time.monotonic()
    past = pasts.read(asked.window)
    nodes, then = _changed(_sized(past.nodes, asked.nodes), asked)
    there = Cluster.of(nodes, then, windows.at(asked.window.begin, asked.window.zone))
    runs = _set_up(there, past)
    policy = _policy(asked)
    day = Day(runs, there, policy, step=_STEP, look=_LOOK)
    played = day.play(past.seconds, lambda now: is_over(now / past.seconds))
    now = quotas(_rights(), *wholes(past.nodes))
    return _result(asked, past, nodes, now, then, played, runs, time.monotonic() - began)


def _policy(asked: Asked) -> Policy:
    return Longshore(ended(asked.window.begin)) if asked.policy == "longshore" else POLICIES[asked.policy]()


def _sized(nodes: Sequence[NodeView], times: float) -> list[NodeView]:
    """The first of them, or copies beside them."""
    number = max(1, round(len(nodes) * times)) if nodes else 0
    if number > MOST_NODES:
        raise BadRequest(f"A replay has {MOST_NODES:,} nodes at most.")
    return [_copy(nodes[at % len(nodes)], at // len(nodes)) for at in range(number)]


def _copy(node: NodeView, number: int) -> NodeView:
    if not number:
        return node
    name = f"{node.name}+{number}"
    return replace(node, name=name, labels=node.labels - {(OWN_LABEL, node.name)} | {(OWN_LABEL, name)})


def _changed(nodes: Sequence[NodeView], asked: Asked) -> tuple[list[NodeView], Mapping[str, Quota]]:
    """The nodes and quotas after the changes. Raises BadRequest."""
    rights = _rights()
    scene: Scene[Run] = Scene(nodes, timezone.now(), quotas=quotas(rights, *wholes(nodes)))
    found = after(Picture([], scene, rights), read_all(asked.changes))
    return list(found.scene.nodes), found.scene.quotas


def _rights() -> dict[str, Right]:
    """As they are, but of virtual clusters that are stopped today as if they ran."""
    return {name: replace(right, stopped=False) for name, right in load_rights().items()}


def _set_up(there: Cluster, past: Past) -> list[Run]:
    """Put what ran already where it ran; what has no room there any more waits. Returns all that comes."""
    runs = list(past.runs)
    for start, began, ends in past.running:
        there.now = began
        anywhere = Start(start.run, [replace(place, gpu_ids=()) for place in start.places])
        if there.start(start, ends) is None and there.start(anywhere, ends) is None:
            runs.append(replace(start.run, submitted=0.0, seconds=max(1.0, ends)))
    there.now = 0.0
    return runs


def _result(
    asked: Asked,
    past: Past,
    nodes: Sequence[NodeView],
    now: Mapping[str, Quota],
    then: Mapping[str, Quota],
    played: Played,
    runs: Sequence[Run],
    took: float,
) -> dict[str, Any]:
    everybody = {run.id: run for run in (*past.runs, *(start.run for start, _, _ in past.running))}
    by = "gpu" if any(node.gpus for node in past.nodes) else "cpu"
    until = max(1.0, played.until)
    before = Setting(until, wholes_of(past.nodes, by), by, now)
    later = Setting(until, wholes_of(nodes, by), by, then)
    return {
        "by": by,
        "jobs": len(everybody),
        "until": asked.window.begin + round(1000 * until),
        "took": round(took, 3),
        "nodes": {"before": len(past.nodes), "after": len(nodes)},
        "whole": {"before": before.whole, "after": later.whole},
        "before": asdict(sum_up(everybody.values(), past.spans, before, until)),
        "after": asdict(sum_up((everybody | {run.id: run for run in runs}).values(), played.spans, later, until)),
        "notes": _notes(asked, past, until),
    }


def wholes_of(nodes: Sequence[NodeView], by: str) -> float:
    return float(sum(len(node.gpus) if by == "gpu" else node.cpus for node in nodes))


def _notes(asked: Asked, past: Past, until: float) -> list[str]:
    found = []
    if until < past.seconds:
        at = windows.at(asked.window.begin + round(1000 * until), asked.window.zone)
        found.append(f"It took too long and was ended: the day was played until {at:%H:%M}.")
    if past.gone:
        what = words.count(len(past.gone), "node is", "nodes are")
        found.append(f"{what} not registered any more ({words.listing(past.gone)}); what was held of them is there.")
    return found
