"""``/cluster/what-if``: what changes would do to the queue, without making them. For admins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from jobs.forecast.what_if import Line, VcThen, WhatIf, what_if
from jobs.planning.forecast.play import Spread
from jobs.planning.what_if.asked import MOST, read_all
from jobs.planning.what_if.changed import Evicted
from jobs.planning.what_if.compare import Effect, Felt
from jobs.scheduling.queue import Queued
from portal.accounts.auth import require_admin
from portal.core.errors import BadRequest
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View, fields, refuse_others, wrong
from portal.web.api.values import milliseconds, one_of

MOST_JOBS = 1_000  # that feel the changes, in one answer
_HOW = (
    "`vc:vision:+8` (`vc:vision:guarantee:+8` and `vc:vision:ceiling:-4` change one alone), `node:gpu-03:drain`, "
    "`cordon`, `return` or `remove`, `node:new:add:8:A100:64:512` (GPUs, their type, cores, GB), `job:lena~bert:evict` "
    "or `stop`, `job:lena~bert:priority:50`."
)


class WhatIfRequest(BaseModel):
    changes: list[str] = Field(description=f"At most {MOST}, in their order: {_HOW}", max_length=MOST)


class ChangeShown(TypedDict):
    change: str
    sentence: str


class LineShown(TypedDict):
    """What one change does alone, or all together. ``earlier`` and ``later`` are null where nobody can tell;
    ``medianWait`` is milliseconds from now."""

    what: str
    startNow: int
    earlier: int | None
    later: int | None
    evicted: int
    medianWait: int | None


class SpreadShown(TypedDict):
    """Of ten such starts one is before p10, five are before p50 and nine before p90."""

    p10: int
    p50: int
    p90: int


class StartShown(TypedDict):
    """``forecast`` is null where nobody can tell when it starts."""

    startsNow: bool
    forecast: SpreadShown | None


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


class GpusShown(TypedDict):
    """GPUs of a virtual cluster; a ceiling of null is none."""

    guarantee: float
    ceiling: float | None
    used: float


class VcShown(TypedDict):
    vc: str
    before: GpusShown
    after: GpusShown


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
    vcs: list[VcShown]
    leftOut: list[str]


class WhatIfView(V1View):
    @extend_schema(
        summary="What changes would do to the queue; nothing is changed",
        description="For admins. The queue of this moment is played forward with and without the changes.",
        parameters=[OpenApiParameter("change", str, many=True, description=f"One change; may be repeated. {_HOW}")],
        responses={200: WhatIfAnswer, **errors(401, 403)},
    )
    def get(self, request: Request) -> Response:
        require_admin(request)
        return Response(_answer(request, request.query_params.getlist("change")))

    @extend_schema(
        summary="As GET, with the changes in the body",
        description="For admins.",
        request=WhatIfRequest,
        responses={200: WhatIfAnswer, **errors(401, 403)},
    )
    def post(self, request: Request) -> Response:
        require_admin(request)
        data = fields(request)
        changes = data.get("changes")
        if "changes" not in data:
            raise wrong("changes", "is required")
        if not isinstance(changes, list) or not all(isinstance(each, str) for each in changes):
            raise BadRequest("changes must be a list of texts.")
        refuse_others(data, ("changes",))
        return Response(_answer(request, changes))


def _answer(request: Request, texts: Sequence[str]) -> WhatIfAnswer:
    found = what_if(require_admin(request), read_all(texts))
    return answer(found)


def answer(found: WhatIf) -> WhatIfAnswer:
    felt, left_out = found.felt[:MOST_JOBS], list(found.left_out)
    if len(found.felt) > MOST_JOBS:
        left_out.append(f"{len(found.felt) - MOST_JOBS:,} more jobs feel it.")
    return {
        "at": milliseconds(found.at),
        "waiting": found.waiting,
        "running": found.running,
        "changes": [{"change": one.text, "sentence": one.sentence} for one in found.changes],
        "lines": [_line(one) for one in found.lines()],
        "jobs": [_felt(one) for one in felt],
        "evicted": [_evicted(one, found) for one in found.evicted],
        "reservations": [
            {"job": _name(job), "before": list(now), "after": list(then)} for job, now, then in found.reservations
        ],
        "vcs": [_vc(one) for one in found.vcs()],
        "leftOut": left_out,
    }


def _line(one: Line) -> LineShown:
    return {
        "what": one.what,
        "startNow": one.starts_now,
        "earlier": one.earlier,
        "later": one.later,
        "evicted": one.evicted,
        "medianWait": None if one.wait is None else round(1000 * one.wait),
    }


def _felt(one: Felt[Queued]) -> FeltShown:
    return {
        "job": _name(one.job),
        "vc": one.job.vc,
        "effect": one.effect,
        "before": {"startsNow": one.starts_before, "forecast": _spread(one.before)},
        "after": {"startsNow": one.starts_after, "forecast": _spread(one.after)},
    }


def _spread(one: Spread | None) -> SpreadShown | None:
    if one is None:
        return None
    return {"p10": milliseconds(one.p10), "p50": milliseconds(one.p50), "p90": milliseconds(one.p90)}


def _evicted(one: Evicted[Queued], found: WhatIf) -> EvictedShown:
    began = one.job.started_at or found.at
    ran = max(0, milliseconds(found.at) - milliseconds(began))
    return {"job": _name(one.job), "vc": one.job.vc, "gpus": one.gpus, "ran": ran, "because": f"{one.because}."}


def _vc(one: VcThen) -> VcShown:
    before, after = zip(one.guarantee, one.ceiling, one.used, strict=True)
    return {"vc": one.name, "before": _gpus(*before), "after": _gpus(*after)}


def _gpus(guarantee: float, ceiling: float | None, used: float) -> GpusShown:
    return {"guarantee": guarantee, "ceiling": ceiling, "used": used}


def _name(job: Queued) -> str:
    return f"{job.username}~{job.name}"
