"""The route that says everything about why a job waits. v1 has none."""

from __future__ import annotations

from typing import cast

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.placement.grid import Cell, Row
from jobs import access
from jobs.api import shapes
from jobs.api.base import find_job
from jobs.scheduling.why import Why, why
from portal.accounts.viewer import viewer_of
from portal.core.errors import NotFound
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
        },
    }


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
