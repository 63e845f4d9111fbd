"""Each world in a process of its own, beside the empty one."""

from __future__ import annotations

from typing import Any

from benchmarks.limits.worlds import SIZES, WORLDS
from benchmarks.processes import alone
from benchmarks.report import Report, ms
from benchmarks.sizes import size
from tests.bed.postgres_bed import postgres

MOST, SLACK = 2.0, 0.015  # times the CPU in an empty portal, and seconds beside it
MANY = size(len(WORLDS), 2)  # worlds


def measure(report: Report) -> None:
    """What the large jobs of one user cost another one, who looks at a portal that is else nearly empty."""
    _tell_all(report, {world: alone("benchmarks.limits.ask", world) for world in [*WORLDS][:MANY]})


def on_postgres(report: Report) -> None:
    """The same with PostgreSQL, whose CPU counts too."""
    found = {}
    for world in [*WORLDS][:MANY]:
        with postgres() as url:
            found[world] = alone("benchmarks.limits.ask", world, DATABASE_URL=url)
    _tell_all(report, found)


def _tell_all(report: Report, found: dict[str, dict[str, Any]]) -> None:
    floor = found.pop("empty")
    for world, asked in found.items():
        report.title(f"With {world} ({', '.join(f'{number:,} {what}' for what, number in SIZES.items())})")
        for name, one in asked.items():
            if name == "memory":
                report.add("memory of the process at its peak", f"{one['kb'] / 1000:.0f} MB")
            else:
                _tell(report, name, one, floor.get(name))


def _tell(report: Report, name: str, one: dict[str, Any], empty: dict[str, Any] | None) -> None:
    if empty is None or name.startswith("pass"):
        report.add(name, f"{ms(one['cpu'])} of CPU", f"the first {ms(one['first'])}")
        return
    beside = f"{one['cpu'] / empty['cpu']:.1f} x an empty portal's {ms(empty['cpu'])}; the first {ms(one['first'])}"
    report.add(name, f"{ms(one['cpu'])} of CPU", beside, "<= 2 x + 15 ms", one["cpu"] <= MOST * empty["cpu"] + SLACK)
