"""The page of the audit."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from base.accounts.viewer import reads_all
from portal.audit import queries, words
from portal.shared.guard import fresh_page
from portal.shared.viewer import user_of

_SPANS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "365d": "1 year", "all": "the beginning"}


@fresh_page
def audit_page(request: HttpRequest) -> HttpResponse:
    """Admins and auditors see what everybody did, others what they did themselves."""
    viewer = user_of(request)
    asked = queries.AuditQuery.read(request.GET.dict())
    rows, newer, older = queries.page_of(viewer, asked)
    counted = queries.tallies(viewer, asked)
    number = counted.kinds[asked.k] if asked.k else counted.kinds.total()
    page = {
        "nav": "users" if reads_all(viewer) else "account",
        "asked": asked,
        "lines": [(row, words.what(row.action), words.details(row.data), words.result(row.action)) for row in rows],
        "actors": [name for name in counted.actors if name],
        "actions": [(action, words.what(action)) for action in counted.actions],
        "spans": _SPANS,
        "facets": [
            (kind, says, counted.kinds[kind] if kind else counted.kinds.total(), f"?{asked.query(k=kind)}")
            for kind, says in {"": "All", **words.KINDS}.items()
        ],
        "number": number,
        "more": counted.kinds.total() >= queries.MOST_COUNTED,
        "export": asked.query(),
        "newer": f"?{asked.query(after=newer)}" if newer else "",
        "older": f"?{asked.query(before=older)}" if older else "",
    }
    return render(request, "audit/audit.html", page)
