"""The route of failed tasks that were kept: which there are, and a job that opens one again. v1 has none."""

from __future__ import annotations

from typing import NotRequired

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from jobs import access
from jobs.api.base import find_job
from jobs.rewind import services
from portal.accounts.auth import require_user
from portal.accounts.viewer import viewer_of
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View, fields, refuse_others, text_of, whole_of
from portal.web.api.values import milliseconds

_MOST = 1_000_000_000


class KeptTask(TypedDict):
    task: str  # worker-0
    attempt: int
    node: str
    size: int  # bytes that its container had written
    until: int | None  # ms


class KeptTasks(TypedDict):
    kept: list[KeptTask]


class RewindAsked(TypedDict):
    task: NotRequired[str]
    attempt: NotRequired[int]


class Reopened(TypedDict):
    name: str


class Rewind(V1View):
    @extend_schema(summary="Failed tasks that can be opened again", responses={200: KeptTasks, **errors(401, 403, 404)})
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        access.require_story(viewer_of(request), row)
        answer: KeptTasks = {
            "kept": [
                {
                    "task": one.label,
                    "attempt": one.attempt,
                    "node": one.image.node.name,
                    "size": one.image.size,
                    "until": milliseconds(one.until),
                }
                for one in services.kept_of(row)
            ]
        }
        return Response(answer)

    @extend_schema(
        summary="Open a failed task again, in a job of its own",
        description="Without `task` and `attempt` it is the first of the list. The answer has the name of the new job.",
        request=RewindAsked,
        responses={201: Reopened, **errors(400, 401, 403, 404)},
    )
    def post(self, request: Request, job: str, username: str = "") -> Response:
        user = require_user(request)
        row = find_job(request, username, job)
        data = fields(request)
        task = text_of(data, "task", empty=True) if "task" in data else ""
        attempt = whole_of(data, "attempt", 0, _MOST) if "attempt" in data else 0
        refuse_others(data, ("task", "attempt"))
        answer: Reopened = {"name": services.reopen(user, row, task, attempt).name}
        return Response(answer, status=201)
