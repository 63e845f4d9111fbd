"""Runs all faults, one after the other, and prints one table."""

from __future__ import annotations

import math

from benchmarks.faults import deeds
from benchmarks.faults.stage import SETTINGS, stage
from benchmarks.faults.trial import Row, fill_node, strike_node, strike_portal
from benchmarks.report import Report
from benchmarks.sizes import size

_LINE = (
    "  {fault:<33} {told:>6} {by:<8} {elsewhere:>9}  {waits:<15}"
    " {runs:>4} {reported:>8} {accepted:>8} {twice:>5} {doubled:>7} {leaked:>6} {stale:>5} {clean:>5}"
)
_NAMES = {"waits": "of it waits for"}  # of columns that are not called as in Row

MANY = size(99, 1)  # faults of each kind


def measure(report: Report) -> None:
    settings = " ".join(f"{name}={value}" for name, value in SETTINGS.items())
    report.title(f"Faults on three real nodes of four GPUs ({settings}); seconds since the fault")
    print(_LINE.format(**{name: _NAMES.get(name, name) for name in Row.__dataclass_fields__}), flush=True)
    with stage() as one:
        rows = [_shown(strike_node(one, deed)) for deed in deeds.NODES[-MANY:]]
        rows.append(_shown(fill_node(one)))
        rows += [_shown(strike_portal(one, deed)) for deed in deeds.PORTAL[-MANY:]]
    for name, found in (
        ("results accepted twice", sum(row.twice for row in rows)),
        ("containers doubled", sum(row.doubled for row in rows)),
        ("GPUs leaked after the return", sum(row.leaked for row in rows)),
        ("stale containers after the return", sum(row.stale for row in rows)),
    ):
        report.add(name, str(found), target="0", ok=found == 0)


def _shown(row: Row) -> Row:
    times = {"told": _seconds(row.told), "elsewhere": _seconds(row.elsewhere), "clean": _seconds(row.clean)}
    print(_LINE.format(**{**vars(row), **times}), flush=True)
    return row


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"
