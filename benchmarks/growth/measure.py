"""How the cost of each question grows with the nodes, with the jobs that ended, and with the tasks of one job."""

from __future__ import annotations

from itertools import pairwise
from math import log

from benchmarks.processes import alone
from benchmarks.report import Report, ms
from benchmarks.sizes import size

SIZES: dict[str, tuple[int, ...]] = {
    "nodes": size((1, 10, 100, 1_000), (1, 4)),
    "jobs": size((1_000, 10_000, 100_000, 1_000_000), (10, 40)),
    "tasks": size((1, 10, 100, 1_000, 10_000), (1, 8)),
}
TITLES = {
    "nodes": "nodes, with 8 virtual clusters that are full and a queue as long as they are large",
    "jobs": "jobs that ended in the last year, beside a few that run and wait",
    "tasks": "tasks of one job",
}
MOST = 1.1
FLOOR = 0.005  # seconds: what costs less counts as that, since the noise of so little says nothing


def measure(report: Report) -> None:
    for what, numbers in SIZES.items():
        found = [alone("benchmarks.growth.ask", what, str(number)) for number in numbers]
        report.title(f"CPU with {', '.join(f'{number:,}' for number in numbers)} {TITLES[what]}")
        for name in found[0]:
            cost = [one[name] for one in found]
            steepest = exponent(numbers, cost)
            report.add(name, f"n^{steepest:.2f}", ", ".join(map(ms, cost)), f"<= n^{MOST}", steepest <= MOST)


def exponent(numbers: tuple[int, ...], seconds: list[float]) -> float:
    """That of the steepest step: with 1 a thing that there is ten times as often costs ten times as much."""
    costs = [max(FLOOR, each) for each in seconds]
    steps = zip(pairwise(numbers), pairwise(costs), strict=True)
    return max(log(after / before) / log(many / few) for (few, many), (before, after) in steps)
