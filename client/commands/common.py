"""What commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import click

if TYPE_CHECKING:
    from ..api import Client

as_json = click.option("--json", "as_json", is_flag=True, help="Print the API's answer.")


def client() -> Client:
    from ..api import Client

    return Client()


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Jobs that begin so, for the shell's completion; none where the portal cannot be asked."""
    try:
        rows = client().jobs(limit=100)
        return [job.name for job in rows if job.name.startswith(incomplete)]
    except Exception:
        return []


def job_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("job", shell_complete=_names)(function)
