"""Answers that a client has already: a mark (ETag) tells, and 304 says so without the answer."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response

# Rows of a transaction that is still open may show up later under lower ids than those that are seen now. While there
# is one the mark holds which, so that it differs as soon as it has ended.
_OPEN_WRITES = """
    SELECT CASE WHEN pg_snapshot_xmin(s) = pg_snapshot_xmax(s) THEN '' ELSE s::text END
    FROM pg_current_snapshot() AS s
"""


def mark(*parts: object) -> str:
    """An ETag; weak, since the same answer may come compressed or not."""
    text = "\n".join(map(str, (settings.VERSION, _open_writes(), *parts)))
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def has(request: Request, etag: str) -> bool:
    """Whether the client says that it has this one."""
    known = request.headers.get("If-None-Match", "")
    return known.strip() == "*" or etag in (each.strip() for each in known.split(","))


def not_modified(etag: str) -> Response:
    return Response(status=304, headers=headers(etag))


def headers(etag: str) -> dict[str, str]:
    return {"ETag": etag, "Cache-Control": "no-cache"}


def _open_writes() -> str:
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_WRITES)
        return str(cursor.fetchone()[0])
