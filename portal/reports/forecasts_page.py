"""What the page of forecasts shows: how many starts came when they were foreseen, and how far off the others were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from django.utils import timezone

from base.core import words
from base.core.values import local_time, milliseconds
from jobs.forecast import scores
from jobs.forecast.errors import AIM, ROUND_AIM, Accuracy, ShownForecast, score
from jobs.forecast.refresh import NO_LIMIT
from jobs.forecast.scores import Week
from jobs.models import Job, Prediction
from portal.reports import drawing
from portal.shared.jobs.rows import job_url
from portal.shared.look.strip import StripFigure

MOST_WEEKS = 17
FEW = 30  # starts: a week of fewer says little
LAST = 50  # forecasts that are listed
_FATES = {"early": "sooner", "within": "in the range", "late": "later", "": "not started yet"}


@dataclass(frozen=True, slots=True)
class ForecastLine:
    """The forecasts of one length of wait."""

    name: str
    score: Accuracy
    worst: str

    @property
    def percent(self) -> str:
        return _percent(self.score.within)

    @property
    def error(self) -> str:
        return _time(self.score.median_error)


def forecasts_page() -> dict[str, Any]:
    """The context of the template: four queries, however many forecasts there are."""
    seen = scores.newest()
    all_ = score(seen)
    weeks = scores.weeks(milliseconds(timezone.now()) - MOST_WEEKS * scores.WEEK)[-MOST_WEEKS:]
    return {
        "all": all_,
        "cells": _cells(all_),
        "chart": _chart(weeks),
        "lines": [_line(least, most, some) for least, most, some in scores.by_wait(seen)],
        "last": _last(),
    }


def _cells(all_: Accuracy) -> list[StripFigure]:
    aim = f"aim {100 * AIM:.0f} ± {100 * ROUND_AIM:.0f} %"
    limits = f"as Slurm: all run as long as they may, {words.duration(NO_LIMIT)} where they do not say"
    cells = (
        ("Within the range", _percent(all_.within), f"of {all_.scored:,} starts; {aim}"),
        ("Within, uncorrected", _percent(all_.within_as_played), "without what earlier errors have shown"),
        ("Shown too early", _percent(all_.late), "started later than the range"),
        ("Shown too late", _percent(all_.early), "started sooner"),
        ("Median error", _time(all_.median_error), "of the middle of the range"),
        ("Median error of the last wait", _time(all_.median_error_of_guess), "it waits as long as the last job did"),
        ("Median error by limits", _time(all_.median_error_by_limit), limits),
    )
    return [StripFigure(name, value, small=small) for name, value, small in cells]


def _chart(weeks: Sequence[Week]) -> dict[str, Any] | None:
    if not weeks:
        return None
    parts = [(_css(week), week.within / week.starts) for week in weeks]
    names = [_day(week.monday) for week in weeks]
    labels = [f"{100 * part:.0f}" for _, part in parts]
    step = -(-len(weeks) // 8)
    return {
        "dots": [
            (dot, label, name, "" if at % step == 0 else "ls-lo", week)
            for at, (dot, label, name, week) in enumerate(zip(drawing.dots(parts), labels, names, weeks, strict=True))
        ],
        "aim": drawing.height_of(AIM),
        "band": (drawing.height_of(AIM + ROUND_AIM), f"{drawing.DOTS * 2 * ROUND_AIM:.1f}"),
        "says": f"Part of the starts within the range that was shown, by week: {labels[-1]} % in the last of "
        f"{words.count(len(weeks), 'week')}; the aim is {100 * AIM:.0f} %",
    }


def _css(week: Week) -> str:
    part = week.within / week.starts
    if week.starts < FEW:
        return "few"
    return "ok" if abs(part - AIM) <= ROUND_AIM else "off"


def _line(least: int, most: int | None, seen: Sequence[ShownForecast]) -> ForecastLine:
    if most is None:
        name = f"over {_time(least)}"
    else:
        name = f"{_time(least)} to {_time(most)}" if least else f"under {_time(most)}"
    worst = max(seen, key=lambda one: abs(one.started - one.p50), default=None)
    says = words.NOTHING
    if worst is not None:
        off = worst.started - worst.p50
        says = f"{_time(abs(off))} {'late' if off > 0 else 'early'}"
    return ForecastLine(name, score(seen), says)


def _last() -> list[dict[str, Any]]:
    """The forecasts that were shown last, and what came true. ``name`` is empty where the job is gone."""
    rows = list(Prediction.objects.order_by("-made", "-id")[:LAST])
    jobs = Job.objects.filter(id__in={row.job_id for row in rows}, deleted_at__isnull=True).only("username", "name")
    by_id = {job.pk: job for job in jobs}
    return [_shown(row, by_id.get(row.job_id)) for row in rows]


def _shown(row: Prediction, job: Job | None) -> dict[str, Any]:
    fate = ""
    if row.started is not None:
        fate = "early" if row.started < row.p10 else "late" if row.started > row.p90 else "within"
    return {
        "name": str(job) if job is not None else "",
        "url": job_url(job.username, job.name) if job is not None else "",
        "attempt": row.attempt,
        "made": local_time(row.made, UTC),
        "p10": local_time(row.p10, UTC),
        "p90": local_time(row.p90, UTC),
        "started": None if row.started is None else local_time(row.started, UTC),
        "fate": fate,
        "says": _FATES[fate],
    }


def _day(moment: int) -> str:
    day = local_time(moment, UTC)
    return f"{day.day} {day:%b}"


def _percent(part: float | None) -> str:
    return words.NOTHING if part is None else f"{100 * part:.0f} %"


def _time(moment: float | None) -> str:
    return words.duration(None if moment is None else moment / 1000)
