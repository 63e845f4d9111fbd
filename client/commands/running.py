"""``longshore run``, ``submit`` and ``wait``: each may end with the exit code of the job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..errors import WrongConfig
from ..words import exit_code
from .common import as_json, client, job_argument
from .output import answer, say

if TYPE_CHECKING:
    from ..jobs import RemoteJob


_AMOUNTS = [
    click.option("--gpus", default=0, type=click.IntRange(0), help="GPUs."),
    click.option("--cpus", default=0, type=click.IntRange(0), help="Cores."),
    click.option("--memory", default="", help="As 16g."),
    click.option("--vc", default="", help="Virtual cluster."),
    click.option("--image", default="", help="Docker image."),
    click.option("--name", default="", help="Of the job."),
]


def amounts(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of what a job asks for."""
    for option in reversed(_AMOUNTS):
        function = option(function)
    return function


@click.command(context_settings={"allow_interspersed_args": False})  # what follows the command's name is its own
@amounts
@click.option("-C", "--folder", default=".", help="What is uploaded; this folder without it.")
@click.option("-d", "--detach", is_flag=True, help="Submit, and do not follow.")
@click.argument("command", nargs=-1, required=True)
@as_json
def run(command: tuple[str, ...], folder: str, detach: bool, as_json: bool, **asked: Any) -> None:
    """Run a command in this folder on the cluster, and follow it.

    The folder goes along but for what .longshoreignore names (or else .gitignore). Ctrl-C asks, twice stops the job.
    Ends with the job's exit code. Without amounts there are 4 cores and 8g for each GPU; LONGSHORE_IMAGE is the image
    where none is given.

    longshore run --gpus 2 --vc vision --image pytorch/pytorch -- python train.py --epochs 3
    """
    text = command[0] if len(command) == 1 else " ".join(map(shlex.quote, command))
    try:
        job = client().run(text, folder=folder, tell=say, **asked)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was submitted") from None
    say(f"{job.full_name} was submitted: {job.url}")
    if detach:
        return answer(job.detail()) if as_json else None
    _follow(job, as_json)


@click.command()
@click.argument("file", required=False)
@click.option("--again", metavar="JOB", help="In place of a file: the config of this job, with what is given below.")
@amounts
@click.option("-f", "--follow", is_flag=True, help="Follow its logs, and end with its exit code.")
@as_json
def submit(file: str | None, again: str | None, follow: bool, as_json: bool, name: str, **changed: Any) -> None:
    """Submit a job config; - reads standard input.

    longshore submit --again train-1127-0931 --memory 32g
    """
    if (file is None) == (again is None):
        raise click.UsageError("Name a file, or say --again JOB.")
    portal = client()
    if again:
        job = portal.again(again, as_name=name, **changed)
    else:
        if name or any(changed.values()):
            raise click.UsageError("What the file says counts: other amounts are for --again.")
        try:
            with click.open_file(str(file), encoding="utf-8") as opened:
                text = opened.read()
        except UnicodeDecodeError:
            raise WrongConfig(f"{file} is no text in UTF-8.") from None
        job = portal.submit(text)
    say(f"{job.full_name} was submitted: {job.url}")
    if follow:
        return _follow(job, as_json)
    if as_json:
        answer(job.detail())


@click.command()
@job_argument
@as_json
def wait(job: str, as_json: bool) -> None:
    """Wait until a job has ended, and end with its exit code."""
    found = client().job(job)
    _end(found, found.wait(tell=say), as_json)


def _follow(job: RemoteJob, as_json: bool) -> None:
    from ..following import Follower
    from .logs import follow_job

    follower, pressed = Follower(job.transport, job.path(), tell=say), 0
    while True:
        try:
            follow_job(follower)
            return _end(job, follower.status, as_json, interrupted=pressed > 1)
        except KeyboardInterrupt:
            pressed += 1
            try:
                leaves = pressed > 2 or (pressed == 1 and _leaves())
            except (KeyboardInterrupt, click.Abort):
                pressed, leaves = 2, False
            if leaves:
                say(f"{job.full_name} goes on: longshore logs -f {job.name}, or longshore stop {job.name}")
                raise
            if pressed == 2:
                job.stop()
                say(f"{job.full_name} was told to stop.")


def _leaves() -> bool:
    """What the first Ctrl-C asks; the second stops the job, also where it is the answer."""
    say("Ctrl-C again stops the job. It runs on.")
    return sys.stdin.isatty() and bool(
        click.prompt("Enter follows it again, q leaves it", "", show_default=False, err=True)
    )


def _end(job: RemoteJob, status: Any, as_json: bool, *, interrupted: bool = False) -> None:
    """Say how it ended, and end with its code: its own where it has one, 1 where the platform ended it."""
    from .jobs import reasons

    state = status["state"]
    if state == "FAILED" and not as_json:
        status = job.diagnosed()
    if as_json:
        answer(job.detail())
    elif state != "SUCCEEDED":
        for line in filter(None, reasons(status)):
            click.echo(line, err=True)
    code = exit_code(status)
    say(f"{job.full_name} {state}" + (f", exit code {code}" if state == "FAILED" else ""))
    click.get_current_context().exit(130 if interrupted else code)
