"""Ends with 0 when the portal of this container answers, wherever LONGSHORE_BIND has it listen."""

from __future__ import annotations

import os
import sys
import urllib.request

_ANY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104


def address(bind: str) -> str:
    host, _, port = bind.rpartition(":")
    return f"http://{_ANY.get(host, host)}:{port}/healthz"


if __name__ == "__main__":
    try:
        urllib.request.urlopen(address(os.environ.get("LONGSHORE_BIND") or "127.0.0.1:9186"), timeout=4).close()  # noqa: S310
    except OSError as error:
        sys.exit(str(error))
