"""Reads LONGSHORE_STORE_URL. Pure."""

from __future__ import annotations

import re

_HOST = re.compile(
    r"(?:(?P<scheme>webhdfs|swebhdfs|hdfs|https?)://)?(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d{1,5}))?/?"
)
_SECURE = ("swebhdfs", "https")
_PORT = 9870  # of the NameNode's HTTP, since Hadoop 3


def namenodes(url: str) -> list[str]:
    """``webhdfs://nn1:9870;nn2:9870`` -> ``["http://nn1:9870", "http://nn2:9870"]``. Each part may say its scheme
    again. Raises ValueError."""
    found, scheme = [], ""
    for part in filter(None, url.strip().split(";")):
        match = _HOST.fullmatch(part)
        scheme = (match and match["scheme"]) or scheme
        if not match or not scheme or int(match["port"] or 1) not in range(1, 65536):
            raise ValueError(url)
        http = "https" if scheme in _SECURE else "http"
        found.append(f"{http}://{match['host']}:{match['port'] or _PORT}")
    if not found:
        raise ValueError(url)
    return found
