"""Runs all faults, one after the other, and prints one table."""

from __future__ import annotations

import math

from benchmarks.faults import deeds
from benchmarks.faults.stage import SETTINGS, stage
from benchmarks.faults.trial import Row, fill_node, strike_node, strike_portal
from benchmarks.report import Report

_LINE = "  {:<33} {:>6} {:<8} {:>9}  {:<15} {:>4} {:>8} {:>8} {:>7} {:>7} {:>6} {:>6} {:>6}"
_HEAD = "fault/told/by/elsewhere/of it waits for/runs/reported/accepted/twice/doubled/leaked/stale/clean".split("/")


def measure(report: Report) -> None:
    settings = " ".join(f"{name}={value}" for name, value in SETTINGS.items())
    report.title(f"Faults on three real nodes of four GPUs ({settings}); seconds since the fault")
    print(_LINE.format(*_HEAD), flush=True)
    rows: list[Row] = []
    with stage() as one:
        for deed in deeds.NODES:
            rows.append(_shown(strike_node(one, deed)))
        rows.append(_shown(fill_node(one)))
        rows.extend(_shown(strike_portal(one, of_portal)) for of_portal in deeds.PORTAL)
    _judge(report, rows)


def _shown(row: Row) -> Row:
    times = (_seconds(row.told), row.by, _seconds(row.elsewhere), row.waits)
    counts = (row.runs, row.reported, row.accepted, row.twice, row.doubled, row.leaked, row.stale)
    print(_LINE.format(row.fault, *times, *counts, _seconds(row.clean)), flush=True)
    return row


def _judge(report: Report, rows: list[Row]) -> None:
    for name, found in (
        ("results accepted twice", sum(row.twice for row in rows)),
        ("containers doubled", sum(row.doubled for row in rows)),
        ("GPUs leaked after the return", sum(row.leaked for row in rows)),
        ("stale containers after the return", sum(row.stale for row in rows)),
    ):
        report.add(name, str(found), target="0", ok=found == 0)


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"
