"""Checks, every now and then, what must be true of the rows at any moment.

Nothing here should ever find anything. A defect, a hand at the database or a restored copy may leave rows behind
that no pass looks at any more: GPUs held for ever, a job that waits for ever. What can be put right without guessing is
put right, with an Event; the rest is told, once, and counted in /healthz until somebody has seen to it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import is_
from typing import NamedTuple

import structlog
from django.db import connection

from base.core.bulk import all_values
from base.wakes.lease import Lease
from clusters.models import Allocation, Node
from jobs.attempts import open_attempt
from jobs.config.spec import JobSpec
from jobs.history import holdings
from jobs.models import Event, Job, Task
from jobs.models.attempt import LIVE
from jobs.planning import exits
from jobs.planning.lifecycle import TaskState, move_task

log = structlog.get_logger()

QUIET = 60.0  # seconds between two checks while nothing changes

# Literals, not parameters: else SQLite uses no partial index (see jobs/scheduling/rows/stamps.py). Index: job_live.
_WAITS = "j.state IN ('WAITING', 'RUNNING') AND j.state = 'WAITING'"
_OWNED = "SELECT 1 FROM clusters_allocation a WHERE a.owner = CAST(t.id AS TEXT)"
_UNHELD = f"SELECT t.id FROM jobs_task t WHERE {LIVE} AND NOT EXISTS ({_OWNED})"  # noqa: S608
_FORGOTTEN = f"""
    SELECT t.id FROM jobs_task t JOIN jobs_attempt n ON n.id = t.attempt_id JOIN jobs_job j ON j.id = t.job_id
    WHERE {LIVE} AND (j.state <> 'RUNNING' OR n.number <> j.attempt_number)
"""  # noqa: S608
_OWNERLESS = f"""
    SELECT a.id FROM clusters_allocation a
    WHERE a.owner NOT IN (SELECT CAST(t.id AS TEXT) FROM jobs_task t WHERE {LIVE})
"""  # noqa: S608
_INCOMPLETE = """
    SELECT j.id FROM jobs_job j WHERE j.state IN ('WAITING', 'RUNNING') AND j.total_tasks <> (
        SELECT count(*) FROM jobs_attempt n JOIN jobs_task t ON t.attempt_id = n.id
        WHERE n.job_id = j.id AND n.number = j.attempt_number)
"""
_BEGUN = f"""
    SELECT j.id FROM jobs_job j WHERE {_WAITS} AND EXISTS (
        SELECT 1 FROM jobs_attempt n JOIN jobs_task t ON t.attempt_id = n.id
        WHERE n.job_id = j.id AND n.number = j.attempt_number AND t.state <> 'WAITING')
"""  # noqa: S608
# (id of the task, whether its open Holding is missing or left over)
_UNRECORDED = f"""
    SELECT t.id, 1 FROM jobs_task t JOIN clusters_allocation a ON a.owner = CAST(t.id AS TEXT)
    WHERE {LIVE} AND NOT EXISTS (SELECT 1 FROM jobs_holding h WHERE h.id = t.id AND h.ended IS NULL)
    UNION ALL
    SELECT h.id, 0 FROM jobs_holding h
    WHERE h.ended IS NULL AND NOT EXISTS (SELECT 1 FROM clusters_allocation a WHERE a.owner = CAST(h.id AS TEXT))
