"""Writes the rows of Holding: opened where a task gets its Allocation, closed where the Allocation goes. There what its
user used lately is brought up to date (PastUse), so that neither that nor reading it depends on how many jobs ended.

All functions that write are called inside the transaction that writes the Allocation.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from base.core.bulk import Row, all_values, chunks, insert_values, update_rows, values_with_ids
from base.core.values import milliseconds
from clusters.models import Node, VirtualCluster
from clusters.placement.shares import HALF_LIFE, Amount
from clusters.vcs.rules import MOST_HALF_LIFE
from jobs.config.spec import JobSpec
from jobs.models import Holding, PastUse, Prediction, Task
from jobs.planning import exits
from jobs.planning.exits import Exit
from jobs.planning.queue.scene import SchedulableJob
from jobs.planning.queue.users.used_lately import WHAT, UsedLately, UsesLately, after_use
from jobs.planning.world import JobPlan

_PURGED_AT_ONCE = 5_000
_OF_USER, _PAST, _AMOUNT = ("username", "vc"), ("cpu", "memory", "gpu", "at"), ("cpus", "memory_mb", "gpus")
Rivals = Mapping[str, Collection[str]]  # names of users, by virtual cluster
_TURN = attrgetter("vc", "username", "place_of")
_HALF_LIFE = Subquery(VirtualCluster.objects.filter(name=OuterRef("vc")).values("share_half_life")[:1])
_COLUMNS = (
    *("id", "job_id", "username", "job_name", "vc", "attempt", "role", "index", "node", "gpu_ids", "gpus", "gpu_type"),
    *("cpus", "memory_mb", "guest", "waited", "began", "ended", "outcome", "exit_code", "asked"),
)


def new_rows(
    plan: JobPlan, since: datetime, tasks: Sequence[int], types: Sequence[Mapping[str, str]], now: datetime
) -> list[Row]:
    """The rows of a job that is placed and has waited ``since`` then, for ``open_rows``. ``tasks`` and ``types`` belong
    to ``plan.placements``: the id of each task, and the types of its node's GPUs."""
    job, at = plan.job, milliseconds(now)
    owner = (job.id, job.username, job.name, job.vc, job.attempt_number)
    waited: int | None = max(0, at - milliseconds(since))
    asked = asked_beside(plan)
    rows: list[Row] = []
    for place, task, known in zip(plan.placements, tasks, types, strict=True):
        role, gpus = job.spec.role(place.role), place.gpu_ids
        where = (place.role, place.index, place.node, ",".join(gpus), len(gpus), type_of(gpus, known) if gpus else "")
        size = role.cpu_number, role.memory_mb
        rows.append((task, *owner, *where, *size, plan.is_guest, waited, at, None, "", None, asked))
        waited, asked = None, ""
    return rows


def asked_beside(plan: JobPlan) -> str:
    """The text of ``Holding.asked``."""
    spec, extras = plan.job.spec, plan.job.spec.asked
    values = {
        "priority": plan.job.priority,
        "gpuType": spec.gpu_type,
        "preemptible": extras.preemptible,
        "maxRunSeconds": extras.max_run_seconds,
        "nodeLabels": dict(extras.node_labels),
        "topology": extras.topology and spec.extras["topology"],
    }
    given = {name: value for name, value in values.items() if value}
    return json.dumps(given) if given else ""


def record(task: Task, now: datetime) -> None:
    """Open the row of a task that holds its room without one, from now on."""
    role = JobSpec.from_json(task.job.spec).role(task.role)
    gpus = Node.objects.filter(name=task.node).values_list("gpus", flat=True).first() or []
    Holding.objects.update_or_create(
        id=task.pk,
        defaults={
            "job_id": task.job_id,
            "username": task.job.username,
            "job_name": task.job.name,
            "vc": task.job.vc,
            "attempt": task.attempt.number,
            "role": task.role,
            "index": task.index,
            "node": task.node,
            "gpu_ids": ",".join(task.gpu_ids),
            "gpus": len(task.gpu_ids),
            "gpu_type": type_of(task.gpu_ids, types_of(gpus)),
            "cpus": role.cpu_number,
            "memory_mb": role.memory_mb,
            "began": milliseconds(now),
            "ended": None,
            "outcome": "",
            "exit_code": None,
        },
    )


