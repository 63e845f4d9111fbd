"""Turns errors of REST framework into answers in v1's style, ``{"code", "message"}``, which show nothing of the
portal's inside."""

from __future__ import annotations

import re
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest
from rest_framework import exceptions
from rest_framework.response import Response

from portal.core import errors

_API = re.compile(r"/+(?:api|rest-server)/", re.IGNORECASE)
_log = structlog.get_logger("portal.api")
_OURS: tuple[tuple[type[Exception], type[errors.LongshoreError]], ...] = (
    (exceptions.NotAuthenticated, errors.Unauthorized),
    (exceptions.AuthenticationFailed, errors.Unauthorized),
    (RequestDataTooBig, errors.TooLarge),
    (exceptions.Throttled, errors.LockedOut),
)


def is_api(request: HttpRequest) -> bool:
    return _API.match(request.path_info) is not None


def error_body(error: errors.LongshoreError) -> dict[str, Any]:
    return {"message": error.message} if error.code is None else {"code": error.code, "message": error.message}


def no_api(request: HttpRequest) -> errors.NoApi:
    return errors.NoApi(f"API {_raw_url(request)} is not found.")


def database_away(error: Exception, path: str = "") -> errors.DatabaseUnavailable:
    """Log in one line why the database does not answer (restarted, full, locked); no traceback for each request."""
    _log.error("the database does not take a request", path=path, reason=str(error).strip())
    return errors.DatabaseUnavailable()


def disk_full(error: Exception, path: str = "") -> errors.DiskFull:
    """Log it in one line: it may happen to every request until somebody makes room."""
    _log.error("the disk of this host is full", path=path, reason=str(error))
    return errors.DiskFull()


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    known = _translate(error, context["request"])
    if known is None:
        _log.error("request failed", path=context["request"].path, exc_info=error)
        known = errors.LongshoreError("Something went wrong here. The log of the portal has the cause.")
    return Response(error_body(known), status=known.status)


def _translate(error: Exception, request: HttpRequest) -> errors.LongshoreError | None:
    if isinstance(error, errors.LongshoreError):
        return error
    if isinstance(error, (OperationalError, InterfaceError)):
        return database_away(error, request.path)
    if errors.is_disk_full(error):
        return disk_full(error, request.path)
    for kind, ours in _OURS:
        if isinstance(error, kind):
            return ours()
    if isinstance(error, (Http404, exceptions.NotFound, exceptions.MethodNotAllowed)):
        return no_api(request)
    if isinstance(error, (PermissionDenied, exceptions.PermissionDenied)):
        return errors.Forbidden(str(error) or "This is not allowed.")
    if isinstance(error, SuspiciousOperation):  # too many parameters, among others
        return errors.BadRequest("The request holds something that is not read here, such as too many parameters.")
    if isinstance(error, DataError):  # a NUL, or a number larger than a column: sent by no honest client
        return errors.BadRequest("The request holds a value that cannot be stored.")
    if isinstance(error, exceptions.ParseError):
        unreadable = errors.BadRequest(str(error.detail))
        unreadable.code = None  # as v1 answers a body that is not JSON
        return unreadable
    return errors.BadRequest(str(error.detail)) if isinstance(error, exceptions.APIException) else None


def _raw_url(request: HttpRequest) -> str:
    """As the client wrote it; Django keeps it decoded."""
    scope = request.META.get("asgi.scope") or {}
    path, query = bytes(scope.get("raw_path") or b""), bytes(scope.get("query_string") or b"")
    return b"?".join(filter(None, (path, query))).decode("latin-1") if path else request.get_full_path()
