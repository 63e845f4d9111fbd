"""Error answers outside REST framework: a page for people, JSON for clients of the API."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from portal.core.errors import LongshoreError, NotFound
from portal.web.api.answers import error_body, is_api, no_api


def error_answer(request: HttpRequest, error: LongshoreError) -> HttpResponse:
    if is_api(request):
        return JsonResponse(error_body(error), status=error.status)
    if error.status >= 500:
        _as_guest(request)
    return render(request, "error.html", {"status": error.status, "message": error.message}, status=error.status)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if is_api(request):
        return error_answer(request, no_api(request))
    return error_answer(request, NotFound("There is no such page."))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    error = LongshoreError("The request could not be read.")
    error.status, error.code = 400, "InvalidParametersError"
    return error_answer(request, error)


def forbidden(request: HttpRequest, exception: Exception | None = None, reason: str = "") -> HttpResponse:
    error = LongshoreError("This form has expired. Go back, load the page again and send it once more.")
    error.status, error.code = 403, "ForbiddenUserError"
    return error_answer(request, error)


def server_error(request: HttpRequest) -> HttpResponse:
    return error_answer(request, LongshoreError("Something went wrong here. The log of the portal has the cause."))


def _as_guest(request: HttpRequest) -> None:
    """Make the page ask the database neither who reads it nor which messages they have: the database may be what has
    just failed."""
    vars(request).pop("user", None)
    vars(request).pop("_messages", None)
