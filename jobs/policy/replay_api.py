"""``/cluster/replay``: a past day played again under another policy or on another cluster. For admins."""

from __future__ import annotations

from typing import Annotated, Any, cast

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from jobs.models import Replay
from jobs.planning.replay.outcome import CLASSES, COLUMNS
from jobs.replay import run
from jobs.replay.asked import MOST_TIMES, POLICIES, read_asked
from portal.accounts.auth import require_admin
from portal.accounts.viewer import viewer_of
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View, fields, refuse_others
from portal.web.api.values import one_of

_TIME = "Milliseconds since 1970, `2026-11-20`, ISO 8601, or a span before now: `24h`."
_KNOWN = ("from", "to", "policy", "nodes", "changes")


class ReplayRequest(BaseModel):
    begin: str | int = Field("1d", alias="from", description=f"{_TIME} A day before `to` without it.")
    to: str | int = Field("", description=f"{_TIME} A day means its end; now without it. At most 7 days after `from`.")
    policy: str = Field("longshore", json_schema_extra={"enum": [*POLICIES]})
    nodes: float = Field(1.0, gt=0, le=MOST_TIMES, description="How many times as many nodes there are.")
    changes: list[str] = Field(
        default_factory=list, description="Of virtual clusters and nodes, as in /cluster/what-if: `vc:vision:+8`."
    )


class WaitsShown(TypedDict):
    """Of jobs of one size, in seconds from when they could start; who has not started waited until the end."""

    number: int
    mean: float
    p50: float
    p95: float


class OutcomeShown(TypedDict):
    """``used`` is the part in use over the day, in columns. ``fairness`` is Jain's index of what each virtual cluster
    ``got`` of what it was entitled to. ``lost`` are GPU-hours of evicted runs."""

    utilisation: float
    waits: Annotated[dict[str, WaitsShown], Field(description=f"By size: {', '.join(CLASSES)}.")]
    fairness: float | None
    got: dict[str, float]
    evictions: int
    lost: float
    not_started: int
    used: Annotated[list[float], Field(description=f"{COLUMNS} columns.")]


class Numbers(TypedDict):
    before: float
    after: float


class ReplayResult(TypedDict):
    """``before`` is what really happened, ``after`` what would have. ``by`` says whether GPUs or cores were counted, of
    which there are ``whole``. ``until``: how far it was played, in milliseconds; ``took``: seconds."""

    by: Annotated[str, one_of("gpu", "cpu")]
    jobs: int
    until: int
    took: float
    nodes: Numbers
    whole: Numbers
    before: OutcomeShown
    after: OutcomeShown
    notes: list[str]


# ``progress`` is in percent; ``result`` is null and ``error`` empty until it is played or cannot be.
ReplayShown = TypedDict(
    "ReplayShown",
    {
        "id": int,
        "askedBy": str,
        "askedAt": int,
        "from": int,
        "to": int,
        "policy": str,
        "nodes": float,
        "changes": list[str],
        "progress": int,
        "error": str,
        "result": ReplayResult | None,
    },
)


class Replays(V1View):
    @extend_schema(
        summary="The newest replays, without their results",
        description="For admins.",
        responses={200: list[ReplayShown], **errors(401, 403)},
    )
    def get(self, request: Request) -> Response:
        return Response([shown(row, None) for row in run.newest(viewer_of(request))])

    @extend_schema(
        summary="Play a past day again under another policy or on another cluster",
        description="For admins. A worker plays it; ask for `/cluster/replay/{id}` until it has a result or an error.",
        request=ReplayRequest,
        responses={202: ReplayShown, **errors(401, 403)},
    )
    def post(self, request: Request) -> Response:
        admin = require_admin(request)
        data = fields(request)
        refuse_others(data, _KNOWN)
        row = run.ask(admin, read_asked(data))
        return Response(shown(row, None), status=202)


class OneReplay(V1View):
    @extend_schema(
        summary="One replay: how far it is, then its result",
        description="For admins.",
        responses={200: ReplayShown, **errors(401, 403, 404)},
    )
    def get(self, request: Request, id: int) -> Response:
        row = run.find(viewer_of(request), id)
        return Response(shown(row, row.result))


def shown(row: Replay, result: dict[str, Any] | None) -> ReplayShown:
    return {
        "id": row.pk,
        "askedBy": row.username,
        "askedAt": row.made,
        "from": row.asked["from"],
        "to": row.asked["to"],
        "policy": row.asked["policy"],
        "nodes": row.asked["nodes"],
        "changes": row.asked["changes"],
        "progress": row.progress,
        "error": row.error,
        "result": cast(ReplayResult | None, result),
    }
