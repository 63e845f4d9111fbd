"""Sends bytes to a DataNode, piece by piece. No thread is held between two pieces, as a library's request would do."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from requests.utils import requote_uri

from portal.files.store.base import StoreUnavailable

SENDS, ANSWERS = 15.0, 30.0  # seconds a busy DataNode may take for a piece, and for its answer


class Sending:
    """The body of one PUT or POST to ``url``. Raises StoreUnavailable."""

    def __init__(self, method: str, url: str) -> None:
        parts = urlsplit(requote_uri(url))
        host, port = parts.hostname or "", parts.port
        with _translated():
            if parts.scheme == "https":
                context = ssl.create_default_context()
                self._http: HTTPConnection = HTTPSConnection(host, port, timeout=SENDS, context=context)
            else:
                self._http = HTTPConnection(host, port, timeout=SENDS)
            self._http.putrequest(method, f"{parts.path}?{parts.query}")
            self._http.putheader("Content-Type", "application/octet-stream")  # HttpFS takes no other
            self._http.putheader("Transfer-Encoding", "chunked")
            self._http.endheaders()

    def add(self, piece: bytes) -> None:
        if piece:
            with _translated():
                self._http.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    def end(self) -> bytes | None:
        """End the body. The DataNode's error, None when it has taken all."""
        with _translated():
            self._http.send(b"0\r\n\r\n")
            if self._http.sock is not None:
                self._http.sock.settimeout(ANSWERS)
            answer = self._http.getresponse()
            status, body = answer.status, answer.read()
        self.close()
        return None if 200 <= status < 300 else body

    def close(self) -> None:
        """Close the connection. Before ``end`` the DataNode takes the body for broken off."""
        self._http.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (HTTPException, OSError) as error:
        reason = f"A DataNode of the file store (HDFS) cannot be reached ({type(error).__name__})."
        raise StoreUnavailable(reason) from None
