"""``longshore logs``."""

from __future__ import annotations

import json
from typing import Any

import click

from ..words import ENDS
from .common import as_json, client, job_argument
from .output import say


@click.command()
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--grep", default="", help="Only lines that match; without capitals in any case.")
@click.option("--task", default="", help="Of one task, as worker-0.")
@as_json
def logs(job: str, follow: bool, grep: str, task: str, as_json: bool) -> None:
    """Print the logs of a job: of one task as it writes them, of many with the task before each line."""
    found = client().job(job)
    if as_json:
        for line in found.logs(follow=follow, grep=grep, task=task):
            click.echo(json.dumps(line._asdict(), ensure_ascii=False))
        return
    if follow:
        from ..following import Follower

        found.require_task(task)
        return follow_job(Follower(found.transport, found.path(), task=task, tell=say), grep)
    several, came = None if not task else False, False
    for line in found.logs(grep=grep, task=task):
        came = True
        if several is None:
            several = sum(len(role["taskStatuses"]) for role in found.detail()["taskRoles"].values()) > 1
        click.echo(f"[{line.task}] {line.text}" if several else line.text, err=not several and line.stream == "stderr")
    if not came and not grep:
        status = found.status()
        if not status["retries"] and status["appLaunchedTime"] is None:
            say("No task of it has run yet." if status["state"] not in ENDS else "No task of it ever ran.")


def follow_job(follower: Any, grep: str = "") -> None:
    """Print the pieces of its logs as they come: those of one task byte by byte, so that a progress bar moves."""
    import sys

    from ..following import LineCutter, expression

    wanted, cutter = expression(grep), LineCutter()

    def put(line: Any) -> None:
        if wanted.search(line.text):
            prefix = f"[{line.task}] " if follower.tasks > 1 else ""
            click.echo(f"{prefix}{line.text}", err=not prefix and line.stream == "stderr")

    for piece in follower.pieces():
        if follower.tasks == 1 and not grep:
            out = sys.stderr.buffer if piece.stream == "stderr" else sys.stdout.buffer
            out.write(piece.data)
            out.flush()
        else:
            for line in cutter.lines(piece):
                put(line)
    for line in cutter.rest():
        put(line)
