"""Routes about a job's history: its attempts and its events. v1 has neither."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from base.core.errors import NoJob
from base.core.words import whole
from jobs import access, queries
from jobs.history.ledger import as_read
from portal.shared.api.v1 import V1View
from portal.shared.jobs import serializers, shapes
from portal.shared.jobs.base import find_job_for_details, query_number
from portal.shared.viewer import viewer_of

_LIMIT, _MOST = 100, 1000


class Attempts(V1View):
    @extend_schema(
        summary="The attempts of a job, newest first",
        parameters=[OpenApiParameter("offset", int), OpenApiParameter("limit", int)],
        responses=list[shapes.AttemptItem],
    )
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job_for_details(request, username, job)
        offset = query_number(request, "offset", 0)
        limit = query_number(request, "limit", _LIMIT, most=_MOST)
        attempts = queries.list_attempts(row)[offset : offset + limit]
        may = access.may_read_logs(viewer_of(request), row.username)
        return Response([serializers.attempt_item(row, attempt, may_read_logs=may) for attempt in attempts])


class OneAttempt(V1View):
    @extend_schema(summary="One attempt with its tasks", responses=shapes.AttemptDetail)
    def get(self, request: Request, job: str, number: str, username: str = "") -> Response:
        row = find_job_for_details(request, username, job)
        if (which := whole(number, 9)) is None:
            raise NoJob(f"Attempt {number} of job {row.name} is not found.")
        attempt = queries.get_attempt(row, which)
        base_url = f"{request.scheme}://{request.get_host()}"
        roles = serializers.task_roles(row, attempt, queries.list_tasks(attempt), base_url)
        may = access.may_read_logs(viewer_of(request), row.username)
        item = serializers.attempt_item(row, attempt, may_read_logs=may)
        answer: shapes.AttemptDetail = {**item, "taskRoles": roles}
        return Response(answer)


class Events(V1View):
    @extend_schema(
        summary="What happened to a job, oldest first; go on with after=next",
        parameters=[OpenApiParameter("after", int), OpenApiParameter("limit", int)],
        responses=shapes.EventItems,
    )
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job_for_details(request, username, job)
        limit = query_number(request, "limit", _LIMIT, most=_MOST)
        events = list(queries.list_events(row, after=query_number(request, "after", 0))[: limit + 1])
        more = len(events) > limit and limit > 0
        events = events[:limit]
        items = [shapes.EventItem.of(event) for event in as_read(events, viewer_of(request))]
        return Response({"events": items, "next": events[-1].pk if more else None})
