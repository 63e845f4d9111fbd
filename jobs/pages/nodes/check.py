"""Shows what the last check of the cluster found."""

from __future__ import annotations

from typing import Any

from jobs.checking import run
from jobs.checking.plan import PARTS, Row


def check_page() -> dict[str, Any]:
    """The context of jobs/check.html; two queries."""
    ended, runs = run.last()
    data = ended.data if ended else {}
    rows = [Row(**row) for row in data.get("rows", ())]
    return {
        "nav": "nodes",
        "parts": PARTS,
        "runs": runs,
        "ended": ended,
        "rows": rows,
        "skipped": sum(bool(row.skipped) for row in rows),
        "nodes": data.get("nodes", 0),
        "works": data.get("works", 0),
        "limit": run.LIMIT,
    }


def check_version() -> str:
    ended, runs = run.last()
    return f"{ended.pk if ended else 0}.{runs}"
