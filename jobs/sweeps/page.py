"""Shows one sweep: its jobs with the values of their parameters, and all of them as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from jobs import access, queries
from jobs.models import Job, Sweep
from jobs.pages.rows import JobRow, SweepRow, rows_of, sweeps_of, with_gpu_type
from jobs.submitting import sweeps
from portal.accounts.viewer import Viewer


@dataclass(frozen=True, slots=True)
class Line:
    """One job. ``values`` are in the order of the parameters; empty for viewers who may not read configs."""

    row: JobRow
    values: tuple[str, ...]
    exit_code: int | None


def page(sweep: Sweep, viewer: Viewer) -> dict[str, Any]:
    """The context of jobs/sweep.html. The number of queries does not grow with the jobs."""
    jobs = queries.visible_jobs().filter(sweep=sweep).order_by("id")
    rows = rows_of(list(with_gpu_type(queries.list_jobs()).filter(sweep=sweep).order_by("id")), viewer)
    may_read = bool(rows) and access.may_read_config(viewer, Job(username=sweep.username))
    found = {job.pk: (sweeps.values_of(job), job.exit_code) for job in jobs.only("spec", "exit_code")}
    [summary] = sweeps_of([sweep.pk], viewer) or [SweepRow(sweep.pk, sweep.username, sweep.name, {}, 0, False)]
    parameters = sweep.parameters if may_read else []
    return {
        "nav": "jobs",
        "sweep": summary,
        "made": sweep,
        "parameters": parameters,
        "lines": [_line(row, parameters, *found.get(row.id, ({}, None))) for row in rows],
        "json": f"/api/v1/sweeps/{quote(sweep.username)}~{quote(sweep.name)}",
        "again": f"/submit?sweep={quote(sweep.username)}/{quote(sweep.name)}" if may_read else "",
    }


def _line(row: JobRow, parameters: list[str], values: dict[str, str], exit_code: int | None) -> Line:
    return Line(row, tuple(values.get(name, "–") for name in parameters), exit_code)
