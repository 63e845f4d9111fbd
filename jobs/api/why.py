"""The route that says everything about why a job waits, and the same of a job that is not submitted yet. v1 has
neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import cast

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.placement.grid import Cell, Row
from jobs import access
from jobs.api import shapes
from jobs.api.base import find_job
from jobs.api.serializers import blocker_item
from jobs.forecast.outlook import Outlook
from jobs.planning.turns import Verdict
from jobs.scheduling.explain import reason_if_submitted
from jobs.scheduling.why import Why, of_turn, why
from jobs.services import CheckResult
from portal.accounts.viewer import viewer_of
from portal.core.errors import NotFound, Problem
from portal.web.api.v1 import V1View
from portal.web.api.values import milliseconds


class JobWhy(V1View):
    @extend_schema(
        summary="Each node, who holds what, and the smallest changes that start it; 404 for a job that does not wait",
        responses=shapes.Why,
    )
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        access.require_story(viewer_of(request), row)
        found = why(row)
        if found is None:
            raise NotFound(f"Job {row.name} does not wait.")
        return Response(answer(found))


def answer(found: Why) -> shapes.Why:
    """The answer of ``.../why``."""
    return {
        **cast(shapes.WaitingReason, found.reason),
        "grid": [_node_row(row) for row in found.rows],
        "gridMore": found.more,
        "changes": [
            {"sentence": one.sentence, "change": dict(one.change), "nodes": [place.node for place in one.places]}
            for one in found.changes
        ],
        "holders": [
            {
                "name": f"{one.username}~{one.name}",
                "virtualCluster": one.vc,
                "gpus": one.gpus,
                "cpus": one.cpus,
                "nodes": list(one.nodes),
                "until": milliseconds(one.ends_by),
            }
            for one in found.holders
        ],
        "vc": {
            "guarantee": dict(found.use.guarantee),
            "ceiling": dict(found.use.ceiling),
            "used": dict(found.use.used),
            "withJob": dict(found.use.with_job),
        },
    }


def checked(result: CheckResult) -> shapes.CheckResult:
    """The answer of ``/jobs/validate``."""
    return {
        "valid": result.is_valid,
        "errors": problem_items(result.problems),
        "neverFits": None if result.never is None else blocker_item(result.never),
        "blockers": [blocker_item(each) for each in result.blockers],
        "pull": result.pull,
        "extras": _outlook(result, result.outlook) if result.outlook else None,
    }


def problem_items(problems: Iterable[Problem]) -> list[shapes.ConfigProblem]:
    """Problems with line, column and path, and the mend of those that have one."""
    return [
        cast(
            shapes.ConfigProblem,
            {
                "line": each.line,
                "column": each.column,
                "path": each.path,
                "message": each.message,
                **({"mend": asdict(each.mend)} if each.mend else {}),
            },
        )
        for each in problems
    ]


def _outlook(result: CheckResult, found: Outlook) -> shapes.Outlook:
    turn, after = found.turn, found.after
    goes = "now" if turn.verdict is Verdict.GO else "later"
    shown = {
        **answer(of_turn(turn, reason_if_submitted(turn, found.forecast), found.changes)),
        "starts": "never" if result.never else goes,
        **({"after": f"{after.username}~{after.name}"} if after else {}),
    }
    return cast(shapes.Outlook, shown)


def _node_row(row: Row) -> shapes.NodeRow:
    return {
        "node": row.node,
        "role": row.role,
        "cpu": _cell(row.cpu),
        "memory": _cell(row.memory),
        "gpus": _cell(row.gpus),
        "ports": _cell(row.ports),
        "labels": _cell(row.labels),
        "state": _cell(row.state),
    }


def _cell(cell: Cell) -> shapes.Cell:
    return {"need": cell.need, "have": cell.have, "ok": cell.ok}
