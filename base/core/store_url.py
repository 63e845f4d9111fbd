"""Reads LONGSHORE_STORE_URL. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HOST = re.compile(
    r"(?:(?P<scheme>webhdfs|swebhdfs|hdfs|https?)://)?(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d{1,5}))?/?"
)
_BUCKET = re.compile(r"s3://(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{1,62})(?P<prefix>(?:/[A-Za-z0-9!_.*'()-]+)*)/?")
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


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of an S3-compatible server. An empty ``endpoint`` is Amazon's own; without keys boto3 looks for some
    where all of Amazon's tools do."""

    name: str
    prefix: str = ""  # team/longshore
    endpoint: str = ""  # http://minio:9000
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)


def is_bucket(url: str) -> bool:
    return url.startswith("s3://")


def bucket(url: str, endpoint: str = "", region: str = "", access_key: str = "", secret_key: str = "") -> Bucket:
    """Return ``s3://bucket/prefix``. Raises ValueError."""
    match = _BUCKET.fullmatch(url.strip())
    if not match or {".", ".."} & set(match["prefix"].split("/")):
        raise ValueError(url)
    return Bucket(match["name"], match["prefix"].strip("/"), endpoint, region, access_key, secret_key)
