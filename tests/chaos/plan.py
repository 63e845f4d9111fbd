"""The whole trial thrown beforehand: the same seed gives the same deeds at the same moments."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import cycle, islice

from tests.chaos.jobs import KINDS, kind_of

# (shortest, longest) in seconds. Those of a node are the same on each; the portal's own take turns with one another.
NODE_FAULTS = {
    "cut": (2, 20),
    "freeze": (2, 20),
    "kill-dockerd": (1, 10),
    "stop-dockerd": (1, 10),
    "crash": (1, 10),
    "fill": (5, 20),
}
PORTAL_FAULTS = {
    "kill web": (0, 0),
    "kill scheduler": (0, 0),
    "kill workers": (0, 0),
    "kill up": (0, 0),
    "stall scheduler": (30, 60),
    "second scheduler": (10, 30),
    "usurp scheduler": (20, 40),
}
DATABASE_FAULTS = {
    "sqlite": {"lock database": (30, 30)},
    "postgres": {"restart database": (0, 0), "end sessions": (0, 0), "freeze database": (3, 15)},
}
RM = "rm container"
AT_ONCE = 2  # nodes in trouble, so that something goes on
REST = 3.0  # seconds between two faults of one node or of the portal


@dataclass(frozen=True, order=True)
class Deed:
    """``what`` at ``at`` seconds, healed ``lasts`` seconds later. ``where``: a job, or the number of a node."""

    at: float
    what: str
    where: str = ""
    lasts: float = 0.0


def throw(
    seed: int, jobs: int, faults: int, database: str, nodes: int = 3, *, pace: float = 1.0, haste: float = 1.0
) -> list[Deed]:
    """In the order of time. ``pace``: seconds between two submissions. ``haste``: how much sooner faults are healed."""
    dice = random.Random(f"{seed} {jobs} {faults} {database}")
    deeds = _faults(dice, faults, database, nodes, jobs * pace, haste)
    longest = max([jobs * pace, *(deed.at + 10 for deed in deeds)])  # jobs come longer than faults do
    kinds = dice.choices(list(KINDS), [kind.weight for kind in KINDS.values()], k=jobs)
    for number, kind in enumerate(kinds):
        name = f"{kind}-{number}"
        at = dice.uniform(0, longest)
        deeds.append(Deed(at, "submit", name))
        if then := kind_of(name).deed:
            deeds.append(Deed(at + dice.choice([0.1, dice.uniform(1, 15)]), then, name))
    return sorted(deeds)


def _faults(dice: random.Random, number: int, database: str, nodes: int, span: float, haste: float) -> list[Deed]:
    """Every kind in turn, in an order of the dice, each as soon as its place is whole again and the dice like. The last
    is the database's: a process that it blinds is not saved by its death."""
    kinds = [*NODE_FAULTS, *PORTAL_FAULTS, *DATABASE_FAULTS[database], RM, RM]
    dice.shuffle(kinds)
    order = [*islice(cycle(kinds), number - 1), dice.choice(list(DATABASE_FAULTS[database]))]
    deeds: list[Deed] = []
    whole = {**{str(nth): 2.0 for nth in range(1, nodes + 1)}, "portal": 2.0}
    at, mean = 2.0, span / max(1, number)
    for what in order:
        at += dice.expovariate(1 / mean) / 2
        if what in NODE_FAULTS:
            where = min(dice.sample(list(whole)[:-1], nodes), key=lambda place: whole[place] > at)
            busy = sorted(when for place, when in whole.items() if place not in ("portal", where))
            at = max(at, whole[where], busy[-AT_ONCE] if len(busy) >= AT_ONCE else 0)
            lasts = dice.uniform(*NODE_FAULTS[what]) / haste
            whole[where] = at + lasts + REST
            deeds.append(Deed(at, what, where, lasts))
        elif what == RM:
            deeds.append(Deed(at, RM, str(dice.randint(1, nodes))))
        else:
            shortest, longest = (PORTAL_FAULTS | DATABASE_FAULTS[database])[what]
            at = max(at, whole["portal"])
            lasts = dice.uniform(shortest, longest) / haste
            whole["portal"] = at + lasts + REST
            deeds.append(Deed(at, what, "", lasts))
    return deeds
