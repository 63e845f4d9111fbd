"""``longshore cp``."""

from __future__ import annotations

import click

from ..output import say
from .common import client


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("-f", "--force", is_flag=True, help="Replace what is there.")
def cp(source: str, target: str, force: bool) -> None:
    """Copy a file or a folder between this machine and the store.

    A path of the store begins with store:, as store:/users/mira/data. SOURCE/* is what is in a folder. A target that is
    a folder, or ends with /, is copied into.
    """
    from ..copying import copy

    done = copy(client().account, source, target, force=force, quiet=False)
    say(f"copied {done.files} file{'' if done.files == 1 else 's'}, {done.size} bytes")
    if done.left_out:
        say(f"left out, as said above: {done.left_out}")
        click.get_current_context().exit(74)
