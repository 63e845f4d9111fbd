"""``longshore ls``, ``show``, ``why`` and ``stop``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import NotAllowed
from ..words import ENDS, shown_code
from . import browser
from .common import as_json, client, job_argument
from .output import answer, coloured, lasting, moment, say, table


@click.command()
@click.option("-a", "--all", "everybody", is_flag=True, help="Of all users.")
@click.option("--user", help="Of this user.")
@click.option("--vc", help="In this virtual cluster.")
@click.option("--state", help="WAITING, RUNNING, SUCCEEDED, FAILED or STOPPED.")
@click.option("--keyword", help="With this in their names.")
@click.option("--since", help="Submitted since: 24h, 7d or 2026-11-20.")
@click.option("-n", "limit", default=20, show_default=True, help="At most so many.")
@as_json
def ls(everybody: bool, user: str | None, limit: int, as_json: bool, **which: str | None) -> None:
    """List jobs, newest first."""
    owner = "" if everybody else user
    asked = {name: value for name, value in which.items() if value}
    jobs = client().jobs(user=owner, limit=limit, **asked)
    if as_json:
        return answer([job.line for job in jobs])
    if not jobs:
        return say("No jobs.")
    table(
        ("JOB", "STATE", "VC", "GPUS", "TASKS", "SUBMITTED", "TOOK", "EXIT"),
        [
            (
                job.full_name if everybody or user else job.name,
                job.line["state"],
                job.line["virtualCluster"],
                job.line["totalGpuNumber"],
                job.line["totalTaskNumber"],
                moment(job.line["createdTime"]),
                lasting(job.line["createdTime"], job.line["completedTime"]),
                "-" if (code := shown_code(job.line)) is None else code,
            )
            for job in jobs
        ],
    )


@click.command()
@job_argument
@as_json
def show(job: str, as_json: bool) -> None:
    """Show a job, its tasks, and why it waits or failed."""
    found = client().job(job)
    detail = found.detail()
    if as_json:
        return answer(detail)
    status = detail["jobStatus"]
    click.echo(coloured(f"{found.full_name}  {status['state']}  in {status['virtualCluster']}  {found.url}"))
    times = f"submitted {moment(status['createdTime'])}, took"
    click.echo(f"{times} {lasting(status['createdTime'], status['completedTime'])}, retries {status['retries']}")
    rows = [
        (
            f"{role}-{task['taskIndex']}",
            task["taskState"],
            task["nodeName"] or "-",
            task["containerIp"] or "-",
            " ".join(f"{label}={port}" for label, port in (task["containerPorts"] or {}).items()) or "-",
            task["exitReason"] or "-",
        )
        for role, told in detail["taskRoles"].items()
        for task in told["taskStatuses"]
    ]
    if rows:
        click.echo()
        table(("TASK", "STATE", "NODE", "ADDRESS", "PORTS", "END"), rows)
    for line in reasons(status):
        click.echo(line)


@click.command()
@job_argument
@as_json
def why(job: str, as_json: bool) -> None:
    """Say why a job waits, or why it failed, and what helps."""
    from ..errors import NotThere

    found = client().job(job)
    status = found.status()
    told: dict[str, Any] = {}
    if status["state"] == "WAITING":
        try:
            told = found.why()
        except NotThere:  # it has just been placed
            status = found.status()
    if as_json:
        return answer(told or {name: status.get(name) for name in ("state", "diagnosis", "appExitSpec")})
    lines = [*waiting(told), *changes(told)] if told else reasons(status)
    for line in lines or [f"{found.full_name} is {status['state']}: nothing is to be explained."]:
        click.echo(line)


@click.command()
@job_argument
@click.option("--now", is_flag=True, help="Without the seconds that its tasks have to end.")
def stop(job: str, now: bool) -> None:
    """Stop a job."""
    found = client().job(job)
    try:
        state = found.state
    except NotAllowed:  # a token may write jobs and not read them
        state = ""
    if state in ENDS:
        return say(f"{found.full_name} has ended already: {state}.")
    found.stop(now=now)
    say(f"{found.full_name} was told to stop.")


@click.command("open")
@job_argument
@click.option("--print", "only_print", is_flag=True, help="Print the address, and open nothing.")
def open_page(job: str, only_print: bool) -> None:
    """Open the page of a job in the browser."""
    found = client().job(job)
    if only_print or not browser.is_there() or click.launch(found.url):
        click.echo(found.url)


def reasons(status: Any) -> list[str]:
    """Why a job waits, failed, or was stopped, of its status alone."""
    if reason := status.get("waitingReason"):
        return ["", *waiting(reason)]
    if not (found := status.get("diagnosis")):
        spec = status.get("appExitSpec") if status["state"] in ("FAILED", "STOPPED") else None
        return ["", spec["reason"]] if spec and spec.get("reason") else []
    certain = {"certain": "", "likely": "likely: ", "possible": "possibly: "}[found["certainty"]]
    who = " on ".join(each for each in (found["task"], found["node"]) if each)
    lines = ["", click.style(f"{certain}{found['name']} ({who})" if who else f"{certain}{found['name']}", "red")]
    lines += [text for text in (found.get("says", ""), found["advice"]) if text]
    lines += [f"  {'>' if line['mark'] else ' '} {line['text']}" for line in found.get("lines", ())]
    return [*lines, *(f"- {action['label']}" for action in found["actions"])]


def waiting(reason: Any) -> list[str]:
    lines = [click.style(reason["summary"], "yellow")]
    lines += [f"- {each['sentence']}" for each in reason["blockers"] if each["sentence"] != reason["summary"]]
    if position := reason.get("position"):
        lines.append(f"place {position} in its queue")
    if forecast := reason.get("forecast"):
        lines.append(f"likely start {moment(forecast['p50'])}, by {moment(forecast['p90'])} in nine of ten cases")
    if kept := reason.get("reservation"):
        lines.append(kept["sentence"])
    return lines


def changes(told: Any) -> list[str]:
    """Each change with which it would start now."""
    found = [f"- {change['sentence']}" for change in told["changes"]]
    return ["It would start now with one of:", *found] if found else []
