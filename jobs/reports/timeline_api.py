"""``GET /cluster/timeline``: what was held in a window, task by task."""

from __future__ import annotations

from urllib.parse import quote

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from jobs.api.base import query_number, query_text, require_reader
from jobs.history import timeline
from jobs.history.timeline import Span
from jobs.reports.timeline_page import read_window
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View

_LIMIT, _MOST = 1_000, 10_000
_TIME = "Milliseconds since 1970, `2026-11-20`, ISO 8601, or a span before now: `12h`, `7d`."

# ``from`` and ``to`` are milliseconds; ``to`` is null while it runs. ``outcome``: SUCCEEDED, FAILED, STOPPED, EVICTED
# or LOST. ``events`` is the address of the decisions behind it, while the job is there.
HeldItem = TypedDict(
    "HeldItem",
    {
        "job": str,
        "vc": str,
        "attempt": int,
        "task": str,
        "node": str,
        "gpus": list[str],
        "gpuType": str,
        "cpus": int,
        "memoryMB": int,
        "guest": bool,
        "from": int,
        "to": int | None,
        "outcome": str | None,
        "events": str,
    },
)
TimelineAnswer = TypedDict("TimelineAnswer", {"from": int, "to": int, "held": list[HeldItem], "next": int | None})


class Timeline(V1View):
    @extend_schema(
        summary="Which job held which GPU, when; go on with after=next",
        parameters=[
            OpenApiParameter("from", str, description=f"{_TIME} 12 hours before `to` without it."),
            OpenApiParameter("to", str, description=f"{_TIME} Now without it."),
            *(OpenApiParameter(name, str) for name in ("node", "vc")),
            *(OpenApiParameter(name, int) for name in ("after", "limit")),
        ],
        responses={200: TimelineAnswer, **errors(401)},
    )
    def get(self, request: Request) -> Response:
        require_reader(request)
        texts = {name: query_text(request, name) for name in ("from", "to", "node", "vc")}
        window = read_window(texts)
        after, limit = query_number(request, "after", 0), query_number(request, "limit", _LIMIT, most=_MOST)
        held = timeline.spans(window, node=texts["node"], vc=texts["vc"], after=after, most=limit + 1)
        more, held = len(held) > limit > 0, held[:limit]
        following = held[-1].id if more else None
        items = [_item(one) for one in held]
        return Response({"from": window.begin, "to": window.end, "held": items, "next": following})


def _item(one: Span) -> HeldItem:
    return {
        "job": f"{one.username}~{one.job_name}",
        "vc": one.vc,
        "attempt": one.attempt,
        "task": one.task,
        "node": one.node,
        "gpus": list(one.gpus),
        "gpuType": one.gpu_type,
        "cpus": one.cpus,
        "memoryMB": one.memory_mb,
        "guest": one.guest,
        "from": one.began,
        "to": one.ended,
        "outcome": one.outcome or None,
        "events": f"/api/v1/user/{quote(one.username)}/jobs/{quote(one.job_name)}/events",
    }
