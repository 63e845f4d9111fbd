"""What the pages of replays show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from base.core.values import local_time, milliseconds
from clusters.vcs.grants import vc_names
from jobs.models import Replay
from jobs.replay import run
from jobs.replay.outcome import CLASSES
from jobs.replay.run import MOST_TIMES, POLICIES, AskedReplay, read_asked
from jobs.what_if.asked import read
from portal.shared.look.strip import StripFigure

URL = "/replay"
_HEIGHT = 100  # of the plot


@dataclass(frozen=True, slots=True)
class Pair:
    """A number as it was and as it would have been: as texts, and as percents of the widest bar."""

    name: str
    small: str
    before: str
    after: str
    before_bar: str
    after_bar: str

    @property
    def says(self) -> str:
        return f"{self.name}: {self.before} as it was, {self.after} played again"


def asked_of(fields: Mapping[str, str]) -> AskedReplay:
    """What the form asks for. Raises BadRequest with a sentence."""
    day, gpus = fields.get("day", "").strip(), fields.get("gpus", "").strip()
    changes = [f"vc:{fields.get('vc', '')}:guarantee:{gpus if gpus[0] in '+-' else f'+{gpus}'}"] if gpus else []
    try:
        nodes = float(fields.get("nodes") or 1)
    except ValueError:
        nodes = 0.0  # which is refused
    return read_asked(day or "1d", day, fields.get("policy") or "longshore", nodes, changes)


def replays_page(admin: Viewer, fields: Mapping[str, str], error: str = "") -> dict[str, Any]:
    """The context of policy/replays.html. Raises Forbidden."""
    yesterday = timezone.localdate() - timedelta(days=1)
    return {
        "nav": "nodes",
        "error": error,
        "rows": [(row, f"{URL}/{row.pk}", title(row), _state(row)) for row in run.newest(admin)],
        "policies": [(name, kind.name) for name, kind in POLICIES.items()],
        "vcs": [name for name in vc_names() if name != "default"],
        "typed": {"day": f"{yesterday:%Y-%m-%d}", "nodes": "1", **fields},
        "last": f"{timezone.localdate():%Y-%m-%d}",
        "most": f"{MOST_TIMES:g}",
    }


def replay_page(admin: Viewer, id: int) -> dict[str, Any]:
    """The context of policy/replay.html. Raises Forbidden, NotFound."""
    row = run.find(admin, id)
    page = {
        "nav": "nodes",
        "row": row,
        "title": title(row),
        "state": _state(row),
        "changes": _changes(row),
        "json": f"/api/v1/cluster/replay/{row.pk}",
        "result": None,
    }
    return page if row.result is None else {**page, **_result(row, row.result)}


def version(admin: Viewer, id: int) -> str:
    row = run.find(admin, id)
    return f"{row.progress}.{row.beat or 0}.{row.result is not None}.{row.error}"


def title(row: Replay) -> str:
    begin, end = _moments(row)
    if (begin.hour, begin.minute) == (0, 0) and end - begin == timedelta(days=1):
        return f"{begin:%a} {begin.day} {begin:%b %Y}"
    return f"{begin.day} {begin:%b} {begin:%H:%M} to {end.day} {end:%b %Y} {end:%H:%M}"


def _moments(row: Replay) -> tuple[datetime, datetime]:
    zone = timezone.get_current_timezone()
    return local_time(row.asked["from"], zone), local_time(row.asked["to"], zone)


def _changes(row: Replay) -> list[str]:
    """What differs from the day as it was."""
    times = row.asked["nodes"]
    changes = [f"under {POLICIES[row.asked['policy']].name}"]
    changes += [f"with {times:g} times the nodes"] if times != 1 else []
    return [*changes, *(read(text).sentence for text in row.asked["changes"])]


def _state(row: Replay) -> str:
    if row.error:
        return row.error
    if row.progress == 100:
        return "played"
    if row.beat is None:
        return "It waits for a worker."
    if milliseconds(timezone.now()) - row.beat > run.STALE:
        return "The worker that played it has ended; the next one that is asked begins it anew."
    return f"{row.progress} % is played."


# --- the result ------------------------------------------------------------------------------------------------------


def _result(row: Replay, result: Mapping[str, Any]) -> dict[str, Any]:
    before, after = result["before"], result["after"]
    what = "GPUs" if result["by"] == "gpu" else "Cores"
    return {
        "result": result,
        "cells": _cells(before, after, what),
        "plot": {"what": what, "before": _line(before["used"]), "after": _line(after["used"]), "ticks": _ticks(row)},
        "waits": _waits(before["waits"], after["waits"]),
        "got": _got(before["got"], after["got"]),
        "short": _short(before["waits"], after["waits"]),
    }


def _cells(before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> list[StripFigure]:
    days = before, after
    use = [f"{100 * day['utilisation']:.0f}" for day in days]
    waits = [words.duration(_mean(day["waits"])) for day in days]
    evictions = [str(day["evictions"]) for day in days]
    fairness = [words.NOTHING if day["fairness"] is None else f"{day['fairness']:.3f}" for day in days]
    cells = (
        (f"{what} in use", use, "%", "as it was → played again"),
        ("Mean wait", waits, "", f"{before['not_started']} → {after['not_started']} not started at the end"),
        ("Evictions", evictions, "", f"lost work {before['lost']:.1f} → {after['lost']:.1f} hours"),
        ("Fairness", fairness, "", "1: every VC got its due"),
    )
    return [StripFigure(name, " → ".join(pair), of, small=small) for name, pair, of, small in cells]


def _mean(waits: Mapping[str, Any]) -> float | None:
    number = sum(size["number"] for size in waits.values())
    return sum(size["number"] * size["mean"] for size in waits.values()) / number if number else None


def _waits(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compare the waits by size, in the order of sizes."""
    widest = max((one["mean"] for each in (before, after) for one in each.values()), default=0) or 1
    lines = []
    for name in CLASSES:
        if name not in before and name not in after:
            continue
        one, other = before.get(name), after.get(name)
        number = (one or other or {"number": 0})["number"]
        pair = _pair(name, words.count(number, "job"), one and one["mean"], other and other["mean"], widest)
        late = [words.NOTHING if each is None else words.duration(each["p95"]) for each in (one, other)]
        lines.append({"pair": pair, "p95_before": late[0], "p95_after": late[1]})
    return lines


