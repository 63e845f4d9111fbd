"""Answers that need nothing of Django but its connection: those that were sent before and are still right, and those
whose body alone is made anew. They are given before any middleware, as headers and bytes."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from types import SimpleNamespace
from typing import Any

from django.core.handlers.wsgi import WSGIHandler
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import get_conditional_response
from django.utils.deprecation import MiddlewareMixin
from django.utils.text import compress_string

from base.accounts import tokens
from base.accounts.viewer import Guest, Viewer
from base.core.bulk import one_row
from base.serving.bridge import REFUSAL
from portal.shared.api.auth import INVALID, SAYS_INVALID, note_invalid, token_in
from portal.shared.api.v1 import long_json
from portal.shared.requests import PageRequest


@dataclass(frozen=True, slots=True)
class Version:
    """How it is known whether an answer is still right. ``query``: SQL, with its values, of a text that is another one
    whenever the database would give another answer; empty or without a row where nothing says so. ``etag``: of the
    answer to this viewer, by that text; empty for one that has none, and is made anew each time. It must hang on all
    that the answer does, also on what the viewer may see, and on nothing that changes while the process runs, as it is
    remembered. It may raise LongshoreError where this viewer gets no answer."""

    query: str
    values: tuple[str, ...]
    etag: Callable[[Viewer, str], str]
    make: Callable[[Viewer], Any]  # the values of the answer, or a stream of them

    def text(self) -> str:
        return str(one_row(f"SELECT ({self.query})", *self.values)[0] or "")


Body = Callable[[], bytes | None]  # the same for whoever asks; None: the view has to say it
_Key = tuple[str, ...]  # all that an answer depends on of a request, but for its version
_Raw = tuple[str, list[tuple[str, str]], bytes]  # status, headers, body

_SHORT = 200  # bytes of an answer, below which Django does not compress it, and says nothing of that
_MOST, _LONGEST = 128, 128 << 10  # answers that are kept, and bytes of one: 16 MB at most
_VERSION, _BODY = "longshore.version", "longshore.body"  # of a request's META: what a view has said of its answer


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer as it was sent. ``body``: None where it was 304."""

    headers: list[tuple[str, str]]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class _Manner:
    """What the answers of an address, or a route, to who asks in a way have in common."""

    base_url: str
    headers: list[tuple[str, str]]
    is_compressed: bool


_Read = Callable[..., Version]  # by the base URL, the path and the groups of its pattern
_routes: dict[re.Pattern[str], _Read] = {}
# The one used last is at the end.
_versions: OrderedDict[_Key, Version] = OrderedDict()
_kept: OrderedDict[_Key, _Kept] = OrderedDict()  # by key and ETag
_etags: OrderedDict[Any, str] = OrderedDict()  # by key and what the database said of the sender and the version
_manners: OrderedDict[Any, _Manner] = OrderedDict()  # by the key, with the pattern of a route in place of its path
_bodies: OrderedDict[_Key, tuple[list[tuple[str, str]], Body]] = OrderedDict()
_lock = Lock()


class Handler(WSGIHandler):
    """Django's, which is asked only where no answer is known."""

    request_class = PageRequest

    def __call__(self, environ: dict[str, Any], start_response: Any) -> HttpResponseBase:
        close_old_connections()
        if (known := again(environ)) is None:
            return super().__call__(environ, start_response)
        status, headers, body = known
        start_response(status, headers)
        return [body]  # type: ignore[return-value]  # as WSGI has it


