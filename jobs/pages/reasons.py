"""Says why jobs wait, one sentence each, for lists. (jobs/scheduling/explain.py gives all reasons for one job.)"""

from __future__ import annotations

from collections.abc import Sequence

from jobs.planning.turns import Turn, Verdict
from jobs.scheduling.queue import Queued, turns_of
from portal.core import words

_MOST_LOOKS = 5000  # nodes times different demands that are compared for one list, as a page must be quick


def waiting_reasons(ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """{job id: ("1st in default", "No node has 4 free A100.")} in a constant number of queries."""
    shapes: set[int] = set()
    return {
        id: (f"{words.ordinal(turn.place)} in {turn.job.vc}", _first(turn, shapes))
        for id, turn in turns_of(ids).items()
    }


def _first(turn: Turn[Queued], shapes: set[int]) -> str:
    """The first of its blockers. ``shapes`` are the demands that were compared with every node already."""
    if turn.verdict is Verdict.GO:
        return ""
    shape = id(turn.job.demands)
    if shape in shapes or (len(shapes) + 1) * len(turn.queue.nodes) <= _MOST_LOOKS:
        shapes.add(shape)
        return turn.blockers[0].sentence
    return turn.rules[0].sentence if turn.rules else "It does not fit on the nodes as they are now."
