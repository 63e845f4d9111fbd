"""``longshore exec``, ``forward`` and ``ssh``: what leads into a running task."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..errors import NotThere
from ..pai_fs.kept import keep
from .common import client, job_argument
from .output import say

_SUFFIX = ".longshore"
_CONFIG = """# Made by longshore ssh --config: ssh train.longshore, ssh worker-1.train.longshore
Host *{suffix}
  User root
  ProxyCommand {program} ssh --proxy %n
  IdentityFile {keys}/%n
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
task_option = click.option("--task", default="", help="As worker-0; the first one without it.")


@click.command("exec", context_settings={"allow_interspersed_args": False})
@task_option
@job_argument
@click.argument("command", nargs=-1)
def execute(job: str, task: str, command: tuple[str, ...]) -> None:
    """Open a shell in a running task, or run a command in it, and end with its exit code.

    It comes through the portal and needs nothing in the image but /bin/sh. stdout and stderr of a command are one.
    """
    import asyncio

    from ..tunnels import terminal

    found = client().job(job)
    command = command[1:] if command[:1] == ("--",) else command
    text = command[0] if len(command) == 1 else " ".join(map(shlex.quote, command))
    if text and not sys.stdout.isatty():
        text = f"stty -opost -echo 2>/dev/null; {text}"  # bytes as they are
    with _raw():
        code = asyncio.run(terminal(found, chosen_task(found, task), text, shutil.get_terminal_size()))
    click.get_current_context().exit(code)


@click.command()
@task_option
@click.option(
    "-l", "--local", type=click.IntRange(0, 65_535), help="Port of this machine; that of the task without it."
)
@job_argument
@click.argument("port")
def forward(job: str, port: str, task: str, local: int | None) -> None:
    """Make a port of a task one of this machine, as http://127.0.0.1:8888.

    PORT is the label of a port of the job's config, or its number; `longshore show` has them.
    """
    import asyncio

    from .. import tunnels

    found = client().job(job)
    own = local if local is not None else int(port) if port.isdecimal() else 0
    asyncio.run(tunnels.forward(found, chosen_task(found, task), port, own, say))


@click.command(context_settings={"allow_interspersed_args": False})
@task_option
@click.option("--config", "configure", is_flag=True, help="Write what ~/.ssh/config includes, for sftp and editors.")
@click.option("--proxy", hidden=True, default="")
@click.argument("job", required=False)
@click.argument("arguments", nargs=-1)
def ssh(job: str | None, task: str, configure: bool, proxy: str, arguments: tuple[str, ...]) -> None:
    """Log in to a task by ssh, through the portal. Its image needs an sshd.

    After `longshore ssh --config`, sftp, rsync and editors know each job as train.longshore, and its tasks as
    worker-1.train.longshore.
    """
    if proxy:
        return _proxy(proxy)
    config = _written()
    if configure:
        return say(f"Put this line on top of ~/.ssh/config: Include {config}")
    if not job:
        raise click.UsageError("Name a job, or say --config.")
    portal = client()
    found = portal.job(job)
    found.require_task(task)  # the three raise what ssh would end with 255 for
    chosen_task(found, "")
    _key_link(found)
    name = found.name if found.username == portal.username else found.full_name
    host = ".".join(filter(None, [task, name])) + _SUFFIX
    os.execvp("ssh", ["ssh", "-F", str(config), host, *arguments])


def chosen_task(job: Any, task: str) -> str:
    """The first one that runs where none is named. Raises NotThere."""
    if task:
        job.require_task(task)
        return task
    for role, told in job.detail()["taskRoles"].items():
        for each in told["taskStatuses"]:
            if each["taskState"] == "RUNNING":
                return f"{role}-{each['taskIndex']}"
    raise NotThere(f"No task of {job.full_name} runs: longshore why {job.name}")


def _folder() -> Path:
    from ..account import account_file

    return account_file().parent


def _written() -> Path:
    config, keys = _folder() / "ssh_config", _folder() / "keys"
    root, package = Path(__file__).parents[2], (__package__ or "").partition(".")[0]
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    program = shlex.join(["env", f"PYTHONPATH={root}", sys.executable, *safe, "-m", f"{package}.main"])
    keep(config, _CONFIG.format(suffix=_SUFFIX, program=program, keys=keys).encode())
    return config


def _proxy(host: str) -> None:
    """Fetch the key of the job, and be its connection. ssh reads the key later than it begins this."""
    import asyncio

    from ..tunnels import pipe

    portal, name = client(), host[: -len(_SUFFIX)]
    found = portal.job(name)
    task = ""
    if "." in name and not _is_there(found):
        task, _, rest = name.partition(".")
        found = portal.job(rest)
    link = _key_link(found)
    key, _ = found.transport.data("GET", link[link.index("/webhdfs/") :])
    keep(_folder() / "keys" / host, key)
    asyncio.run(pipe(found, chosen_task(found, task), "ssh"))


def _key_link(job: Any) -> str:
    try:
        return str(job.ask("GET", "ssh")["keyPair"]["privateKeyDirectDownloadLink"])
    except NotThere as error:
        raise NotThere(f"{error} Its image needs an sshd; longshore exec {job.name} needs none.") from None


def _is_there(job: Any) -> bool:
    try:
        job.status()
    except NotThere:
        return False
    return True


@contextmanager
def _raw() -> Iterator[None]:
    """Keys go to the task one by one, also Ctrl-C, while this is a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
