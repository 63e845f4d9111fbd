"""Routes about all jobs: GET and POST of ``/jobs`` and ``/user/:username/jobs``, and ``/jobs/validate``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from typing import Any
from urllib.parse import quote

from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import queries, services, versions
from jobs.api import serializers, shapes, why
from jobs.api.answers import created
from jobs.api.base import CONFIG, is_legacy, query_number, query_text, require_reader
from jobs.api.detail import JobDetail
from jobs.planning.lifecycle import JobState
from jobs.queries import JobFilter
from portal.accounts.auth import require_user
from portal.core.errors import BadRequest
from portal.web.api import etags
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View, body

AT_ONCE = 1000  # lines of the list in memory; a longer list is streamed
_STATES = frozenset({*(state.value for state in JobState), queries.STOPPING})
_PARAMETERS = [
    *(OpenApiParameter(name, str) for name in ("username", "vc", "state", "keyword")),
    OpenApiParameter("sweep", str, description="user~name: the jobs of that sweep."),
    OpenApiParameter("since", str, description="Submitted since: `24h`, `7d`, `2026-11-20` or a time in ISO 8601."),
    OpenApiParameter("sort", str, enum=list(queries.SORTS), description="Then at most `limit` lines, 1,000 without."),
    *(OpenApiParameter(name, int) for name in ("offset", "limit")),
]


class JobList(V1View):
    @extend_schema(summary="Jobs, newest first", parameters=_PARAMETERS, responses=list[shapes.JobItem])
    def get(self, request: Request, username: str = "") -> HttpResponseBase:
        require_reader(request)
        which = _filter(request, username)
        # A list of the last hours changes as time passes, so its ETag changes every minute.
        since = which.since and which.since.replace(second=0, microsecond=0)
        etag = etags.of(request.get_full_path(), since, *versions.of_list())
        return etags.known(request, etag) or etags.sent(self._answer(request, which), etag)

    @extend_schema(summary="Submit a job", request=CONFIG, responses={201: shapes.JobDetail, **errors(404, 409)})
    def post(self, request: Request, username: str = "") -> Response:
        user = require_user(request)
        job = services.submit(user, body(request), username=username or None, legacy=is_legacy(request, username))
        return created(request, job, f"{request.path_info}/{quote(job.name)}")

    def _answer(self, request: Request, which: JobFilter) -> HttpResponseBase:
        sort = _sort(request)
        if {"limit", "offset", "sort"} & request.query_params.keys():
            offset = query_number(request, "offset", 0)
            limit = query_number(request, "limit", AT_ONCE, most=100_000)
            rows: Iterable[dict[str, Any]] = queries.list_jobs(which, sort)[offset : offset + limit]
            return Response([serializers.list_item(row) for row in rows])
        lines = (serializers.list_item(row) for row in queries.iterate_jobs(which, AT_ONCE))
        first = list(islice(lines, AT_ONCE))
        if len(first) < AT_ONCE:
            return Response(first)
        return StreamingHttpResponse(json_list(chain(first, lines)), content_type="application/json")


class Validate(JobDetail):
    """``POST /jobs/validate``. With any other method ``validate`` is the name of a job."""

    @extend_schema(
        summary="Every problem of a config, with line and column, and whether the cluster could run it",
        request=CONFIG,
        responses=shapes.CheckResult,
    )
    def post(self, request: Request, job: str) -> Response:
        user = require_user(request)
        return Response(why.checked(services.check(body(request), user)))


def json_list(lines: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
    """A JSON array in pieces of AT_ONCE lines."""
    opening = b"["
    while chunk := list(islice(lines, AT_ONCE)):
        yield opening + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode()[1:-1]
        opening = b","
    yield b"]"


def _filter(request: Request, username: str) -> JobFilter:
    state = query_text(request, "state").upper()
    if state and state not in _STATES:
        raise BadRequest(f'child "state" fails because ["state" must be one of [{", ".join(sorted(_STATES))}]]')
    return JobFilter(
        username=username or query_text(request, "username"),
        vc=query_text(request, "vc"),
        state=state,
        keyword=query_text(request, "keyword"),
        sweep=query_text(request, "sweep"),
        since=_since(request),
    )


def _since(request: Request) -> datetime | None:
    text = query_text(request, "since")
    since = queries.read_since(text, timezone.now()) if text else None
    if text and since is None:
        raise BadRequest('child "since" fails because ["since" must be like 24h, 7d or 2026-11-20]')
    return since


def _sort(request: Request) -> str:
    sort = query_text(request, "sort") or "newest"
    if sort not in queries.SORTS:
        raise BadRequest(f'child "sort" fails because ["sort" must be one of [{", ".join(queries.SORTS)}]]')
    return sort
