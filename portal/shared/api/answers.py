"""Turns errors of REST framework into answers in v1's style, ``{"code", "message"}``, which show nothing of the
portal's inside."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest
from rest_framework import exceptions
from rest_framework.response import Response

from base.core import errors

_API = re.compile(r"/+(?:api|rest-server)/", re.IGNORECASE)
_STOOD_STILL = "25P03"  # of PostgreSQL: idle_in_transaction_session_timeout
_FULL = "53100"  # of PostgreSQL: disk_full
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


def is_database_away(error: Exception) -> bool:
    """Whether a statement failed for the database's sake, not for its own: restarted, full, locked, or a transaction
    that stood still for so long, on an overrun machine, that PostgreSQL ended it."""
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", None) == _STOOD_STILL
    return isinstance(error, (OperationalError, InterfaceError))


_ITS_DISK_IS_FULL = "The disk of the database is full. Try again once an admin has made room there."


def _is_full(error: Exception) -> bool:
    cause = error.__cause__
    return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL or getattr(cause, "sqlstate", None) == _FULL


def outage(error: Exception, path: str) -> errors.LongshoreError | None:
    """What is answered to an error for which no request is to blame; None for others. It is logged in one line, without
    a traceback, as it may happen to every request until somebody has mended it."""
    if is_database_away(error):
        _log.error("the database does not take a request", path=path, reason=str(error).strip())
        return errors.DatabaseUnavailable(_ITS_DISK_IS_FULL if _is_full(error) else "")
    if errors.is_disk_full(error):
        _log.error("the disk of this host is full", path=path, reason=str(error))
        return errors.DiskFull()
    return None


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    known = _translate(error, context["request"])
    if known is None:
        _log.error("request failed", path=context["request"].path, exc_info=error)
        known = errors.LongshoreError("Something went wrong here. The log of the portal has the cause.")
    return Response(error_body(known), status=known.status, headers=dict(known.headers))


def _translate(error: Exception, request: HttpRequest) -> errors.LongshoreError | None:
    if isinstance(error, errors.LongshoreError):
        return error
    if (away := outage(error, request.path)) is not None:
        return away
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
    """The address as the client wrote it; Django keeps it decoded."""
    scope = request.META.get("asgi.scope") or {}
    path, query = bytes(scope.get("raw_path") or b""), bytes(scope.get("query_string") or b"")
    return b"?".join(filter(None, (path, query))).decode("latin-1") if path else request.get_full_path()
