"""``make bench ARGS=inside``: all parts on one portal and one engine; ``ARGS=inside.terminal`` is one of them alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.inside import logs, sampling, terminal, web_pages
from benchmarks.report import Report
from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode

# What each measures is in its module's head. A part leaves no job behind that runs.
PARTS: dict[str, Callable[[Report, Portal, BedNode], None]] = {
    "terminal": terminal.measure,
    "logs": logs.measure,
    "web_pages": web_pages.measure,
    "sampling": sampling.measure,
}
NAMES = ("inside", *(f"inside.{part}" for part in PARTS))


def measure(report: Report, portal: Portal, node: BedNode, wanted: Sequence[str]) -> None:
    for name, part in PARTS.items():
        if "inside" in wanted or f"inside.{name}" in wanted:
            part(report, portal, node)
