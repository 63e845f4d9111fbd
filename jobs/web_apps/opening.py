"""Opens a web page for somebody: looks whether they may, and gives the address with the ticket that opens it."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest

from jobs.models import Job
from jobs.web_apps import origin, rights, shown, visits
from jobs.web_apps.visits import Known
from portal.accounts.audit import ip_of
from portal.models import User


def address(request: HttpRequest, user: User, job: Job, role: str, index: int, label: str) -> str:
    """An address that opens the page once, within visits.TICKET_SECONDS, and the page for as long as the token or
    session that asks for it holds. Raises NotFound, Unauthorized, Forbidden."""
    page = shown.find(job, role, index, label)
    place = origin.place(job, page, request.get_host(), request.scheme or "http")
    rights.require_open(user, job, page, place)
    token = getattr(user, "token", None)  # of portal.accounts.tokens.user_of
    known = Known(token=token) if token is not None else Known(session=request.session.session_key or "")
    ticket = visits.begin(user, known, job, page, ip_of(request))
    return f"{place.enter}?{urlencode({'ticket': ticket})}"