def _pair(name: str, small: str, before: float | None, after: float | None, widest: float) -> Pair:
    texts = [words.duration(each) for each in (before, after)]
    return Pair(name, small, *texts, *(_percent(each or 0, widest) for each in (before, after)))


def _got(before: Mapping[str, float], after: Mapping[str, float]) -> list[Pair]:
    pairs = []
    for name in sorted({*before, *after}):
        parts = before.get(name, 0.0), after.get(name, 0.0)
        pairs.append(Pair(name, "", *(f"{each:.2f}" for each in parts), *(_percent(each, 1.0) for each in parts)))
    return pairs


def _percent(number: float, widest: float) -> str:
    """Room is left for the number beside the bar."""
    return f"{78 * min(1.0, number / widest):.1f}%"


def _line(used: Sequence[float]) -> str:
    points = (f"{at + 0.5:g} {_HEIGHT * (1 - min(1.0, each)):.1f}" for at, each in enumerate(used))
    return f"M{' L'.join(points)}"


def _ticks(row: Replay) -> list[str]:
    begin, end = _moments(row)
    quarter = (end - begin) / 4
    form = "%H:%M" if end - begin <= timedelta(days=1) else "%d %b %H:%M"
    return [f"{begin + quarter * at:{form}}" for at in range(5)]


def _short(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The size whose wait changes most."""
    both = [name for name in CLASSES if name in before and name in after]
    moved = {name: after[name]["mean"] - before[name]["mean"] for name in both}
    name = max(both, key=lambda each: abs(moved[each]), default="")
    if not name or abs(moved[name]) < 60:
        return "No size of jobs waits a minute longer or shorter."
    who = f"jobs of {name}" if name != "no GPU" else "jobs without GPU"
    long = "longer" if moved[name] > 0 else "less"
    waits = [words.duration(each[name]["mean"]) for each in (after, before)]
    return f"{who} wait {long}: {waits[0]} instead of {waits[1]}."
