"""``longshore login``."""

from __future__ import annotations

import os
import sys

import click

from .. import account
from ..output import say


@click.command()
@click.argument("url", required=False)
@click.option("--user", help="Sign in with the password of this user.")
@click.option("--token", help="Keep this token of the page API tokens; - reads it from standard input.")
def login(url: str | None, user: str | None, token: str | None) -> None:
    """Sign in to a portal, once: by a token, or by the password for a token of 7 days.

    Only you can read the file it is kept in. LONGSHORE_URL and LONGSHORE_TOKEN win over it; the password is asked for,
    or is LONGSHORE_PASSWORD.
    """
    from ..transport import Transport

    known = account.load(url or "", "-") if url or os.environ.get("LONGSHORE_URL") else account.load()
    where = known.url
    if token is None:
        user = user or click.prompt("User", err=True)
        password = os.environ.get("LONGSHORE_PASSWORD") or click.prompt("Password", hide_input=True, err=True)
        body = {"username": user, "password": password, "expiration": 604_800}
        token = str(Transport(account.PortalAccount(where)).json("POST", "/api/v1/token", body)["token"])
    elif token == "-":  # noqa: S105 - the usual name of standard input
        token = sys.stdin.readline().strip()
    signed = account.PortalAccount(where, token)
    Transport(signed).json("GET", "/webhdfs/v1/", op="GETHOMEDIRECTORY")  # refused for a bad token
    say(f"Signed in to {where} as {signed.user}; kept in {account.save(signed)}")
