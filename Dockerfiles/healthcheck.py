"""Ends with 0 when the portal of this container answers, wherever LONGSHORE_BIND has it listen."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request

_ANY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104


def address(bind: str, scheme: str = "http") -> str:
    host, _, port = bind.rpartition(":")
    return f"{scheme}://{_ANY.get(host, host)}:{port}/healthz"


if __name__ == "__main__":
    try:
        scheme = "https" if os.environ.get("LONGSHORE_TLS_CERT") else "http"
        url = address(os.environ.get("LONGSHORE_BIND") or "127.0.0.1:9186", scheme)
        # The certificate need not name the address inside the container.
        urllib.request.urlopen(url, timeout=4, context=ssl._create_unverified_context()).close()  # noqa: S310, S323
    except OSError as error:
        sys.exit(str(error))
