"""``longshore cp``."""

from __future__ import annotations

import click

from .common import client
from .output import say


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("-f", "--force", is_flag=True, help="Replace what is there.")
@click.option("-c", "--continue", "missing", is_flag=True, help="Replace what is not as long as here, or older.")
@click.option("--checksum", is_flag=True, help="As -c, by the content too; what was copied is compared as well.")
def cp(source: str, target: str, force: bool, missing: bool, checksum: bool) -> None:
    """Copy a file or a folder between this machine and the store.

    A path of the store begins with store:, as store:/users/mira/data. SOURCE/* is what is in a folder. A target that is
    a folder, or ends with /, is copied into; a folder whose name ends TARGET is that one. The same command again goes
    on where it was, and copies nothing that is there, as long as here and not older.
    """
    from ..copying import copy
    from ..pai_fs.copying import CopyOptions

    options = CopyOptions(force=force or missing or checksum, missing=missing or not force, checksum=checksum)
    done = copy(client().account, source, target, options, quiet=False)
    say(f"copied {done}")
    if done.left_out:
        say(f"left out, as said above: {done.left_out}")
        click.get_current_context().exit(74)
