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

from jobs.config.web_pages import WebPage
from jobs.models import Job
from jobs.web_apps import origin, rights, shown, visits
from jobs.web_apps.addresses import Place
from jobs.web_apps.models import PageShare, PageVisit
from jobs.web_apps.visits import Known
from portal.accounts.audit import ip_of
from portal.core.errors import BadRequest, Conflict, Forbidden, NotFound
from portal.models import User

USUAL, LONGEST = 86_400, 7 * 86_400  # seconds of a link
MOST_VISITS = 200  # by one link at the same time: whoever has it makes a row with each
_SALT = "longshore.page-link"


def address(request: HttpRequest, user: User, job: Job, role: str, index: int, label: str) -> str:
    """An address that opens the page once, within visits.TICKET_SECONDS, and the page for as long as the token or
    session that asks for it holds. Raises NotFound, Unauthorized, Forbidden."""
    page = shown.find(job, role, index, label)
    place = origin.place(job, page, request.get_host(), request.scheme or "http")
    rights.require_open(user, job, page, place)
    token = getattr(user, "token", None)  # of portal.accounts.tokens.user_of
    known = Known(token=token) if token is not None else Known(session=request.session.session_key or "")
    return _with_ticket(place, visits.begin(user, known, job, page, ip_of(request)))


def address_by_link(request: HttpRequest, token: str) -> str:
    """The same for who has a link and has not signed in. Raises NotFound, Forbidden, Conflict."""
    share = share_of_link(token)
    page = WebPage(share.role, share.index, share.label)
    place = _place_alone(request, share.job, page)
    if PageVisit.objects.filter(link=share.pk, expires_at__gt=timezone.now()).count() >= MOST_VISITS:
        raise Conflict(f"This link is open in {MOST_VISITS} browsers, the most that one may be. Ask for another one.")
    return _with_ticket(place, visits.begin(None, Known(link=share.pk), share.job, page, ip_of(request)))


def make_link(request: HttpRequest, actor: User, job: Job, page: WebPage, seconds: int) -> PageShare:
    """A link that opens the page for so many seconds. Raises Forbidden, BadRequest."""
    rights.require_owner(actor, job)
    if not rights.links_are_on():
        raise Forbidden("Links that open pages without signing in are switched off here (LONGSHORE_APPS_LINKS).")
    if page.is_risky:
        raise BadRequest(
            f"Whoever opens {page.title} runs commands as you. Share it with single users, by their names."
        )
    if not 60 <= seconds <= LONGEST:
        raise BadRequest(f"A link lasts between a minute and {LONGEST // 86_400} days.")
    _place_alone(request, job, page)
    until = timezone.now() + timedelta(seconds=seconds)
    return rights.add(actor, job, page, PageShare.Kind.LINK, token_urlsafe(18), until, ip_of(request))


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
    rows = rights.in_force(PageShare.objects.filter(kind=PageShare.Kind.LINK, name=name)) if name else None
    share = rows.select_related("job").first() if rows is not None and rights.links_are_on() else None
    is_good = share is not None and share.job.deleted_at is None
    if share is None or not is_good or not User.objects.filter(username=share.job.username, is_active=True).exists():
        raise NotFound("This link has ended, or was taken back. Ask who sent it to you for another one.")
    return share


def _place_alone(request: HttpRequest, job: Job, page: WebPage) -> Place:
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


def _with_ticket(place: Place, ticket: str) -> str:
    return f"{place.enter}?{urlencode({'ticket': ticket})}"
