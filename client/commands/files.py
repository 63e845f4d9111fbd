"""``longshore cp``."""

from __future__ import annotations

import click

from .common import client
from .output import say


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("-f", "--force", is_flag=True, help="Replace what is there.")
@click.option("-c", "--continue", "missing", is_flag=True, help="Only what is not there yet, or not as long as here.")
@click.option("--checksum", is_flag=True, help="As -c, by the content too; what was copied is compared as well.")
def cp(source: str, target: str, force: bool, missing: bool, checksum: bool) -> None:
    """Copy a file or a folder between this machine and the store.

    A path of the store begins with store:, as store:/users/mira/data. SOURCE/* is what is in a folder. A target that is
    a folder, or ends with /, is copied into. After a break the same command goes on: in a large file by itself, in a
    folder with -c where TARGET ends with /.
    """
    from ..copying import copy

    done = copy(client().account, source, target, force=force, missing=missing, checksum=checksum, quiet=False)
    say(f"copied {done.files} file{'' if done.files == 1 else 's'}, {done.size} bytes")
    if done.left_out:
        say(f"left out, as said above: {done.left_out}")
        click.get_current_context().exit(74)
