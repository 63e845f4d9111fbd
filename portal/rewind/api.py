"""The route of failed tasks that were kept: which there are, and a job that opens one again. v1 has none."""

from __future__ import annotations

from typing import Annotated

from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.values import Moment, V1Answer, called
from jobs.rewind import services
from portal.shared.api.bodies import STORABLE, V1Body, WholeNumber, read
from portal.shared.api.v1 import V1View
from portal.shared.jobs.base import find_job, find_job_for_details
from portal.shared.viewer import user_of


class KeptTask(V1Answer):
    task: str = called("label")  # worker-0
    attempt: int
    node: str = called("image.node.name")
    size: int = called("image.size")  # bytes that its container had written
    until: Moment | None


class KeptTasks(TypedDict):
    kept: list[KeptTask]


class RewindAsked(V1Body):
    task: Annotated[str, STORABLE] = ""
    attempt: WholeNumber = Field(0, ge=0, le=1_000_000_000)


class Reopened(TypedDict):
    name: str


class Rewind(V1View):
    @extend_schema(summary="Failed tasks that can be opened again", responses=KeptTasks)
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job_for_details(request, username, job)
        return Response({"kept": [KeptTask.of(snapshot) for snapshot in services.snapshots_of(row)]})

    @extend_schema(
        summary="Open a failed task again, in a job of its own",
        description="Without `task` and `attempt` it is the first of the list. The answer has the name of the new job.",
        request=RewindAsked,
        responses={201: Reopened},
    )
    def post(self, request: Request, job: str, username: str = "") -> Response:
        user = user_of(request)
        row = find_job(request, username, job)
        asked = read(RewindAsked, request)
        answer: Reopened = {"name": services.reopen(user, row, asked.task, asked.attempt).name}
        return Response(answer, status=201)
