"""Many rows in little time: a database as large as the measurement needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection, models, transaction
from django.utils import timezone

from clusters.models import Node
from jobs.config.spec import JobSpec
from jobs.models import Attempt, Event, Job, Task
from portal.core.bulk import insert_rows
from tests.builders import make_config, make_job


def add_nodes(number: int, *, gpus: int, cpus: int, memory_mb: int) -> None:
    """Simulated nodes ``sim-0001``...; two types of GPU."""
    now = timezone.now()
    Node.objects.bulk_create(
        Node(
            name=f"sim-{at:04d}",
            endpoint=f"unix:///sim/{at}",
            address=f"10.{at // 250}.{at % 250}.1",
            cpus=cpus,
            memory_mb=memory_mb,
            gpus=[{"id": str(gpu), "type": "A100" if at % 2 else "V100"} for gpu in range(gpus)],
            last_seen_at=now,
        )
        for at in range(number)
    )


def add_waiting(configs: list[dict[str, Any]], username: str = "bench") -> None:
    """One waiting job each, in this order. The user has no jobs yet."""
    now = timezone.now()
    specs = [JobSpec.from_json(config) for config in configs]
    insert_rows(
        [
            Job(
                username=username,
                name=spec.job_name,
                vc="default",
                config="{}",
                spec=config,
                total_tasks=spec.total_tasks,
                total_roles=len(spec.task_roles),
                total_gpus=spec.total_gpus,
                created_at=now,
                queued_at=now,
                changed_at=now,
            )
            for spec, config in zip(specs, configs, strict=True)
        ]
    )
    jobs = list(Job.objects.filter(username=username).order_by("id").values_list("id", flat=True))
    insert_rows([Attempt(job_id=job, number=1, app_id=f"application_{job}", created_at=now) for job in jobs])
    attempts = dict(Attempt.objects.filter(job__username=username).values_list("job_id", "id"))
    insert_rows(
        [
            Task(job_id=job, attempt_id=attempts[job], role=role.name, index=index, changed_at=now)
            for job, spec in zip(jobs, specs, strict=True)
            for role in spec.task_roles
            for index in range(role.task_number)
        ]
    )


def add_history(number: int) -> None:
    """``number`` ended jobs of ten users over the last year, with their attempt, task and events."""
    with transaction.atomic():
        job = make_job("user0", "old-0", state="SUCCEEDED", age=3600)
        year = timedelta(days=365).total_seconds()
        first = _copy(
            job,
            number - 1,
            name="'old-' || n.at",
            username="'user' || (n.at % 10)",
            state="CASE n.at % 10 WHEN 0 THEN 'FAILED' WHEN 1 THEN 'STOPPED' ELSE 'SUCCEEDED' END",
            **{
                name: f"datetime(row.{name}, '-' || ({year} * n.at / {number}) || ' seconds')"
                for name in ("created_at", "queued_at", "started_at", "completed_at", "changed_at")
            },
        )
        attempt = Attempt.objects.get(job=job)
        first_attempt = _copy(attempt, number - 1, job_id=f"{first} + n.at - 1", app_id="'application_0_' || n.at")
        task = Task.objects.get(job=job)
        _copy(
            task,
            number - 1,
            job_id=f"{first} + n.at - 1",
            attempt_id=f"{first_attempt} + n.at - 1",
            container_name="'longshore-old-' || n.at",
        )
        for event in Event.objects.filter(job=job):
            _copy(event, number - 1, job_id=f"{first} + n.at - 1")


def add_wide_job(tasks: int, name: str = "wide") -> Job:
    """One running job of ``tasks`` tasks."""
    node = Node.objects.order_by("id").first()
    job = make_job("user0", name, state="SUCCEEDED", tasks=tasks, age=600)
    Task.objects.filter(job=job).update(node=node.name if node else "", address="10.0.0.1")
    return job


def shapes_alike(number: int, gpus: int = 1) -> list[dict[str, Any]]:
    return [make_config(f"alike-{at}", gpus=gpus) for at in range(number)]


def shapes_different(number: int) -> list[dict[str, Any]]:
    """Each job asks for something else: 1 to 4 tasks, 0 to 4 GPUs each, its own number of megabytes, a type or any."""
    configs = []
    for at in range(number):
        config = make_config(f"own-{at}", tasks=1 + at % 4, gpus=at % 5)
        config["taskRoles"][0].update(memoryMB=1000 + at, cpuNumber=1 + at % 7)
        if at % 3 and at % 5:
            config["gpuType"] = ("A100", "V100")[at % 3 - 1]
        configs.append(config)
    return configs


def _copy(row: models.Model, number: int, **changed: str) -> int:
    """``number`` copies inside the database; ``changed`` are SQL expressions with n.at = 1, 2, ... and the row as
    ``row``. Returns the id of the first."""
    quote = connection.ops.quote_name
    columns = [str(field.column) for field in row._meta.concrete_fields if not field.primary_key]
    values = ", ".join(changed.get(column, f"row.{quote(column)}") for column in columns)
    table = quote(row._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT max(id) FROM {table}")
        first = cursor.fetchone()[0] + 1
        cursor.execute(
            f"WITH RECURSIVE n(at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < {number}) "
            f"INSERT INTO {table} ({', '.join(map(quote, columns))}) "
            f"SELECT {values} FROM n, {table} AS row WHERE row.id = {row.pk} ORDER BY n.at"
        )
    return int(first)
