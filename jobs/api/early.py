"""Routes of the very first release, v0.1 (v1 contract, 3.12): ``/api/auth`` and ``/api/job``.

A thin skin over today's services. Errors are {error, message}: the name is that of v0.1, the message says what is
wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar
from urllib.parse import quote

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.users import services as users
from jobs import admission, queries, services
from jobs.api import exit_report, serializers
from jobs.api.answers import job_answer
from jobs.api.base import find_job
from jobs.api.lists import AT_ONCE, json_list
from jobs.planning.lifecycle import JobState, v1_sub_state
from jobs.queries import JobFilter
from portal.accounts.api import tokens as token_api
from portal.accounts.auth import require_admin, require_user
from portal.accounts.services import make_token
from portal.accounts.viewer import may_read_jobs, viewer_of
from portal.core.errors import (
    ConflictJob,
    IncorrectPassword,
    InvalidConfig,
    LongshoreError,
    NoJob,
    NoUser,
    Unauthorized,
)
from portal.web.api.answers import exception_handler
from portal.web.api.v1 import V1View, body, fields, flag_of, text_of

_SEVEN_DAYS = 7 * 86_400  # seconds: the life of a token in v0.1
_FROM_DETAIL = ("appId", "appProgress", "appLaunchedTime", "appCompletedTime", "appExitCode", "appExitDiagnostics")


class EarlyError(LongshoreError):
    """An error with its name in v0.1."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status, self.error = status, error


class EarlyView(V1View):
    """Answers errors in v0.1's form. ``failing``: by method, the status and name of errors that have no name there."""

    failing: ClassVar[dict[str, tuple[int, str]]] = {}

    def handle_exception(self, exc: Exception) -> Response:
        answer = exception_handler(exc, {"request": self.request})
        if isinstance(exc, EarlyError):
            answer.data = {"error": exc.error, "message": exc.message}
        elif isinstance(exc, Unauthorized):
            answer.data = {"error": "NotAuthorized", "message": "not authorized"}
        else:
            status, name = self.failing.get(self.request.method or "", (answer.status_code, ""))
            answer.data = {"error": name or answer.data.get("code", "UnknownError"), "message": answer.data["message"]}
            answer.status_code = answer.status_code if answer.status_code in (413, 429) else status
        answer.exception = True
        return answer


@extend_schema(exclude=True)
class Auth(EarlyView):
    failing: ClassVar = {"PUT": (500, "UpdateFailed"), "DELETE": (500, "RemoveFailed")}

    def post(self, request: Request) -> Response:
        username, password, seconds = token_api.read({"expiration": _SEVEN_DAYS, **fields(request)})
        try:
            user, token = make_token(request._request, username, password, seconds)
        except (NoUser, IncorrectPassword):
            raise EarlyError(401, "AuthenticationFailed", "authentication failed") from None
        return Response({"token": token, "user": user.username})

    def put(self, request: Request) -> Response:
        actor = _admin(request)
        data = fields(request)
        username, password = text_of(data, "username"), text_of(data, "password")
        admin = flag_of(data, "admin", False)
        if flag_of(data, "modify", False):
            users.update_user(actor, username, password=password, admin=admin)
        else:
            users.create_user(actor, username=username, password=password, admin=admin)
        return Response({"message": "update successfully"})

    def delete(self, request: Request) -> Response:
        actor = _admin(request)
        users.delete_user(actor, text_of(fields(request), "username"))
        return Response({"message": "remove successfully"})


@extend_schema(exclude=True)
class Jobs(EarlyView):
    def get(self, request: Request) -> HttpResponseBase:
        if not may_read_jobs(viewer_of(request)):
            raise Unauthorized
        lines = _lines(_base(request))
        first = next(lines, None)
        if first is None:
            raise EarlyError(500, "JobListNotFound", "could not find job list")
        return StreamingHttpResponse(json_list(chain([first], lines)), content_type="application/json")


@extend_schema(exclude=True)
class OneJob(EarlyView):
    failing: ClassVar = {"PUT": (500, "JobUpdateError"), "DELETE": (401, "JobDeleteError")}

    def get(self, request: Request, job: str) -> Response:
        row = _find(request, job)
        status = job_answer(request, row, job, explain=False)["jobStatus"]
        item = _item(_fields(row), _base(request))
        return Response({**item, **{name: value for name, value in status.items() if name in _FROM_DETAIL}})

    def put(self, request: Request, job: str) -> Response:
        user = require_user(request)
        try:
            admission.require_free_name(user.username, job, True)
            services.submit(user, body(request), name_from_url=job, legacy=True)
        except ConflictJob:
            raise EarlyError(500, "DuplicateJobSubmission", "duplicate job submission") from None
        except InvalidConfig as error:
            raise EarlyError(500, "ParameterValidationError", error.message) from None
        return Response({"message": f"update job {job} successfully"})

    def delete(self, request: Request, job: str) -> Response:
        row = _find(request, job)
        services.delete(require_user(request), row)
        return Response({"message": f"deleted job {job} successfully"})


def _admin(request: Request) -> Any:
    try:
        return require_admin(request)
    except LongshoreError:
        raise Unauthorized from None  # v0.1 did not tell guests from users who are no admins


def _find(request: Request, job: str) -> Any:
    try:
        return find_job(request, "", job)
    except NoJob:
        raise EarlyError(500, "JOB_NOT_FOUND", f"could not find job {job}") from None


def _lines(base_url: str) -> Iterator[dict[str, Any]]:
    return (_item(row, base_url) for row in queries.iterate_jobs(JobFilter(), AT_ONCE))


def _item(row: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """A job as v0.1 listed it. ``state`` is the word that v1 calls subState."""
    line, code = serializers.list_item(row), row["exit_code"]
    started = row["attempt_number"] > 1 or row["state"] != JobState.WAITING
    page = f"{base_url}/jobs/{quote(row['username'])}/{quote(row['name'])}"
    return {
        **{name: line[name] for name in ("name", "username", "retries", "createdTime", "completedTime")},
        "state": v1_sub_state(JobState(row["state"])),
        "appTrackingUrl": page if started else None,
        "appExitType": None if code is None else exit_report.exit_type(code),
    }


def _fields(job: Any) -> dict[str, Any]:
    return {name: getattr(job, name) for name in queries.LIST_FIELDS}


def _base(request: Request) -> str:
    return f"{request.scheme}://{request.get_host()}"
