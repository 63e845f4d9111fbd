"""Builds the answers that several job routes share."""

from __future__ import annotations

from typing import cast

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import access, queries
from jobs.api import serializers, shapes
from jobs.models import Attempt, Job
from jobs.planning.lifecycle import JobState
from jobs.scheduling.explain import turn_of, waiting_reason
from portal.accounts.viewer import viewer_of

_WARNING = (
    "killAllOnCompletedTaskNumber has been obsoleted, please use minFailedTaskCount and minSucceededTaskCount instead."
)


def created(request: Request, job: Job, path: str) -> Response:
    """201 with the job's detail as body, ``path`` as Location, and v1's X-Warning where it is due."""
    headers = {"Location": f"{request.scheme}://{request.get_host()}{path}"}
    if job.spec.get("killAllOnCompletedTaskNumber") is not None:
        headers["X-Warning"] = _WARNING
    return Response(job_answer(request, job, job.name, explain=False), status=201, headers=headers)


def job_answer(
    request: Request, job: Job, name: str, *, explain: bool = True, attempt: Attempt | None = None
) -> shapes.JobDetail:
    """The v1 job detail, without the job's story where the viewer may not read it. ``name`` is repeated as the client
    wrote it. ``explain``: say why it waits. ``attempt``: the current one, if the caller has it already."""
    attempt = attempt or queries.current_attempt(job)
    waits = explain and job.state == JobState.WAITING
    answer = serializers.detail(
        job,
        attempt,
        queries.list_tasks(attempt),
        name=name,
        base_url=f"{request.scheme}://{request.get_host()}",
        may_read_logs=access.may_read_logs(viewer_of(request), job),
        waiting_reason=cast(shapes.WaitingReason | None, waiting_reason(job, turn_of(job))) if waits else None,
    )
    return answer if access.may_read_story(viewer_of(request), job.username) else serializers.without_story(answer)
