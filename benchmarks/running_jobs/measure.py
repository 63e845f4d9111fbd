"""The names of what is measured inside jobs: ``make bench ARGS=inside`` is all, ``ARGS=inside.terminal`` one alone."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.report import Report
from benchmarks.running_jobs import logs, sampling, terminal, web_pages
from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode

# What each measures is in its module's head. A part leaves no job behind that runs.
PARTS: dict[str, Callable[[Report, Portal, BedNode], None]] = {
    "inside.terminal": terminal.measure,
    "inside.logs": logs.measure,
    "inside.web_pages": web_pages.measure,
    "inside.sampling": sampling.measure,
}
