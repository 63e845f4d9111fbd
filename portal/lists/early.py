"""Routes of the very first release, v0.1 (v1 contract, 3.12): ``/api/auth`` and ``/api/job``.

A thin skin over today's services. Errors are {error, message}: the name is that of v0.1, the message says what is
wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, ClassVar
from urllib.parse import quote

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts.viewer import Viewer
from base.core.errors import ConflictJob, IncorrectPassword, InvalidConfig, LongshoreError, NoJob, NoUser, Unauthorized
from base.roles import by_flag
from clusters.users.services import create_user, delete_user, update_user
from jobs import admission, queries, services
from jobs.planning.lifecycle import JobState, v1_sub_state
from jobs.queries import JobFilter
from portal.lists.api import AT_ONCE, json_list
from portal.shared.api.answers import exception_handler
from portal.shared.api.bodies import FilledText, Flag, V1Body, WholeNumber, read
from portal.shared.api.v1 import V1View, body, telling_what_is_left
from portal.shared.jobs import exit_report, serializers
from portal.shared.jobs.base import find_job
from portal.shared.viewer import admin_of, reader_of, user_of, viewer_of
from portal.sign_in.api import TokenRequest
from portal.sign_in.passwords import make_token

_SEVEN_DAYS = 7 * 86_400  # seconds: the life of a token in v0.1
_FROM_DETAIL = ("appId", "appProgress", "appLaunchedTime", "appCompletedTime", "appExitCode", "appExitDiagnostics")


class EarlyTokenRequest(TokenRequest):
    expiration: WholeNumber = Field(_SEVEN_DAYS, ge=60, le=_SEVEN_DAYS)


class EarlyUserPut(V1Body, extra="ignore"):
    username: FilledText
    password: FilledText
    admin: Flag = False
    modify: Flag = False


class EarlyUserDelete(V1Body, extra="ignore"):
    username: FilledText


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
        asked = read(EarlyTokenRequest, request)
        try:
            user, token = make_token(request._request, asked.username, asked.password, asked.expiration)
        except (NoUser, IncorrectPassword):
            raise EarlyError(401, "AuthenticationFailed", "authentication failed") from None
        return Response({"token": token, "user": user.username})

    def put(self, request: Request) -> Response:
        actor = _admin(request)
        put = read(EarlyUserPut, request)
        if put.modify:
            update_user(actor, put.username, password=put.password, admin=put.admin)
            return Response({"message": "update successfully"})
        create_user(actor, username=put.username, password=put.password, role=by_flag(put.admin))
        return telling_what_is_left(Response({"message": "update successfully"}), put.username)

    def delete(self, request: Request) -> Response:
        actor = _admin(request)
        delete_user(actor, read(EarlyUserDelete, request).username)
        return Response({"message": "remove successfully"})


@extend_schema(exclude=True)
class EarlyJobs(EarlyView):
    def get(self, request: Request) -> HttpResponseBase:
        base_url, viewer = _base(request), reader_of(request)
        lines = (_item(row, base_url, viewer) for row in queries.iterate_jobs(JobFilter(), AT_ONCE))
        first = next(lines, None)
        if first is None:
            raise EarlyError(500, "JobListNotFound", "could not find job list")
        return StreamingHttpResponse(json_list(chain([first], lines)), content_type="application/json")


@extend_schema(exclude=True)
class EarlyJob(EarlyView):
    failing: ClassVar = {"PUT": (500, "JobUpdateError"), "DELETE": (401, "JobDeleteError")}

    def get(self, request: Request, job: str) -> Response:
        row = _find(request, job)
        attempt, viewer = queries.current_attempt(row), viewer_of(request)
        status = serializers.job_answer(viewer, _base(request), row, attempt, job, explain=False)["jobStatus"]
        item = _item(vars(row), _base(request), viewer)
        return Response({**item, **{name: value for name, value in status.items() if name in _FROM_DETAIL}})

    def put(self, request: Request, job: str) -> Response:
        user = user_of(request)
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
        services.delete(user_of(request), row)
        return Response({"message": f"deleted job {job} successfully"})


def _admin(request: Request) -> Any:
    try:
        return admin_of(request)
    except LongshoreError:
        raise Unauthorized from None  # v0.1 did not tell guests from users who are no admins


def _find(request: Request, job: str) -> Any:
    try:
        return find_job(request, "", job)
    except NoJob:
        raise EarlyError(500, "JOB_NOT_FOUND", f"could not find job {job}") from None


def _item(row: Mapping[str, Any], base_url: str, viewer: Viewer) -> dict[str, Any]:
    """A job as v0.1 listed it. ``state`` is the word that v1 calls subState."""
    line = serializers.list_item(row, viewer)
    code = line["appExitCode"]
    started = row["attempt_number"] > 1 or row["state"] != JobState.WAITING
    page = f"{base_url}/jobs/{quote(row['username'])}/{quote(row['name'])}"
    return {
        **{name: line[name] for name in ("name", "username", "retries", "createdTime", "completedTime")},
        "state": v1_sub_state(JobState(row["state"])),
        "appTrackingUrl": page if started else None,
        "appExitType": None if code is None else exit_report.exit_type(code),
    }


def _base(request: Request) -> str:
    return f"{request.scheme}://{request.get_host()}"
