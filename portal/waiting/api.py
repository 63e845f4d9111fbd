"""The route that says everything about why a job waits, and the same of a job that is not submitted yet. v1 has
neither."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from base.core.errors import NotFound
from jobs import queries
from jobs.forecast.outlook import Outlook
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.planning.turns import Move
from jobs.submitting.dry_run import CheckResult
from jobs.waiting.reason import blocker_item
from jobs.waiting.why import WhyWaiting, of_turn, reason_if_submitted, why
from portal.shared.api.v1 import V1View
from portal.shared.jobs import shapes
from portal.shared.jobs.base import find_job_for_details
from portal.shared.jobs.serializers import problem_items, starting_reason


class JobWhy(V1View):
    @extend_schema(
        summary="Each node, who holds what, and the smallest changes that start it; 404 for a job that does not wait",
        responses=shapes.Why,
    )
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job_for_details(request, username, job)
        found = why(row)
        if found is None:
            raise NotFound(_why_not(row))
        answer: shapes.Why = {**found.reason, **around(found)}
        return Response(answer)


def _why_not(job: Job) -> str:
    """Why there is no turn to tell of, of a job that has its place too, and whose start waits for something."""
    is_placed = job.state == JobState.RUNNING
    starting = starting_reason(queries.list_tasks(queries.current_attempt(job))) if is_placed else None
    if starting is None:
        return f"Job {job.name} does not wait."
    waits = f"Job {job.name} does not wait for its turn: it has its place, and nothing of it runs yet."
    return f"{waits} {starting['summary'].rstrip('.')}."


def around(found: WhyWaiting[Any]) -> shapes.Around:
    return {
        "grid": [shapes.NodeRow.of(row) for row in found.rows],
        "gridMore": found.more,
        "changes": [shapes.StartingChange.of(change) for change in found.changes],
        "holders": [shapes.Holds.of(holder) for holder in found.in_the_way],
        "vc": shapes.VcUse.of(found.use),
    }


def check_result_of(result: CheckResult) -> shapes.CheckedConfig:
    """The answer of ``/jobs/validate``."""
    return {
        "valid": result.is_valid,
        "errors": problem_items(result.problems),
        "neverFits": blocker_item(result.never) if result.never else None,
        "blockers": [blocker_item(each) for each in result.blockers],
        "pull": result.pull,
        "codeLimit": settings.CODE_LIMIT,
        "extras": _if_submitted(result.outlook, never=result.never is not None) if result.outlook else None,
    }


def _if_submitted(outlook: Outlook, *, never: bool) -> shapes.IfSubmitted:
    turn = outlook.turn
    reason = reason_if_submitted(turn, outlook.forecast)
    answer: shapes.IfSubmitted = {
        **reason,
        **around(of_turn(turn, reason, outlook.changes)),
        "starts": "never" if never else "now" if turn.move is Move.GO else "later",
        "after": shapes.full_name(outlook.after) if outlook.after else "",
    }
    if not outlook.after:
        del answer["after"]
    return answer
