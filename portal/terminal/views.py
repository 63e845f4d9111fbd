"""Views of terminals: the page, the end of one from the list, and who may open one."""

from __future__ import annotations

from secrets import token_urlsafe

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs import access, queries, versions
from jobs.terminal import place, records
from portal.shared.guard import for_scripts, fresh_reading, own_post
from portal.shared.jobs.rows import job_url
from portal.shared.live.page import address
from portal.shared.middleware import allow_styles
from portal.shared.viewer import user_of, viewer_of
from portal.terminal.page import context


@fresh_reading
def terminal_page(request: HttpRequest, username: str, name: str) -> HttpResponse:
    job = queries.get_job(username, name)
    page = context(job, viewer_of(request), request.GET.dict())
    own = {"user": username, "name": name, "tab": "terminal", "v": versions.of_job_page(job)}
    stream = "" if page.get("is_window") else address("terminal", **{**request.GET.dict(), **own})
    nonce = token_urlsafe(16)
    response = render(request, "terminal/terminal.html", {"stream": stream, "nonce": nonce, **page})
    allow_styles(response, nonce)
    return response


@fresh_reading
def terminal_ready(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """Asked by a page that waits for its task: it is loaded again when there is one to enter, or none to come."""
    job = queries.get_job(username, name)
    access.require_enter(viewer_of(request), job)
    waits = job.state in queries.LIVE and not place.running(job)
    return HttpResponse(status=204, headers={} if waits else {"HX-Refresh": "true"})


@own_post
def close_terminal(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """End one of the reader's own terminals, wherever it is open."""
    user, token = user_of(request), request.POST.get("token", "").replace("\x00", "")
    row = records.open_terminals(user.username).filter(token=token).first()
    if row is not None and records.closed(row, "It was closed from another window.", has_ended=False):
        messages.success(request, f"The terminal in {row.where} is closed.")
    else:
        messages.success(request, "That terminal was closed already.")
    return redirect(f"{job_url(username, name)}/terminal")


@never_cache
@require_safe
@for_scripts
def may_open_terminal(request: HttpRequest, username: str, name: str, role: str, index: int) -> HttpResponse:
    """The address of the WebSocket, asked by GET: 204, or why it would be refused. A script cannot read that from a
    refused WebSocket."""
    attempt = place.attempt_in(request.GET.get("attempt"))
    place.find(viewer_of(request), username, name, role, index, attempt)
    return HttpResponse(status=204)
