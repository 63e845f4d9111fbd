"""What of a visitor's request reaches the container, and what of its answer reaches the visitor. Pure.

To the container goes no cookie of the portal, no token of it, and nothing about where the visitor comes from. To the
visitor goes no cookie by which a page could be taken for the portal or for another page, and no header that has an
effect beyond the page's own origin. Names of headers are in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from jobs.web_pages.addresses import PagePlace

Headers = list[tuple[bytes, bytes]]
Reserved = Collection[str]  # names of cookies that are the portal's, beside those that begin as _OURS

# Between two neighbours on the way, not from end to end (RFC 9110, 7.6.1).
HOP = {
    *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
    *(b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
}
# Of requests: what only the portal may say of a visitor.
_OURS_TO_SAY = re.compile(rb"x-forwarded-.*|forwarded|x-real-ip|x-longshore-.*|via")
_HANDSHAKE = re.compile(rb"sec-websocket-.*")
# Of answers: what would change how the browser treats the whole host name or other origins.
_TOO_FAR = {
    *(b"strict-transport-security", b"public-key-pins", b"public-key-pins-report-only", b"expect-ct"),
    *(b"clear-site-data", b"alt-svc", b"set-cookie2", b"server", b"date", b"x-longshore-page"),
}
_OURS = re.compile(r"(__(host|secure|http|host-http)-)?longshore", re.IGNORECASE)
_SAFE = (b"GET", b"HEAD")


def is_reserved(name: str, reserved: Reserved) -> bool:
    """Whether a cookie of this name is the portal's."""
    return name in reserved or _OURS.match(name) is not None


def cookies_of(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return every cookie of a request, also those of the same name, in the order in which they came."""
    cookies = []
    for name, value in headers:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, equals, text = part.strip().partition("=")
                cookies.append((key, text) if equals else ("", key))
    return [each for each in cookies if any(each)]


def to_container(
    headers: Iterable[tuple[bytes, bytes]], place: PagePlace, reserved: Reserved, is_ours: Callable[[str], bool]
) -> Headers:
    """The headers of a request for the container. ``is_ours`` says whether a bearer token is one of the portal's. The
    Host is the one that the visitor asked for, so servers that compare Origin and Host are content."""
    asked = list(headers)
    named = _named_by_connection(asked)
    passed: Headers = []
    for name, value in asked:
        if name in HOP or name in named or name == b"cookie" or _OURS_TO_SAY.fullmatch(name):
            continue
        if _HANDSHAKE.fullmatch(name) or (name == b"authorization" and _is_portal_token(value, is_ours)):
            continue
        if name == b"referer" and not value.startswith(f"{place.origin}/".encode("latin-1")):
            continue
        passed.append((name, value))
    if cookies := [cookie for cookie in cookies_of(asked) if not is_reserved(cookie[0], reserved)]:
        written = (f"{key}={text}" if key else text for key, text in cookies)
        passed.append((b"cookie", "; ".join(written).encode("latin-1")))
    scheme, _, host = place.origin.partition("://")
    passed += [(b"x-forwarded-proto", scheme.encode()), (b"x-forwarded-host", host.encode("latin-1"))]
    return [*passed, (b"x-forwarded-prefix", place.prefix.encode())] if place.prefix else passed


def to_visitor(headers: Iterable[tuple[bytes, bytes]], place: PagePlace, reserved: Reserved, *, keeps: bool) -> Headers:
    """The headers of an answer for the visitor. ``keeps``: the container knows its prefix and has it in its own
    addresses; else those that it names are below the prefix."""
    answered = [(name.lower(), value) for name, value in headers]
    named = _named_by_connection(answered)
    passed: Headers = []
    for name, value in answered:
        if name in HOP or name in named or name in _TOO_FAR:
            continue
        if name == b"set-cookie":
            if cookie := cookie_for(value.decode("latin-1"), place, reserved, keeps=keeps):
                passed.append((name, cookie.encode("latin-1")))
        elif name == b"location":
            passed.append((name, location_for(value.decode("latin-1"), place, keeps=keeps).encode("latin-1")))
        elif name != b"service-worker-allowed" or place.is_alone:
            passed.append((name, value))
    has = {name for name, _ in passed}
    # Two policies both hold, so this one takes nothing from the container's own.
    passed.append((b"content-security-policy", b"frame-ancestors 'self'"))
    if b"cross-origin-resource-policy" not in has:
        passed.append((b"cross-origin-resource-policy", b"same-origin"))
    if b"referrer-policy" not in has:
        passed.append((b"referrer-policy", b"same-origin"))
    return passed


def cookie_for(text: str, place: PagePlace, reserved: Reserved, *, keeps: bool) -> str:
    """A Set-Cookie of a container for its page alone: without a domain, below its path. Empty when it may not be."""
    pair, *attributes = [part.strip() for part in text.split(";")]
    name = pair.partition("=")[0].strip() if "=" in pair else ""
    if not name or is_reserved(name, reserved) or (not place.is_alone and name.lower().startswith("__host-")):
        return ""
    path, parts = "/", [pair]
    for attribute in attributes:
        what, _, value = attribute.partition("=")
        if what.strip().lower() == "path":
            path = value.strip() if value.strip().startswith("/") else "/"
        elif what.strip().lower() != "domain":
            parts.append(attribute)
    if place.prefix and not (keeps and _is_below(path, place.prefix)):
        path = f"{place.prefix}/" if keeps else f"{place.prefix}{path}"
    return "; ".join([*parts, f"Path={path}"])


def location_for(text: str, place: PagePlace, *, keeps: bool) -> str:
    """Where a redirect of a container leads: below its prefix when it names an address of its own host."""
    if not place.prefix or keeps:
        return text
    path = text.removeprefix(place.origin) if text.startswith(f"{place.origin}/") else text
    if not path.startswith("/") or path.startswith("//") or _is_below(path, place.prefix):
        return text
    return f"{place.prefix}{path}"


def path_for(raw: str, place: PagePlace, *, keeps: bool) -> str:
    """The path to ask the container for, of the one that the visitor asked for."""
    return raw if keeps or not place.prefix else raw.removeprefix(place.prefix) or "/"


def is_foreign(method: bytes, headers: Mapping[bytes, bytes], place: PagePlace) -> bool:
    """Whether a page of another origin is behind this request. It may only lead there, as a link does: the browser
    would send the visitor's cookie along with whatever else it asks. ``method`` of a WebSocket is empty."""
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() != place.origin.lower():
        return True
    site = headers.get(b"sec-fetch-site", b"none")
    if site in (b"same-origin", b"none"):
        return False
    is_link = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return not (is_link and method in _SAFE)


def _is_portal_token(value: bytes, is_ours: Callable[[str], bool]) -> bool:
    scheme, _, token = value.decode("latin-1").strip().partition(" ")
    return scheme.lower() == "bearer" and is_ours(token.strip())


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    return {each.strip().lower() for name, value in headers if name == b"connection" for each in value.split(b",")}


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
