"""``/cluster/what-if``: what changes would do to the queue, without making them; and ``/cluster/replay``: a past day
played again under another policy or on another cluster. For admins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BeforeValidator, Field, WithJsonSchema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.values import V1Answer, called, milliseconds, one_of
from jobs.forecast.refresh import in_milliseconds
from jobs.models import Replay
from jobs.replay import run
from jobs.replay.outcome import ReplayResult
from jobs.replay.run import MOST_TIMES, POLICIES, read_asked
from jobs.waiting.queue import WaitingJob
from jobs.waiting.reason import Forecast
from jobs.what_if.answer import VcThen, WhatIfResult, what_if
from jobs.what_if.asked import MOST, read_all
from jobs.what_if.changed import EvictedJob
from jobs.what_if.compare import Effect, JobImpact, moved
from portal.shared.api.bodies import Number, V1Body, read
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.jobs.shapes import full_name
from portal.shared.viewer import admin_of, all_reader_of, viewer_of

MOST_JOBS = 1_000  # that feel the changes, in one answer
_HOW = (
    "`vc:vision:+8` (`vc:vision:guarantee:+8` and `vc:vision:ceiling:-4` change one alone), `node:gpu-03:drain`, "
    "`cordon`, `return` or `remove`, `node:new:add:8:A100:64:512` (GPUs, their type, cores, GB), `job:lena~bert:evict` "
    "or `stop`, `job:lena~bert:priority:50`."
)


class WhatIfRequest(V1Body):
    changes: list[str] = Field(description=f"At most {MOST}, in their order: {_HOW}", max_length=MOST)


_Wait = Annotated[int | None, BeforeValidator(lambda seconds: None if seconds is None else round(1000 * seconds))]


class ChangeShown(V1Answer):
    change: str = called("text")
    sentence: str


class LineShown(V1Answer):
    """What one change does alone, or all together. ``earlier`` and ``later`` are null where nobody can tell;
    ``medianWait`` is milliseconds from now."""

    what: str
    startNow: int = called("starts_now")
    earlier: int | None
    later: int | None
    evicted: int
    medianWait: _Wait = called("wait")


class StartShown(TypedDict):
    """``forecast`` is null where nobody can tell when it starts."""

    startsNow: bool
    forecast: Forecast | None


class FeltShown(TypedDict):
    """A waiting job that feels the changes, or a running one that they evict."""

    job: str
    vc: str
    effect: Annotated[str, one_of(*(each for each in Effect if each is not Effect.SAME))]
    before: StartShown
    after: StartShown


class EvictedShown(TypedDict):
    """``ran`` is how long it has run, in milliseconds."""

    job: str
    vc: str
    gpus: int
    ran: int
    because: str


class ReservationShown(TypedDict):
    """The nodes on which room is kept for the job now, and would be."""

    job: str
    before: list[str]
    after: list[str]


class WhatIfAnswer(TypedDict):
    """``lines`` begins with what happens without any change; ``jobs`` are those that feel them, the most affected
    first; ``leftOut`` says what was not looked at."""

    at: int
    waiting: int
    running: int
    changes: list[ChangeShown]
    lines: list[LineShown]
    jobs: list[FeltShown]
    evicted: list[EvictedShown]
    reservations: list[ReservationShown]
    vcs: list[VcThen]
    leftOut: list[str]


class WhatIfView(V1View):
    @extend_schema(
        summary="What changes would do to the queue; nothing is changed",
        description="For admins. The queue of this moment is played forward with and without the changes.",
        parameters=[OpenApiParameter("change", str, many=True, description=f"One change; may be repeated. {_HOW}")],
        responses={200: WhatIfAnswer, **errors(403)},
    )
    def get(self, request: Request) -> Response:
        return Response(_answer(request, request.query_params.getlist("change")))

    @extend_schema(
        summary="As GET, with the changes in the body",
        description="For admins.",
        request=WhatIfRequest,
        responses=WhatIfAnswer,
    )
    def post(self, request: Request) -> Response:
        admin_of(request)
        return Response(_answer(request, read(WhatIfRequest, request).changes))


def _answer(request: Request, texts: Sequence[str]) -> dict[str, Any]:
    """Return a WhatIfAnswer."""
    result = what_if(all_reader_of(request), read_all(texts))
    felt, left_out = result.felt[:MOST_JOBS], list(result.left_out)
    if len(result.felt) > MOST_JOBS:
        left_out.append(f"{len(result.felt) - MOST_JOBS:,} more jobs feel it.")
    return {
        "at": milliseconds(result.at),
        "waiting": result.waiting,
        "running": result.running,
        "changes": [ChangeShown.of(one) for one in result.changes],
        "lines": [LineShown.of(one) for one in result.lines()],
        "jobs": [_felt(one) for one in felt],
        "evicted": [_evicted(one, result) for one in result.after.evicted],
        "reservations": [
            {"job": full_name(job), "before": list(now), "after": list(then)}
            for job, now, then in moved(result.before, result.after)
        ],
        "vcs": [asdict(one) for one in result.vcs()],
        "leftOut": left_out,
    }


def _felt(felt: JobImpact[WaitingJob]) -> dict[str, Any]:
    return {
        "job": full_name(felt.job),
        "vc": felt.job.vc,
        "effect": felt.effect,
        "before": {"startsNow": felt.starts_before, "forecast": felt.before and in_milliseconds(felt.before)},
        "after": {"startsNow": felt.starts_after, "forecast": felt.after and in_milliseconds(felt.after)},
    }


def _evicted(evicted: EvictedJob[WaitingJob], result: WhatIfResult) -> EvictedShown:
    began = evicted.job.started_at or result.at
    ran = max(0, milliseconds(result.at) - milliseconds(began))
    return {
        "job": full_name(evicted.job),
        "vc": evicted.job.vc,
        "gpus": evicted.gpus,
        "ran": ran,
        "because": f"{evicted.because}.",
    }


_TIME = "Milliseconds since 1970, `2026-11-20`, ISO 8601, or a span before now: `24h`."


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Moment = Annotated[str, BeforeValidator(_text), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})]


class ReplayRequest(V1Body):
    begin: _Moment = Field("", alias="from", description=f"{_TIME} A day before `to` without it.")
    end: _Moment = Field("", alias="to", description=f"{_TIME} A day means its end; now without it. At most 7 days.")
    policy: str = Field("longshore", json_schema_extra={"enum": [*POLICIES]})
    nodes: Number = Field(1.0, gt=0, le=MOST_TIMES, description="How many times as many nodes there are.")
    changes: list[str] = Field([], description="Of virtual clusters and nodes, as in /cluster/what-if: `vc:vision:+8`.")


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
        responses={200: list[ReplayShown], **errors(403)},
    )
    def get(self, request: Request) -> Response:
        return Response([_replay(row, None) for row in run.newest(viewer_of(request))])

    @extend_schema(
        summary="Play a past day again under another policy or on another cluster",
        description="For admins. A worker plays it; ask for `/cluster/replay/{id}` until it has a result or an error.",
        request=ReplayRequest,
        responses={202: ReplayShown},
    )
    def post(self, request: Request) -> Response:
        admin = admin_of(request)
        asked = read(ReplayRequest, request)
        row = run.ask(admin, read_asked(**asked.model_dump()))
        return Response(_replay(row, None), status=202)


class OneReplay(V1View):
    @extend_schema(
        summary="One replay: how far it is, then its result",
        description="For admins.",
        responses={200: ReplayShown, **errors(403)},
    )
    def get(self, request: Request, id: int) -> Response:
        row = run.find(viewer_of(request), id)
        return Response(_replay(row, row.result))


def _replay(row: Replay, result: Any) -> dict[str, Any]:
    """Return a ReplayShown."""
    own = {"id": row.pk, "askedBy": row.username, "askedAt": row.made, "progress": row.progress, "error": row.error}
    return {**own, **row.asked, "result": result}
