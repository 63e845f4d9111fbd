"""What was held before there was a history: a Holding for each task that was ever placed and whose rows are there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import migrations

AT_ONCE = 500  # attempts
STOPPED, PREEMPTED = (-7351, -7400), -7120
USERS_FAULT = {132, 134, 135, 136, 139, 141, 196, 198, 255, -7153, -7200, -7251, -7300, -7302, -8000}
LIVE = ("STARTING", "RUNNING", "STOPPING")


def fill(apps: Any, schema_editor: Any) -> None:
    Attempt, Holding = apps.get_model("jobs", "Attempt"), apps.get_model("jobs", "Holding")
    last = 0
    while True:
        placed = Attempt.objects.filter(id__gt=last, launched_at__isnull=False).order_by("id")
        attempts = {each.pk: each for each in placed[:AT_ONCE]}
        if not attempts:
            return
        last = max(attempts)
        Holding.objects.bulk_create(_holdings(apps, attempts), batch_size=500, ignore_conflicts=True)


def _holdings(apps: Any, attempts: dict[int, Any]) -> Iterator[Any]:
    Holding, Job, Task = (apps.get_model("jobs", name) for name in ("Holding", "Job", "Task"))
    owned = {attempt.job_id for attempt in attempts.values()}
    jobs = {job.pk: job for job in Job.objects.filter(id__in=owned).only("username", "name", "vc", "spec")}
    nodes = dict(apps.get_model("clusters", "Node").objects.values_list("name", "gpus"))
    seen = set()
    tasks = Task.objects.filter(attempt__in=list(attempts)).exclude(node="").order_by("id")
    for task in tasks.iterator(chunk_size=2000):
        job, attempt = jobs[task.job_id], attempts[task.attempt_id]
        role = next((role for role in job.spec["taskRoles"] if role["name"] == task.role), {})
        types = {str(gpu["id"]): gpu.get("type") or "" for gpu in nodes.get(task.node) or ()}
        began, is_live = _ms(attempt.launched_at), task.state in LIVE
        code = task.exit_code if attempt.exit_code is None else attempt.exit_code
        yield Holding(
            id=task.pk,
            job_id=job.pk,
            username=job.username,
            job_name=job.name,
            vc=job.vc,
            attempt=attempt.number,
            role=task.role,
            index=task.index,
            node=task.node,
            gpu_ids=",".join(task.gpu_ids),
            gpus=len(task.gpu_ids),
            gpu_type=", ".join(sorted({types.get(gpu, "") for gpu in task.gpu_ids} - {""}))[:64],
            cpus=role.get("cpuNumber", 0),
            memory_mb=role.get("memoryMB", 0),
            waited=None if attempt.pk in seen else max(0, began - _ms(attempt.created_at)),
            began=began,
            ended=None if is_live else max(began, _ms(task.finished_at or task.changed_at)),
            outcome="" if is_live else _outcome(code),
            exit_code=None if is_live else code,
        )
        seen.add(attempt.pk)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _outcome(code: int | None) -> str:
    if code is None or code in STOPPED:
        return "STOPPED"
    if code == 0:
        return "SUCCEEDED"
    if code == PREEMPTED:
        return "EVICTED"
    return "FAILED" if code in USERS_FAULT else "LOST"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0013_holding"), ("clusters", "0009_shares_and_turns")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