def types_of(gpus: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """{GPU: type} of a node's ``gpus``."""
    return {str(gpu["id"]): str(gpu.get("type") or "") for gpu in gpus}


def type_of(gpu_ids: Iterable[str], types: Mapping[str, str]) -> str:
    """The type of these GPUs of one node; of several types, all of them."""
    return ", ".join(sorted({types.get(gpu, "") for gpu in gpu_ids} - {""}))[:64]


def open_rows(rows: Sequence[Row]) -> None:
    insert_values(Holding, _COLUMNS, rows)


def close_rows(ends: Iterable[tuple[int, Exit | None]], now: datetime) -> None:
    """Close the rows of these tasks, each with the exit that says how its part of the attempt ended, and add what they
    held to what their users used lately. One that has no row, or a closed one, is no error."""
    at, exit_of = milliseconds(now), dict(ends)
    exits_ = [(id, exit_of[id]) for id in _count(list(exit_of), now)]
    rows = [(at, outcome_of(exit_), exit_.code if exit_ is not None else None, id) for id, exit_ in exits_]
    update_rows(Holding, ["ended", "outcome", "exit_code"], ["id"], rows)


def rivals(waiting: Sequence[SchedulableJob]) -> Rivals:
    """The users whose jobs wait for one another: of each virtual cluster in which several of them wait, their names."""
    users: dict[str, set[str]] = defaultdict(set)
    for vc, username, place_of in set(map(_TURN, waiting)):  # of very many
        users[vc].add(place_of or username)
    return {vc: names for vc, names in users.items() if len(names) > 1}


def used_lately(of: Rivals) -> UsesLately:
    """What each of them used. Nothing is read where there is nobody."""
    return _used_lately(set().union(*of.values()), of)


def used_in(vc: str) -> UsesLately:
    """Of all users of the virtual cluster."""
    return _used_lately(PastUse.objects.filter(vc=vc).values_list("username", flat=True), [vc])


def _used_lately(usernames: Iterable[str], vcs: Collection[str]) -> dict[tuple[str, str], UsedLately]:
    found: dict[tuple[str, str], UsedLately] = {}
    for some in chunks(sorted(usernames)):
        marks = ", ".join(["%s"] * len(some))  # each pass asks: the SQL is written out
        query = f"SELECT username, vc, cpu, memory, gpu, at FROM jobs_pastuse WHERE username IN ({marks})"  # noqa: S608
        found |= {of: used for of, used in all_values(PastUse, _past_use, query, *some) if of[1] in vcs}
    return found


def _past_use(username: str, vc: str, *used: Any) -> tuple[tuple[str, str], UsedLately]:
    return (username, vc), UsedLately(*used)


def _count(tasks: Sequence[int], now: datetime) -> list[int]:
    """Add what these tasks hold, those of them that still do, in the transaction that gives it back; their ids."""
    uses: dict[tuple[str, str], list[tuple[Amount, float]]] = defaultdict(list)
    half_lives: dict[str, int] = {}
    open_: list[int] = []
    for some in chunks(tasks):
        for id, username, vc, hours, began, *amount in values_with_ids(_open_rows, some):
            open_.append(id)
            half_lives[vc] = hours
            seconds = (milliseconds(now) - began) / 1000
            uses[username, vc].append((dict(zip(WHAT, amount, strict=True)), seconds))
    before = _used_lately({username for username, _ in uses}, half_lives)
    after = {key: after_use(before.get(key), uses[key], now, half_lives[key[1]]) for key in sorted(uses)}
    rows_ = [PastUse(username=key[0], vc=key[1], **used._asdict()) for key, used in after.items()]
    PastUse.objects.bulk_create(rows_, update_conflicts=True, unique_fields=_OF_USER, update_fields=_PAST)
    return open_


def _open_rows() -> QuerySet[Any, Any]:
    rows = Holding.objects.filter(ended=None).annotate(hours=Coalesce(_HALF_LIFE, HALF_LIFE))
    return rows.values_list("id", *_OF_USER, "hours", "began", *_AMOUNT)


def outcome_of(exit_: Exit | None) -> Holding.Outcome:
    """What the exit of an attempt, or of a task of an attempt that goes on, means for what was used."""
    if exit_ is None or exit_.code in (exits.JOB_STOPPED, exits.TASK_STOPPED):
        return Holding.Outcome.STOPPED
    if exit_.code == exits.SUCCEEDED:
        return Holding.Outcome.SUCCEEDED
    if exit_.code == exits.PREEMPTED:
        return Holding.Outcome.EVICTED
    if exit_.spec.type in ("USER_FAILURE", "UNKNOWN_FAILURE"):
        return Holding.Outcome.FAILED
    return Holding.Outcome.LOST


def purge(now: datetime) -> int:
    """Delete the rows, and the forecasts, that are older than LONGSHORE_HISTORY_DAYS, and what was used so long ago
    that it has hardly any effect any more; returns how many there were of the first two."""
    PastUse.objects.filter(at__lt=now - timedelta(hours=MOST_HALF_LIFE)).delete()
    before = milliseconds(now - timedelta(days=settings.HISTORY_DAYS))
    return _delete(Holding, Holding.objects.filter(ended__lt=before)) + _delete(
        Prediction, Prediction.objects.filter(made__lt=before)
    )


def _delete(model: type[Holding] | type[Prediction], old: QuerySet[Any]) -> int:
    number = 0
    while deleted := model.objects.filter(id__in=old.values("id")[:_PURGED_AT_ONCE]).delete()[0]:
        number += deleted
    return number
