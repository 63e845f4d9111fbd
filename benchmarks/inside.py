"""What a day with a job costs: its logs."""

from __future__ import annotations

from benchmarks.inside_logs import measure as logs
from benchmarks.report import Report


def measure(report: Report) -> None:
    logs.measure(report)
