"""Longshore from a terminal and from Python: the command ``longshore``, and this package.

    import longshore

    job = longshore.Client().run("python train.py", gpus=2, image="pytorch/pytorch")
    for line in job.logs(follow=True):
        print(line.text)
    print(job.wait()["state"])

Users have it as ``longshore``, from a wheel of its own (docs/use/command.md); in the clone it is ``client``, so it
imports what is its own relatively, and nothing of the portal. It runs on Python 3.9, and starts quickly: what takes
time to import is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import AsyncClient
    from .api import Client
    from .errors import ClientError
    from .jobs import RemoteJob
    from .words import VERSION

__all__ = ["VERSION", "AsyncClient", "Client", "ClientError", "RemoteJob"]
_FROM = {"AsyncClient": "aio", "Client": "api", "ClientError": "errors", "RemoteJob": "jobs", "VERSION": "words"}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_FROM[name]}", __name__), name)
