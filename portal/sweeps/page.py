"""Shows one sweep: its jobs with the values of their parameters, and all of them as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from base.accounts.viewer import Viewer
from base.core import words
from jobs import access, queries
from jobs.models import Job, Sweep
from jobs.submitting import sweeps
from portal.shared.jobs.rows import JobRow, SweepRow, rows_of, sweeps_of


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One job. ``values`` are in the order of the parameters; empty for viewers who may not read configs."""

    row: JobRow
    values: tuple[str, ...]
    exit_code: int | None


def page(sweep: Sweep, viewer: Viewer) -> dict[str, Any]:
    """The context of sweeps/sweep.html, without parameters for viewers who may not read configs. The number of queries
    does not grow with the jobs."""
    jobs = queries.visible_jobs().filter(sweep=sweep).order_by("id")
    rows = rows_of(list(queries.list_jobs().filter(sweep=sweep).order_by("id")), viewer)
    may_read = bool(rows) and access.may_read_config(viewer, Job(username=sweep.username))
    read = jobs.only("spec", "exit_code") if may_read else ()
    known = {job.pk: (sweeps.values_of(job), job.exit_code) for job in read}
    [summary] = sweeps_of([sweep.pk], viewer) or [SweepRow(sweep.pk, sweep.username, sweep.name)]
    parameters = sweep.parameters if may_read else []
    return {
        "nav": "jobs",
        "sweep": summary,
        "made": sweep,
        "parameters": parameters,
        "lines": [
            SweepLine(row, tuple(values.get(name, words.NOTHING) for name in parameters), exit_code)
            for row in rows
            for values, exit_code in [known.get(row.id, ({}, None))]
        ],
        "json": f"/api/v1/sweeps/{quote(sweep.username)}~{quote(sweep.name)}",
        "again": f"/submit?sweep={quote(sweep.username)}/{quote(sweep.name)}" if may_read else "",
    }
