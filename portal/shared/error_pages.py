"""Error answers outside REST framework: a page for people, JSON for clients of the API."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from base.core.errors import BadRequest, Forbidden, LongshoreError, NotFound
from portal.shared.api.answers import error_body, is_api, no_api

EXPIRED = "longshore.expired"  # in the META of a request: it was refused for its form, not for who sent it


def error_answer(request: HttpRequest, error: LongshoreError) -> HttpResponse:
    if is_api(request):
        return JsonResponse(error_body(error), status=error.status, headers=error.headers)
    if error.status >= 500:
        _as_guest(request)
    page = {"status": error.status, "message": error.message, "expired": EXPIRED in request.META}
    answer = render(request, "error.html", page, status=error.status)
    for name, value in error.headers.items():
        answer[name] = value
    return answer


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if is_api(request):
        return error_answer(request, no_api(request))
    return error_answer(request, NotFound("There is no such page."))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return error_answer(request, BadRequest("The request could not be read."))


def forbidden(request: HttpRequest, exception: Exception | None = None, reason: str = "") -> HttpResponse:
    request.META[EXPIRED] = True
    return error_answer(
        request, Forbidden("This form has expired. Go back, load the page again and send it once more.")
    )


def server_error(request: HttpRequest) -> HttpResponse:
    return error_answer(request, LongshoreError("Something went wrong here. The log of the portal has the cause."))


def _as_guest(request: HttpRequest) -> None:
    """Make the page ask the database neither who reads it nor which messages they have: the database may be what has
    just failed."""
    vars(request).pop("user", None)
    vars(request).pop("_messages", None)