"""  # noqa: S608
_HELD = "SELECT node_id, gpu_ids, ports FROM clusters_allocation"


class _HeldThings(NamedTuple):
    node_id: int
    gpu_ids: list[str]
    ports: list[int]


@dataclass(frozen=True, slots=True)
class Breach:
    """A state of rows that must not be. ``key`` identifies it; ``sentence`` says what it is and what was done."""

    key: tuple[str, object]
    sentence: str
    job_id: int | None = None
    task: str = ""
    node: str = ""
    healed: bool = False


class Checker:
    def __init__(self) -> None:
        self.healed = 0  # since the process began
        self.broken = 0  # at the last check
        self._told: set[tuple[str, object]] = set()
        self._seen: Sequence[object] = ()  # rows as a pass had read them at the last check
        self._again_at = 0.0  # monotonic

    def check_if_due(self, lease: Lease, now: datetime, seen: Sequence[object]) -> None:
        """Check if jobs, tasks or what they hold, as a pass has ``seen`` them, are other objects than at the last
        check, or that was QUIET ago: in a long queue it costs more than all passes that find nothing to do."""
        if len(seen) == len(self._seen) and all(map(is_, seen, self._seen)) and time.monotonic() < self._again_at:
            return
        self.check(lease, now)
        self._seen, self._again_at = seen, time.monotonic() + QUIET

    def check(self, lease: Lease, now: datetime) -> list[Breach]:
        """Put right what can be put right safely, report the rest, and return both. It is one transaction, in which
        nobody else writes states. Raises Fenced."""
        with lease.writing():
            breaches = [
                *_end_forgotten(now),
                *_free_ownerless(now),
                *_hold_unheld(),
                *_begin_anew(now),
                *_record(now),
                *_rest(),
            ]
            for breach in breaches:
                if breach.healed or breach.key not in self._told:
                    _tell(breach, now)
        self.healed += sum(breach.healed for breach in breaches)
        self._told = {breach.key for breach in breaches if not breach.healed}
        self.broken = len(self._told)
        return breaches


def _end_forgotten(now: datetime) -> Iterator[Breach]:
    """End live tasks of an attempt that is over, which no pass sees. Their containers are collected like any others."""
    for task in Task.objects.filter(id__in=_ids(_FORGOTTEN)).select_related("attempt"):
        before, exit_ = TaskState(task.state), exits.task_stopped()
        state = before if before is TaskState.STOPPING else move_task(before, TaskState.STOPPING)
        task.state, task.changed_at, task.finished_at = move_task(state, TaskState.STOPPED), now, now
        task.exit_code, task.exit, task.ordered_at = exit_.code, exit_.to_json(), None
        task.save(update_fields=["state", "changed_at", "finished_at", "exit_code", "exit", "ordered_at"])
        Allocation.objects.filter(owner=str(task.pk)).delete()
        holdings.close_rows([(task.pk, exit_)], now)
        sentence = (
            f"{task.label} of attempt {task.attempt.number} was still {before} though its attempt is over: stopped."
        )
        yield Breach(("forgotten", task.pk), sentence, task.job_id, task.label, task.node, healed=True)


def _free_ownerless(now: datetime) -> Iterator[Breach]:
    """Give back what is held for no task. What a container still uses is quarantined by its labels."""
    for held in Allocation.objects.filter(id__in=_ids(_OWNERLESS)).select_related("node"):
        held.delete()
        holdings.close_rows([(int(held.owner), None)] if held.owner.isdecimal() else [], now)
        what = f"{held.cpus} CPU, {held.memory_mb} MB, {len(held.gpu_ids)} GPU"
        sentence = f"{what} of node {held.node.name} were held for a task ({held.owner}) that does not run: given back."
        yield Breach(("ownerless", held.owner), sentence, node=held.node.name, healed=True)


def _hold_unheld() -> Iterator[Breach]:
    """Hold again what live tasks use without holding it, unless it was given to another task meanwhile."""
    for task in Task.objects.filter(id__in=_ids(_UNHELD)).select_related("job"):
        role = JobSpec.from_json(task.job.spec).role(task.role)
        ports = [port for numbers in task.ports.values() for port in numbers]
        node = Node.objects.filter(name=task.node).first()
        if node is None:
            continue  # its node was removed: the next pass ends it as lost
        others = Allocation.objects.filter(node=node)
        taken = any(set(task.gpu_ids) & set(other.gpu_ids) or set(ports) & set(other.ports) for other in others)
        if not taken:
            Allocation.objects.create(
                owner=str(task.pk),
                node=node,
                vc=task.job.vc,
                cpus=role.cpu_number,
                memory_mb=role.memory_mb,
                gpu_ids=task.gpu_ids,
                ports=ports,
            )
        done = "held again" if not taken else "and somebody else has it by now. Stop one of the two jobs"
        sentence = f"What {task.label} uses on node {task.node} was not held: {done}."
        yield Breach(("unheld", task.pk), sentence, task.job_id, task.label, task.node, healed=not taken)


def _record(now: datetime) -> Iterator[Breach]:
    """Bring the history of what is held in line with the allocations."""
    with connection.cursor() as cursor:
        cursor.execute(_UNRECORDED)
        missing = dict(cursor.fetchall())
    for id, is_missing in missing.items():
        task = Task.objects.filter(id=id).select_related("job", "attempt").first()
        what = task.label if task is not None else f"a task ({id}) that is gone"
        if is_missing and task is not None:
            holdings.record(task, now)
            sentence = f"What {what} holds was not in the history: it is from now on."
        else:
            holdings.close_rows([(id, None)], now)
            sentence = f"The history had it that {what} still holds its room: it does not."
        job_id = task.job_id if task is not None else None
        yield Breach(("unrecorded", id), sentence, job_id, task.label if task is not None else "", healed=True)


def _begin_anew(now: datetime) -> Iterator[Breach]:
    """Open a new attempt for a job that waits although its attempt has begun: it could never be placed."""
    for job in Job.objects.filter(id__in=_ids(_BEGUN)):
        sentence = f"Attempt {job.attempt_number} had begun though the job waits: it waits with a new attempt."
        Task.objects.filter(job=job, state=TaskState.WAITING).update(
            state=move_task(TaskState.WAITING, TaskState.STOPPED), changed_at=now, finished_at=now, collected=True
        )
        job.attempts.filter(number=job.attempt_number, completed_at=None).update(completed_at=now)
        job.attempt_number, job.changed_at = job.attempt_number + 1, now
        job.save(update_fields=["attempt_number", "changed_at"])
        open_attempt(job, job.attempt_number, now)
        yield Breach(("begun", job.pk), sentence, job.pk, healed=True)


def _rest() -> Iterator[Breach]:
    """Report what nobody can put right without guessing."""
    for job in Job.objects.filter(id__in=_ids(_INCOMPLETE)).only("id", "attempt_number"):
        sentence = (
            f"Tasks of attempt {job.attempt_number} are missing in the database. Stop the job and submit it again."
        )
        yield Breach(("incomplete", job.pk), sentence, job.pk)
    held: Counter[tuple[int, str]] = Counter()
    for node_id, gpu_ids, ports in all_values(Allocation, _HeldThings, _HELD):
        held.update((node_id, f"GPU {gpu}") for gpu in gpu_ids)
        held.update((node_id, f"port {port}") for port in ports)
    if doubled := [key for key, count in held.items() if count > 1]:
        names = dict(Node.objects.filter(id__in={node_id for node_id, _ in doubled}).values_list("id", "name"))
        for node_id, what in doubled:
            sentence = f"{what} of node {names[node_id]} is held twice. Stop one of the two jobs."
            yield Breach(("doubled", (node_id, what)), sentence, node=names[node_id])


def _ids(query: str) -> Sequence[int]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [row[0] for row in cursor.fetchall()]


def _tell(breach: Breach, now: datetime) -> None:
    log.error("an invariant was broken", healed=breach.healed, what=breach.sentence)
    kind = "invariant.healed" if breach.healed else "invariant.broken"
    where = {"job_id": breach.job_id, "task": breach.task, "node": breach.node}
    Event.objects.create(at=now, kind=kind, reason=breach.sentence, **where)
