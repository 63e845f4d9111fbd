"""ETags and 304 answers, for clients that have the same answer already."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.db import connection
from django.utils.cache import get_conditional_response
from rest_framework.request import Request
from rest_framework.response import Response

# Rows of a transaction that is still open may appear later with lower ids than rows that are seen now. While there is
# such a transaction the ETag depends on its number, so that it is another one as soon as the transaction has ended.
_OPEN_WRITES = """
    SELECT CASE WHEN pg_snapshot_xmin(s) = pg_snapshot_xmax(s) THEN '' ELSE s::text END
    FROM pg_current_snapshot() AS s
"""


def of(*versions: object) -> str:
    """The ETag of an answer that depends on these; weak, since the same answer may come compressed or not."""
    text = "\n".join(map(str, (settings.VERSION, _open_writes(), *versions)))
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def not_modified(request: Request, etag: str) -> Response | None:
    """304 when the client says that it has the answer with this ETag, else None."""
    answer = get_conditional_response(request._request, etag=etag)
    return Response(status=304, headers=headers(etag)) if answer is not None and answer.status_code == 304 else None


def headers(etag: str) -> dict[str, str]:
    return {"ETag": etag, "Cache-Control": "no-cache"}


def _open_writes() -> str:
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_WRITES)
        return str(cursor.fetchone()[0])
