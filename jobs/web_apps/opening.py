"""Opens a web page for somebody: looks whether they may, and gives the address with the ticket that opens it."""

from __future__ import annotations

from urllib.parse import urlencode

from jobs.models import Job
from jobs.web_apps import origin, rights, shown, visits
from jobs.web_apps.visits import Known
from portal.models import User


def address(
    user: User, known: Known, job: Job, role: str, index: int, label: str, *, host: str, scheme: str, ip: str | None
) -> str:
    """An address that works once, within visits.TICKET_SECONDS. ``host`` and ``scheme`` are those at which they visit
    the portal. Raises NotFound, Unauthorized, Forbidden."""
    page = shown.find(job, role, index, label)
    place = origin.place(job, page, host, scheme)
    rights.require_open(user, job, page, place)
    ticket = visits.begin(user, known, job, page, ip)
    return f"{place.enter}?{urlencode({'ticket': ticket})}"
