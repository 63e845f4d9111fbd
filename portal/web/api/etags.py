"""ETags: 304 answers for clients that have the same answer already, and for others the answer that was made before."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock

from django.conf import settings
from django.db import connection
from django.http import HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from rest_framework.request import Request
from rest_framework.response import Response

# Rows of a transaction that is still open may appear later with lower ids than rows that are seen now. While there is
# such a transaction the ETag depends on its number, so that it is another one as soon as the transaction has ended.
_OPEN_WRITES = """
    SELECT CASE WHEN pg_snapshot_xmin(s) = pg_snapshot_xmax(s) THEN '' ELSE s::text END
    FROM pg_current_snapshot() AS s
"""

_MOST, _LONGEST = 128, 128 << 10  # answers that are kept, and bytes of one: 16 MB at most
_kept: OrderedDict[str, tuple[bytes, str]] = OrderedDict()  # by ETag: body and content type; the last used at the end
_lock = Lock()


def of(*versions: object) -> str:
    """The ETag of an answer that depends on these; weak, since the same answer may come compressed or not."""
    text = "\n".join(map(str, (settings.VERSION, _open_writes(), *versions)))
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def known(request: Request, etag: str) -> HttpResponse | None:
    """304 when the client says that it has the answer with this ETag; the answer when it was made before, for anybody;
    else None. The ETag must depend on all that the answer does, also on what the viewer may see."""
    if (same := get_conditional_response(request._request, etag=etag)) is not None and same.status_code == 304:
        return HttpResponse(status=304, headers=_headers(etag))
    with _lock:
        if (found := _kept.get(etag)) is None:
            return None
        _kept.move_to_end(etag)
    return HttpResponse(found[0], content_type=found[1], headers=_headers(etag))


def sent(answer: HttpResponseBase, etag: str) -> HttpResponseBase:
    """The answer with its ETag. It is kept for those who ask next, if it is not too long."""
    for name, value in _headers(etag).items():
        answer[name] = value
    if isinstance(answer, Response):
        answer.add_post_render_callback(lambda rendered: _keep(etag, rendered))
    return answer


def forget() -> None:
    """Drop all answers that are kept. For tests, whose databases begin anew."""
    _kept.clear()


def _keep(etag: str, answer: HttpResponse) -> None:
    if answer.status_code != 200 or len(answer.content) > _LONGEST:
        return
    with _lock:
        _kept[etag] = answer.content, answer["Content-Type"]
        if len(_kept) > _MOST:
            _kept.popitem(last=False)


def _headers(etag: str) -> dict[str, str]:
    return {"ETag": etag, "Cache-Control": "no-cache"}


def _open_writes() -> str:
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_WRITES)
        return str(cursor.fetchone()[0])
