"""Ends with 0 when the portal of this container is well, wherever LONGSHORE_BIND has it listen.

With ``--alive PORT`` any answer of that port will do: a process that has lost its database need not be started again.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
import urllib.request

_ANY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104


def address(bind: str, scheme: str = "http") -> str:
    host, _, port = bind.rpartition(":")
    return f"{scheme}://{_ANY.get(host, host)}:{port}/healthz"


def is_alive(port: str) -> None:
    """Raises OSError when nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=8)
    try:
        connection.request("HEAD", "/healthz")
        connection.getresponse()
    except http.client.HTTPException as error:
        raise OSError(f"What answers at port {port} speaks no HTTP.") from error
    finally:
        connection.close()


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--alive"]:
            is_alive(sys.argv[2])
            sys.exit()
        scheme = "https" if os.environ.get("LONGSHORE_TLS_CERT") else "http"
        url = address(os.environ.get("LONGSHORE_BIND") or "127.0.0.1:9186", scheme)
        # The certificate need not name the address inside the container.
        urllib.request.urlopen(url, timeout=4, context=ssl._create_unverified_context()).close()  # noqa: S310, S323
    except OSError as error:
        sys.exit(str(error))
