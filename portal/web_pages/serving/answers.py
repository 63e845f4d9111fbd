"""What the pages' origin answers by itself: the way in, and pages that say why nothing else is shown."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from clusters.engines.runtime import RuntimeFault
from jobs.web_pages.addresses import PagePlace
from jobs.web_pages.visits import Visit
from portal.web_pages.serving.headers import Headers

COOKIE = "longshore-page"
CODE_COOKIE = "code-server-session"
AGAIN = 2  # seconds after which a page that is not there yet is asked again
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1.5rem;"
    "background:#f6f8fb;color:#182433}h1{font-size:1.25rem}a{color:#1b4f8f}"
    "@media(prefers-color-scheme:dark){body{background:#151f2c;color:#dce1e7}a{color:#9dbce2}}"
)
_PLAIN: Headers = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"),
]


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    status: int
    headers: Headers
    body: bytes


async def send(send: Any, answer: OwnAnswer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


def entered(place: PagePlace, cookie: str, path: str, session: str = "") -> OwnAnswer:
    """Sets the cookie of this page alone, and leads on to ``path``, which has the prefix already. With ``session`` it
    sets the cookie, too, by which VS Code knows its owner."""
    given = {cookie_name(place): cookie, **({CODE_COOKIE: session} if session else {})}
    more = "; Secure" if place.origin.startswith("https:") else ""
    cookies = [f"{name}={value}; Path={place.prefix}/; HttpOnly; SameSite=Lax{more}" for name, value in given.items()]
    return OwnAnswer(
        303, [*_PLAIN, *((b"set-cookie", each.encode()) for each in cookies), (b"location", path.encode())], b""
    )


def cookie_name(place: PagePlace) -> str:
    """Return the name of the cookie. Over https it has a prefix by which browsers make sure that no other host has set
    it."""
    secure = place.origin.startswith("https:")
    if place.is_alone:
        return f"__Host-{COOKIE}" if secure else COOKIE
    return f"{'__Secure-' if secure else ''}{COOKIE}-{place.key[-12:]}"


def used_ticket(portal: str) -> OwnAnswer:
    return _page(
        403,
        "This link opens the page once",
        f"It was used already, or is older than half a minute. Open the page again from {_link(portal)}.",
    )


def not_open(portal: str) -> OwnAnswer:
    return _page(
        401, "This page is not open to you", f"Open it from {_link(portal)}: on the page of its job, under Web pages."
    )


def not_there(visit: Visit, why: str) -> OwnAnswer:
    """The page loads itself again, as a program may take minutes until it listens."""
    answer = _page(
        503,
        f"{visit.title} does not answer",
        f"{escape(why)} The page of job {escape(visit.owner)}/{escape(visit.job)} opens here as soon as it does.",
    )
    return OwnAnswer(answer.status, [*answer.headers, (b"refresh", str(AGAIN).encode())], answer.body)


def plain(status: int, words: str) -> OwnAnswer:
    return OwnAnswer(status, [*_PLAIN, (b"content-type", b"text/plain; charset=utf-8")], words.encode())


def sentence(cause: BaseException) -> str:
    """Why there was no answer."""
    if isinstance(cause, RuntimeFault):
        return cause.sentence
    if isinstance(cause, TimeoutError):
        return "It did not answer in time."
    return "What listens there ended the connection without an answer."


def _page(status: int, title: str, html: str) -> OwnAnswer:
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<main><h1>{escape(title)}</h1><p>{html}</p></main></html>"
    )
    return OwnAnswer(status, [*_PLAIN, (b"content-type", b"text/html; charset=utf-8")], body.encode())


def _link(portal: str) -> str:
    return f'<a href="{escape(portal)}">Longshore</a>'
