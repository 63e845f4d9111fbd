"""``GET /cluster/forecasts``: how good the forecasts of starts were."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from jobs.forecast import scores
from jobs.planning.forecast.score import AIM
from portal.accounts.viewer import require_user, viewer_of
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View


class AccuracyAnswer(TypedDict):
    """``within`` is the part of the starts between p10 and p90, of which ``aim`` should be; ``early`` and ``late`` are
    the rest, and ``withinUncorrected`` is what it would be without what earlier errors have shown. Errors are
    milliseconds: that of p50, of the guess that a job waits as long as the last one, and of the guess that all jobs run
    for as long as they may (a day, where they do not say)."""

    scored: int
    aim: float
    within: float | None
    withinUncorrected: float | None
    early: float | None
    late: float | None
    medianError: int | None
    medianErrorOfGuess: int | None
    medianErrorByLimits: int | None


class Forecasts(V1View):
    @extend_schema(
        summary="How many starts came when they were forecast", responses={200: AccuracyAnswer, **errors(401)}
    )
    def get(self, request: Request) -> Response:
        require_user(viewer_of(request))
        seen = scores.accuracy()
        answer: AccuracyAnswer = {
            "scored": seen.scored,
            "aim": AIM,
            "within": seen.within,
            "withinUncorrected": seen.within_as_played,
            "early": seen.early,
            "late": seen.late,
            "medianError": _whole(seen.median_error),
            "medianErrorOfGuess": _whole(seen.median_error_of_guess),
            "medianErrorByLimits": _whole(seen.median_error_by_limit),
        }
        return Response(answer)


def _whole(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds)
