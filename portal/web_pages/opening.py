"""Opens a web page for somebody: looks whether they may, and gives the address with the ticket that opens it.

Who is not signed in needs a link that the owner made for this page and a time. A link has a name that is in its row,
and a signature that is not: who reads the database can open nothing. The owner sees it again whenever they like, as
both can be worked out from the row and the portal's key.
"""

from __future__ import annotations

from datetime import timedelta
from secrets import token_urlsafe
from urllib.parse import urlencode

from django.core.signing import BadSignature, Signer
from django.http import HttpRequest
from django.utils import timezone

from base.core.errors import BadRequest, Conflict, Forbidden, NotFound
from base.models import User
from jobs.config.web_pages import WebPage
from jobs.models import Job
from jobs.web_pages import origin, rights, shown, visits
from jobs.web_pages.addresses import PagePlace
from jobs.web_pages.models import PageShare, PageVisit

USUAL, LONGEST = 86_400, 7 * 86_400  # seconds of a link
MOST_VISITS = 200  # by one link at the same time: whoever has it makes a row with each
_SALT = "longshore.page-link"


def address(request: HttpRequest, user: User, job: Job, role: str, index: int, label: str) -> str:
    """An address that opens the page once, within visits.TICKET_SECONDS, and the page for as long as the token or
    session that asks for it holds. Raises NotFound, Unauthorized, Forbidden."""
    page = shown.find(job, role, index, label)
    place = origin.place(job, page, request.get_host(), request.scheme or "http")
    rights.require_open(user, job, page, place)
    token = getattr(user, "token", None)  # of base.accounts.tokens.user_of
    session = "" if token is not None else request.session.session_key or ""
    return _with_ticket(place, visits.begin(user, job, page, session=session, token=token))


def address_by_link(request: HttpRequest, token: str) -> str:
    """The same for who has a link and has not signed in. Raises NotFound, Forbidden, Conflict."""
    share = share_of_link(token)
    page = WebPage(share.role, share.index, share.label)
    place = _place_alone(request, share.job, page)
    if PageVisit.objects.filter(link=share.pk, expires_at__gt=timezone.now()).count() >= MOST_VISITS:
        raise Conflict(f"This link is open in {MOST_VISITS} browsers, the most that one may be. Ask for another one.")
    return _with_ticket(place, visits.begin(None, share.job, page, link=share.pk))


def make_link(request: HttpRequest, actor: User, job: Job, page: WebPage, seconds: int) -> PageShare:
    """A link that opens the page for so many seconds. Raises Forbidden, BadRequest."""
    rights.require_owner(actor, job)
    if not rights.links_are_on():
        raise Forbidden("Links that open pages without signing in are switched off here (LONGSHORE_APPS_LINKS).")
    rights.require_harmless(page)
    if not 60 <= seconds <= LONGEST:
        raise BadRequest(f"A link lasts between a minute and {LONGEST // 86_400} days.")
    _place_alone(request, job, page)
    until = timezone.now() + timedelta(seconds=seconds)
    return rights.add(actor, job, page, PageShare.Kind.LINK, token_urlsafe(18), until)


def path_of_link(share: PageShare) -> str:
    """The address on the portal that opens the page."""
    return f"/s/{_signer().sign(share.name)}"


def share_of_link(token: str) -> PageShare:
    """The share behind the end of such an address, with its job. Raises NotFound for one that was changed, has ended or
    was taken back."""
    try:
        name = _signer().unsign(token)
    except BadSignature:
        name = ""
    links = PageShare.objects.filter(kind=PageShare.Kind.LINK, name=name, job__deleted_at=None).select_related("job")
    share = rights.in_force(links).first() if name and rights.links_are_on() else None
    if share is None or not User.objects.filter(username=share.job.username, is_active=True).exists():
        raise NotFound("This link has ended, or was taken back. Ask who sent it to you for another one.")
    return share


def _place_alone(request: HttpRequest, job: Job, page: WebPage) -> PagePlace:
    """Where the page opens, if it has a host name of its own there. Raises Forbidden."""
    place = origin.place(job, page, request.get_host(), request.scheme or "http")
    if not place.is_alone:
        raise Forbidden(
            "Here all web pages have one host name, so that none opens without signing in. An admin can give each page "
            "a host name of its own: LONGSHORE_APPS_DOMAIN."
        )
    return place


def _signer() -> Signer:
    return Signer(salt=_SALT, sep=".")


def _with_ticket(place: PagePlace, ticket: str) -> str:
    return f"{place.enter}?{urlencode({'ticket': ticket})}"
