"""``longshore login``, ``usage`` and ``completion``."""

from __future__ import annotations

import os
import sys

import click

from .. import account
from ..errors import NotAllowed, NotSignedIn, WrongConfig
from .common import as_json, client
from .output import answer, say, table

_NOBODY = "Nobody answers here: sign in in a terminal, or with --user and LONGSHORE_PASSWORD, or with --token -."


@click.command()
@click.argument("url", required=False)
@click.option("--user", help="Sign in with the password of this user.")
@click.option("--token", help="Keep this token of the page API tokens; - reads it from standard input.")
def login(url: str | None, user: str | None, token: str | None) -> None:
    """Sign in to a portal, once: on its page in your browser, or by a password, for a token of 7 days; or by a token.

    Only you can read the file it is kept in. LONGSHORE_URL and LONGSHORE_TOKEN win over it; the password is asked for
    where there is no browser, or is LONGSHORE_PASSWORD.
    """
    from ..transport import Transport
    from . import browser

    known = account.load(url or "", "-") if url or os.environ.get("LONGSHORE_URL") else account.load()
    where = known.url
    if token is None and not user and browser.is_there():
        token = browser.token(Transport(account.PortalAccount(where)), say)
    elif token is None:
        try:
            user = user or click.prompt("User", err=True)
            password = os.environ.get("LONGSHORE_PASSWORD") or click.prompt("Password", hide_input=True, err=True)
        except click.Abort:
            if sys.stdin.isatty():
                raise
            raise NotAllowed(_NOBODY) from None
        body = {"username": user, "password": password, "expiration": 604_800}
        try:
            token = str(Transport(account.PortalAccount(where)).json("POST", "/api/v1/token", body)["token"])
        except WrongConfig as error:  # what the API says of a password
            raise NotAllowed(str(error)) from None
    elif token == "-":  # noqa: S105 - the usual name of standard input
        token = sys.stdin.readline().strip()
    signed = account.PortalAccount(where, token)
    try:
        Transport(signed).json("GET", "/webhdfs/v1/", op="GETHOMEDIRECTORY")
    except NotSignedIn:
        raise
    except NotAllowed:
        pass  # a good token, which opens no files
    say(f"Signed in to {where} as {signed.user}; kept in {account.save(signed)}")


@click.command()
@click.option("--from", "begin", default="", help="As 7d or 2026-11-20; 30 days without it.")
@click.option("--to", "end", default="", help="Until then; now without it.")
@click.option("--by", default="", help="user, vc, state or day.")
@click.option("--vc", default="", help="Of this virtual cluster.")
@as_json
def usage(begin: str, end: str, by: str, vc: str, as_json: bool) -> None:
    """Say who used how much, waited how long, and what was for nothing."""
    found = client().usage(begin=begin, end=end, by=by, vc=vc)
    if as_json:
        return answer(found)
    table(
        (found["by"].upper(), "GPU-HOURS", "CPU-HOURS", "JOBS", "WAITED", "WASTED"),
        [
            (
                row["key"] if row["key"] else name,
                f"{row['gpuHours']:.1f}",
                f"{row['cpuHours']:.1f}",
                row["jobs"],
                "-" if row["waited"]["mean"] is None else f"{row['waited']['mean'] / 60_000:.1f}m",
                f"{sum(row['wasted'].values()):.1f}",
            )
            for name, row in [*(("others", row) for row in found["rows"]), ("all", {**found["total"], "key": ""})]
        ],
    )


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what completes commands and names of jobs: eval "$(longshore completion bash)" in ~/.bashrc."""
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None
    click.echo(maker(click.get_current_context().find_root().command, {}, "longshore", "_LONGSHORE_COMPLETE").source())
