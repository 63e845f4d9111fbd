"""``/sweeps``: one config with parameters becomes many jobs, which are listed and stopped as one. v1 has none."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.accounts import budget
from base.core.errors import NotFound, Problem
from base.core.values import milliseconds
from jobs import access, queries
from jobs.config.spec import JobSpec
from jobs.config.sweep.expand import Variant
from jobs.models import Job, Sweep
from jobs.submitting import sweeps
from portal.shared.api.bodies import V1Body, read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.v1 import V1View, body
from portal.shared.jobs.base import query_text
from portal.shared.jobs.rows import SweepRow, sweeps_of
from portal.shared.jobs.serializers import list_item, problem_items
from portal.shared.jobs.shapes import JobItem
from portal.shared.viewer import reader_of, user_of, viewer_of

MOST_LISTED = 1000
_CONFIG = {"application/json": JobSpec}


class SweepItem(TypedDict):
    name: str
    username: str
    createdTime: int
    jobs: int
    states: Annotated[dict[str, int], Field(description="Its jobs by state: WAITING, RUNNING, STOPPING, SUCCEEDED ...")]


class SweepJob(JobItem):
    values: Annotated[dict[str, str], Field(description="Of its parameters; empty for who may not read configs.")]


class SweepDetail(SweepItem):
    parameters: list[str]
    jobList: list[SweepJob]


class CheckedSweep(TypedDict):
    """``jobs`` are what would be submitted."""

    valid: bool
    errors: list[Problem]
    jobs: list[Variant]


class StopValue(V1Body):
    value: Literal["STOP"]


class Sweeps(V1View):
    @extend_schema(
        summary="Sweeps, newest first, at most 1,000",
        parameters=[OpenApiParameter("username", str)],
        responses=list[SweepItem],
    )
    def get(self, request: Request) -> Response:
        reader_of(request)
        newest = Sweep.objects.order_by("-created_at", "-id")
        if username := query_text(request, "username"):
            newest = newest.filter(username=username)
        rows = {sweep.pk: sweep for sweep in newest.defer("config")[:MOST_LISTED]}
        counted = {each.id: each for each in sweeps_of(rows, viewer_of(request))}
        return Response([_item(rows[id], counted[id]) for id in rows if id in counted])

    @extend_schema(
        summary="Submit all jobs of a sweep, or none",
        request=_CONFIG,
        responses={201: SweepDetail, **errors(404, 409, 429)},
    )
    def post(self, request: Request) -> Response:
        user = user_of(request)
        sweep = sweeps.submit(user, _text(body(request)))
        place = f"{request.scheme}://{request.get_host()}{request.path_info}/{sweep.username}~{sweep.name}"
        return Response(_detail(request, sweep), status=201, headers={"Location": place})


class ValidateSweep(V1View):
    @extend_schema(
        summary="Every problem of a sweep, and the configs of its jobs",
        request=_CONFIG,
        responses={200: CheckedSweep, **errors(429)},
    )
    def post(self, request: Request) -> Response:
        user = user_of(request)
        with budget.question(user.username):
            checked = sweeps.check(_text(body(request)), user)
        variants = checked.planned.variants if checked.planned else ()
        return Response(
            {
                "valid": not checked.problems,
                "errors": problem_items(checked.problems),
                "jobs": [asdict(variant) for variant in variants],
            }
        )


class OneSweep(V1View):
    @extend_schema(summary="One sweep with its jobs", responses=SweepDetail)
    def get(self, request: Request, sweep: str) -> Response:
        return Response(_detail(request, _find(request, sweep)))


class SweepExecutionType(V1View):
    @extend_schema(summary="STOP all jobs of a sweep", request=StopValue, responses={202: Message})
    def put(self, request: Request, sweep: str) -> Response:
        row = _find(request, sweep)
        user = user_of(request)
        read(StopValue, request)
        access.require_write(user, Job(username=row.username, name=row.name), "execute")
        done = sweeps.stop(user, row)
        return Response({"message": f"{len(done.stopped)} jobs of sweep {sweep} were asked to stop"}, status=202)


def _find(request: Request, name: str) -> Sweep:
    reader_of(request)
    username, tilde, own = name.partition("~")
    if not tilde:
        raise NotFound(f"Sweep {name} is not found: its user belongs to its name, as in mira~{name}.")
    return sweeps.find(username, own)


def _text(sent: Any) -> str:
    return sent if isinstance(sent, str) else json.dumps(sent, indent=2, ensure_ascii=False)


def _item(sweep: Sweep, counted: SweepRow) -> SweepItem:
    return {
        "name": sweep.name,
        "username": sweep.username,
        "createdTime": milliseconds(sweep.created_at) or 0,
        "jobs": counted.total,
        "states": dict(counted.counts),
    }


def _detail(request: Request, sweep: Sweep) -> SweepDetail:
    viewer = viewer_of(request)
    may_read = access.may_read_config(viewer, Job(username=sweep.username))
    [counted] = sweeps_of([sweep.pk], viewer)
    jobs = queries.visible_jobs().filter(sweep=sweep).order_by("id")
    values = {job.pk: sweeps.values_of(job) for job in jobs.only("spec")} if may_read else {}
    rows = queries.list_jobs().filter(sweep=sweep).order_by("id")
    return {
        **_item(sweep, counted),
        "parameters": list(sweep.parameters) if may_read else [],
        "jobList": [{**list_item(row, viewer), "values": values.get(row["id"], {})} for row in rows],
    }