class RepeatedAnswers(MiddlewareMixin):
    """The first middleware: it keeps answers as they are sent. Compressed ones too, since no page of another origin can
    ask for one with somebody's token; but none to a session's cookie."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not {_VERSION, _BODY}.isdisjoint(request.META) and (key := _key(request.META)) is not None:
            _keep(key, request.META, response)
            _learn(key, request, response)
        if INVALID in request.META:  # not kept with the answer, which other guests get too
            response["WWW-Authenticate"] = SAYS_INVALID
        return response


def as_long_as(request: HttpRequest, version: Version) -> None:
    """The answer depends on nothing but the address and the version, so it may be sent again to anybody with the
    same."""
    request.META[_VERSION] = version


def route(pattern: str) -> Callable[[_Read], _Read]:
    """The function says the version of each address that matches, as its view does. Such answers have the headers of
    one that the view gave to who asked in the same way, so they are made without it."""

    def registered(read: _Read) -> _Read:
        return _routes.setdefault(re.compile(pattern, re.ASCII), read)

    return registered


def with_body(request: HttpRequest, body: Body) -> None:
    """But for its body this answer is the same for whoever asks in the same way."""
    request.META[_BODY] = body


def again(environ: dict[str, Any]) -> _Raw | None:
    """None where the view has to be asked."""
    if (key := _key(environ)) is None:
        return None
    try:
        if key in _bodies:
            return _remade(key)
        return _repeated(environ, key, _versions.get(key) or _by_route(key))
    except Exception:  # the view says so in its own way, also where nobody expected it
        return None


def unchanged(request: Any, etag: str) -> HttpResponse | None:
    """304 when the client says that it has the answer with this ETag."""
    if not etag or "HTTP_IF_NONE_MATCH" not in request.META:
        return None
    same = get_conditional_response(request, etag=etag)
    return HttpResponse(status=304) if same is not None and same.status_code == 304 else None


def forget() -> None:
    """Drop all answers that are kept. For tests, whose databases begin anew."""
    for those in (_versions, _etags, _kept, _manners, _bodies):
        those.clear()


def _key(meta: dict[str, Any]) -> _Key | None:
    """None for a request whose answer depends on more."""
    if meta["REQUEST_METHOD"] != "GET" or meta.get("HTTP_COOKIE") or REFUSAL in meta:
        return None
    host = meta.get("HTTP_HOST") or f"{meta['SERVER_NAME']}:{meta['SERVER_PORT']}"
    accepts = meta.get("HTTP_ACCEPT", ""), meta.get("HTTP_ACCEPT_ENCODING", "")
    return meta["PATH_INFO"], meta.get("QUERY_STRING", ""), host, meta["wsgi.url_scheme"], *accepts


def _remade(key: _Key) -> _Raw | None:
    headers, make = _bodies[key]
    body = make()
    return None if body is None else ("200 OK", [*headers, ("Content-Length", str(len(body)))], body)


def _by_route(key: _Key) -> Version:
    """Raises LookupError where no route has answered in this way."""
    route, *rest = _in_manner(key)
    if isinstance(route, str):
        raise LookupError
    names: Any = route.fullmatch(key[0])
    version = _routes[route](_manners[route, *rest].base_url, key[0], *names.groups())
    _use(_versions, key, version)
    return version


def _in_manner(key: _Key) -> tuple[Any, ...]:
    """The key, with the pattern of a route in place of its path."""
    path, *rest = key
    return next((pattern for pattern in _routes if pattern.fullmatch(path)), path), *rest


def _repeated(environ: dict[str, Any], key: _Key, version: Version) -> _Raw | None:
    etag, viewer = _etag(environ, key, version)
    request: Any = SimpleNamespace(META=environ, method="GET")  # all that is read of one here
    is_same = unchanged(request, etag) is not None
    known = _kept.get((*key, etag))
    if known is None or (known.body is None and not is_same):
        known = _made(key, etag, version, None if is_same else viewer())
    if etag and len(known.body or b"") <= _LONGEST:
        _use(_kept, (*key, etag), known)
    headers = [*known.headers, ("WWW-Authenticate", SAYS_INVALID)] if INVALID in environ else known.headers
    if not is_same:
        return "200 OK", headers, known.body or b""
    left_out = ("Content-Length", "Content-Encoding")
    return "304 Not Modified", [pair for pair in headers if pair[0] not in left_out], b""


def _made(key: _Key, etag: str, version: Version, viewer: Viewer | None) -> _Kept:
    """The answer to the viewer, or to one who has its body: None. Raises LookupError where the view has to make it."""
    manner = _manners[_in_manner(key)]
    headers = [*manner.headers, ("ETag", etag)] if etag else manner.headers
    if viewer is None:
        return _Kept(headers, None)
    values = version.make(viewer)
    if isinstance(values, HttpResponseBase) or len(body := long_json(values)) < _SHORT:
        raise LookupError
    if manner.is_compressed:
        body = compress_string(body, max_random_bytes=GZipMiddleware.max_random_bytes)
    return _Kept([*headers, ("Content-Length", str(len(body)))], body)


def _etag(environ: dict[str, Any], key: _Key, version: Version) -> tuple[str, Callable[[], Viewer]]:
    """The ETag for who sent the token, and who that is. By one statement, which says both and the version."""
    row = None
    if header := environ.get("HTTP_AUTHORIZATION"):
        more = f"({version.query}) AS version,"
        row = tokens.row_of(token_in(header), environ.get("REMOTE_ADDR") or None, more, *version.values)
        note_invalid(environ, header, row)
    said = (*key, version.text()) if row is None else (*key, *row.rows[0])

    def viewer() -> Viewer:
        return Guest() if row is None else tokens.made_by(row)

    if (etag := _etags.get(said)) is None:
        etag = version.etag(viewer(), said[-1] or "")
    _use(_etags, said, etag)
    return etag, viewer


def _keep(key: _Key, said: dict[str, Any], response: HttpResponseBase) -> None:
    body = response.content if isinstance(response, HttpResponse) else None
    if body is None or response.status_code not in (200, 304) or response.cookies or len(body) > _LONGEST:
        return
    headers = list(response.items())
    if _BODY in said:
        if "Content-Encoding" not in response and response.status_code == 200:
            _use(_bodies, key, ([pair for pair in headers if pair[0] != "Content-Length"], said[_BODY]))
        return
    if "ETag" not in response:
        return
    _use(_versions, key, said[_VERSION])
    of_etag = (*key, response["ETag"])
    if response.status_code == 200:
        _use(_kept, of_etag, _Kept(headers, body))
    elif of_etag not in _kept:
        _use(_kept, of_etag, _Kept(headers, None))


def _learn(key: _Key, request: HttpRequest, response: HttpResponseBase) -> None:
    """Note in which manner it answers, but for JSON that is indented."""
    if response.status_code != 200 or response.cookies or _VERSION not in request.META or "indent" in key[4]:
        return
    is_compressed = "Content-Encoding" in response
    if is_compressed or (isinstance(response, HttpResponse) and len(response.content) >= _SHORT):
        headers = [pair for pair in response.items() if pair[0] not in ("ETag", "Content-Length")]
        manner = _Manner(f"{request.scheme}://{request.get_host()}", headers, is_compressed)
        _use(_manners, _in_manner(key), manner)


def _use(those: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    with _lock:
        those[key] = value
        those.move_to_end(key)
        if len(those) > _MOST:
            those.popitem(last=False)
