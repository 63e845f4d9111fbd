"""Routes about all jobs: GET and POST of ``/jobs`` and ``/user/:username/jobs``, and ``/jobs/validate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any
from urllib.parse import quote

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic_core import to_json
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts import budget
from base.accounts.viewer import Viewer, require_reader
from base.core.errors import BadRequest
from jobs import access, queries, services, versions
from jobs.config.spec import JobSpec
from jobs.models import Job
from jobs.submitting.dry_run import check_config
from portal.job.api import OneJob
from portal.lists.listing import ListQuery
from portal.shared.api import etags
from portal.shared.api.bodies import read
from portal.shared.api.openapi import errors
from portal.shared.api.repeated import Version
from portal.shared.api.v1 import LongJson, V1View, body
from portal.shared.jobs import serializers, shapes
from portal.shared.jobs.base import is_legacy, query_number
from portal.shared.viewer import reader_of, user_of
from portal.waiting.api import check_result_of

AT_ONCE = 1000  # lines of the list in memory; a longer list is streamed
_PARAMETERS = [
    *(OpenApiParameter(name, str) for name in ("username", "vc", "state", "keyword")),
    OpenApiParameter("sweep", str, description="user~name: the jobs of that sweep."),
    OpenApiParameter("since", str, description="Submitted since: `24h`, `7d`, `2026-11-20` or a time in ISO 8601."),
    OpenApiParameter("sort", str, enum=list(queries.SORTS), description="Then at most `limit` lines, 1,000 without."),
    *(OpenApiParameter(name, int) for name in ("offset", "limit")),
    OpenApiParameter("with", str, enum=["userExitCode"], description="One more key; then at most 1,000 lines too."),
]


class JobList(V1View):
    renderer = LongJson

    @extend_schema(summary="Jobs, newest first", parameters=_PARAMETERS, responses=list[shapes.JobItem])
    def get(self, request: Request, username: str = "") -> HttpResponseBase:
        reader_of(request)
        query, path = _query(request, username), request.get_full_path()
        # A list of the last hours changes as time passes, so its ETag changes every minute.
        since = query.which.since and query.which.since.replace(second=0, microsecond=0)

        def etag(viewer: Viewer, text: str) -> str:
            require_reader(viewer)
            return etags.of(path, access.reads_details_as(viewer), since, text)

        window = None
        if {"limit", "offset", "sort", "with"} & request.query_params.keys():
            offset = query_number(request, "offset", 0)
            window = slice(offset, offset + query_number(request, "limit", AT_ONCE, most=100_000))
        has_exit = request.query_params.get("with") == "userExitCode"
        version = Version(versions.of_list(), (), etag, partial(_lines, query, window, has_exit))
        return etags.answer(request, version, keep=since is None)

    @extend_schema(summary="Submit a job", request=JobSpec, responses={201: shapes.JobDetail, **errors(404, 409, 429)})
    def post(self, request: Request, username: str = "") -> Response:
        user = user_of(request)
        job = services.submit(user, body(request), username=username or None, legacy=is_legacy(request, username))
        return serializers.created(request, job, f"{request.path_info}/{quote(job.name)}")


class Validate(OneJob):
    """``POST /jobs/validate``. With any other method ``validate`` is the name of a job."""

    @extend_schema(
        summary="Every problem of a config, with line and column, and whether the cluster could run it",
        request=JobSpec,
        responses={200: shapes.CheckedConfig, **errors(429)},
    )
    def post(self, request: Request, job: str) -> Response:
        user = user_of(request)
        with budget.question(user.username):
            return Response(check_result_of(check_config(body(request), user)))


class StopJobs(OneJob):
    """``POST /jobs/stop``. With any other method ``stop`` is the name of a job."""

    @extend_schema(
        summary="STOP many jobs of one user",
        request=shapes.JobNames,
        responses={202: shapes.StoppedJobs, **errors(403)},
    )
    def post(self, request: Request, job: str, username: str = "") -> Response:
        user = user_of(request)
        owner = username or user.username
        names = [name.removeprefix(f"{owner}~") for name in read(shapes.JobNames, request).jobs]
        access.require_write(user, Job(username=owner, name=names[0]), "execute")
        done = services.stop_many(user, queries.named(owner, names))
        stopped = {name.rpartition("~")[2] for name in done.stopped}
        told: dict[str, list[str]] = {"stopped": [], "left": []}
        for name in dict.fromkeys(names):
            told["stopped" if name in stopped else "left"].append(name)
        return Response(told, status=202)


def _lines(
    query: ListQuery, window: slice | None, has_exit: bool, viewer: Viewer
) -> list[shapes.JobItem] | StreamingHttpResponse:
    if window is not None:
        rows = queries.list_jobs(query.which, query.sort)
        return [*serializers.list_items((queries.with_exit(rows) if has_exit else rows)[window], viewer)]
    lines = serializers.list_items(queries.iterate_jobs(query.which, AT_ONCE), viewer)
    first = list(islice(lines, AT_ONCE))
    if len(first) < AT_ONCE:
        return first
    return StreamingHttpResponse(json_list(chain(first, lines)), content_type="application/json")


def json_list(lines: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
    """A JSON array in pieces of AT_ONCE lines."""
    opening = b"["
    while chunk := list(islice(lines, AT_ONCE)):
        yield opening + to_json(chunk)[1:-1]
        opening = b","
    yield b"]"


def _query(request: Request, username: str) -> ListQuery:
    """What the query asks for, as on the page, but of each job and by the state that it has. Raises BadRequest."""
    query = ListQuery(request.query_params)
    for name, rule in query.wrong.items():
        raise BadRequest(f'child "{name}" fails because ["{name}" {rule}]')
    owner = username or query.which.username
    query.which = replace(query.which, username=owner, shown_as=False, folded=False)
    return query
