"""ETags: 304 answers for clients that have the same answer already, and for others the answer that was made before."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.deprecation import MiddlewareMixin
from rest_framework.request import Request

from base.accounts.scopes import Scope
from base.accounts.viewer import Guest, Viewer, require_scope
from base.core.errors import LongshoreError
from base.serving.bridge import REFUSAL
from portal.shared.api.auth import INVALID, SAYS_INVALID, sender_of
from portal.shared.api.scopes import needed
from portal.shared.viewer import viewer_of

# Says the ETag of an answer for this viewer, as of now; empty for one that has none. It must depend on all that the
# answer does, also on what the viewer may see. May raise LongshoreError where this viewer gets no answer.
Version = Callable[[Viewer], str]

# Rows of a transaction that is still open may appear later with lower ids than rows that are seen now. While there is
# such a transaction the ETag depends on its number, so that it is another one as soon as the transaction has ended.
_OPEN_WRITES = """
    SELECT CASE WHEN pg_snapshot_xmin(s) = pg_snapshot_xmax(s) THEN '' ELSE s::text END
    FROM pg_current_snapshot() AS s
"""

_MOST, _LONGEST = 128, 128 << 10  # answers that are kept, and bytes of one: 16 MB at most
_VERSION = "longshore.version"  # of a request's META: what says whether its answer is still right


_Key = tuple[str, ...]  # all that an answer depends on of a request, but for its version


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer as it was sent. ``body``: None where it was 304."""

    headers: dict[str, str]
    body: bytes | None


# The one used last is at the end.
_versions: OrderedDict[_Key, Version] = OrderedDict()
_kept: OrderedDict[_Key, _Kept] = OrderedDict()  # by key and ETag
_lock = Lock()


def of(*versions: object) -> str:
    """The ETag of an answer that depends on these; weak, since the same answer may come compressed or not."""
    text = "\n".join(map(str, (settings.VERSION, _open_writes(), *versions)))
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def answer(
    request: Request, version: Version, make: Callable[[], HttpResponseBase], *, keep: bool = True
) -> HttpResponseBase:
    """304 when the client says that it has the answer with this ETag; else what ``make`` makes. ``keep``: the answer
    depends on nothing but the address and the version, so it may be sent again to anybody with the same."""
    etag = version(viewer_of(request))
    made = _unchanged(request._request, etag) or make()
    made["Cache-Control"] = "no-cache"
    if etag:
        made["ETag"] = etag
        if keep:
            request.META[_VERSION] = _for(needed(request), version)
    return made


class RepeatedAnswers(MiddlewareMixin):
    """The first middleware: it sends an answer of ``answer`` again, without any of the others, as long as its version
    says the same. Compressed answers are kept as they are, since no page of another origin can ask for one with
    somebody's token, and those to a session's cookie are not kept."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        key = _key(request)
        return _again(request, key) if key is not None and key in _versions else None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if _VERSION in request.META and (key := _key(request)) is not None:
            _keep(key, request.META[_VERSION], response)
        if INVALID in request.META:  # not kept with the answer, which other guests get too
            response["WWW-Authenticate"] = SAYS_INVALID
        return response


def forget() -> None:
    """Drop all answers that are kept. For tests, whose databases begin anew."""
    _versions.clear()
    _kept.clear()


def _key(request: HttpRequest) -> _Key | None:
    """None for a request whose answer depends on more."""
    meta = request.META
    if request.method != "GET" or meta.get("HTTP_COOKIE") or "indent" in meta.get("HTTP_ACCEPT", "") or REFUSAL in meta:
        return None
    host = meta.get("HTTP_HOST") or f"{meta['SERVER_NAME']}:{meta['SERVER_PORT']}"
    accepts = meta.get("HTTP_ACCEPT_ENCODING", "")
    return meta["PATH_INFO"], meta.get("QUERY_STRING", ""), host, str(request.scheme), accepts


def _for(scope: Scope | None, version: Version) -> Version:
    """The version, which raises Forbidden for a token without the scope."""

    def checked(viewer: Viewer) -> str:
        if scope is not None:
            require_scope(viewer, scope)
        return version(viewer)

    return checked


def _again(request: HttpRequest, key: _Key) -> HttpResponse | None:
    try:
        etag = _versions[key](sender_of(request) or Guest())
    except (LongshoreError, DatabaseError, KeyError):  # the view says so in its own way
        return None
    if (known := _kept.get((*key, etag))) is None:
        return None
    same = _unchanged(request, etag)
    if same is None and known.body is None:
        return None
    _use(_kept, (*key, etag), known)
    if same is None:
        return HttpResponse(known.body, headers=known.headers)
    for name, value in known.headers.items():
        if name not in ("Content-Length", "Content-Encoding"):
            same[name] = value
    return same


def _keep(key: _Key, version: Version, response: HttpResponseBase) -> None:
    body = response.content if isinstance(response, HttpResponse) else None
    if body is None or response.status_code not in (200, 304) or response.cookies or len(body) > _LONGEST:
        return
    _use(_versions, key, version)
    of_etag = (*key, response["ETag"])
    if response.status_code == 200:
        _use(_kept, of_etag, _Kept(dict(response.items()), body))
    elif of_etag not in _kept:
        _use(_kept, of_etag, _Kept(dict(response.items()), None))


def _use(those: OrderedDict[_Key, Any], key: _Key, value: Any) -> None:
    with _lock:
        those[key] = value
        those.move_to_end(key)
        if len(those) > _MOST:
            those.popitem(last=False)


def _unchanged(request: HttpRequest, etag: str) -> HttpResponse | None:
    if not etag or "HTTP_IF_NONE_MATCH" not in request.META:
        return None
    same = get_conditional_response(request, etag=etag)
    return HttpResponse(status=304) if same is not None and same.status_code == 304 else None


def _open_writes() -> str:
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_WRITES)
        return str(cursor.fetchone()[0])
