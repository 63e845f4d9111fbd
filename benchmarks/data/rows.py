"""Many rows in little time: a database as large as the measurement needs."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.db import connection, models, transaction
from django.utils import timezone

from clusters.models import Node, VirtualCluster
from jobs.config.spec import JobSpec
from jobs.models import Attempt, Event, Holding, Job, Task
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


def add_teams(number: int) -> list[str]:
    """``number`` virtual clusters with the same guarantee, ``default`` among them; one has a ceiling and one a cap for
    each user. Their names."""
    names = ["default", *(f"team{at}" for at in range(1, number))]
    VirtualCluster.objects.bulk_create(
        VirtualCluster(
            name=name,
            capacity=100 // number if name != "default" else 0,
            max_capacity={1: 20}.get(at, 100),
            user_gpus={2: 200}.get(at),
        )
        for at, name in enumerate(names)
    )
    return names


def add_lengths(names: list[str], number: int = 5_000) -> None:
    """Ended attempts of the users of these virtual clusters, from which is learnt how long jobs run."""
    now = int(time.time() * 1000)
    Holding.objects.bulk_create(
        (
            Holding(
                id=-at - 1,  # ids are those of tasks
                job_id=-at - 1,
                username=f"user{at % (USERS * len(names))}",
                job_name=f"train-{at}",
                vc=names[at % len(names)],
                attempt=1,
                role="worker",
                index=0,
                node="",
                gpus=_SIZES[at // len(names) % len(_SIZES)][1],
                cpus=1,
                memory_mb=1024,
                waited=0,
                began=now - 86_400_000 - at,
                ended=now - 86_400_000 - at + 1000 * (60 + 7919 * at % 20_000),
                outcome=Holding.Outcome.SUCCEEDED,
            )
            for at in range(number)
        ),
        batch_size=500,
    )


def add_day(nodes: int, number: int) -> None:
    """What ``number`` tasks of one GPU held in the last day, one after the other on each GPU of ``nodes``."""
    now, long = time.time_ns() // 1_000_000, 86_400_000 * nodes * 8 // max(number, nodes * 8)
    first = 1 + (Holding.objects.aggregate(models.Max("id"))["id__max"] or 0)
    Holding.objects.bulk_create(
        (
            Holding(
                id=first + at,
                job_id=first + at,
                username=f"user{at % USERS}",
                job_name=f"past-{at}",
                vc="default",
                attempt=1,
                role="worker",
                index=0,
                node=f"sim-{at // 8 % nodes:04d}",
                gpu_ids=str(at % 8),
                gpus=1,
                cpus=1,
                memory_mb=1024,
                waited=0,
                began=now - 86_400_000 + at // (8 * nodes) * long,
                ended=now - 86_400_000 + (at // (8 * nodes) + 1) * long - 1000,
                outcome=Holding.Outcome.SUCCEEDED,
            )
            for at in range(number)
        ),
        batch_size=500,
    )


def add_waiting(configs: list[dict[str, Any]]) -> None:
    """One waiting job each, in this order. There are no other jobs yet."""
    now = timezone.now()
    specs = [JobSpec.from_json(config) for config in configs]
    Job.objects.bulk_create(
        [
            Job(
                username=f"user{at % (USERS * 8)}",
                name=spec.job_name,
                vc=spec.effective_virtual_cluster,
                config="{}",
                spec=config,
                total_tasks=spec.total_tasks,
                total_roles=len(spec.task_roles),
                total_gpus=spec.total_gpus,
                named_gpu_type=spec.gpu_type,
                created_at=now,
                queued_at=now,
                changed_at=now,
                priority=spec.asked.priority,
            )
            for at, (spec, config) in enumerate(zip(specs, configs, strict=True))
        ]
    )
    jobs = list(Job.objects.order_by("id").values_list("id", flat=True))
    Attempt.objects.bulk_create(
        Attempt(job_id=job, number=1, app_id=f"application_{job}", created_at=now) for job in jobs
    )
    attempts = dict(Attempt.objects.values_list("job_id", "id"))
    Task.objects.bulk_create(
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


def shapes_alike(number: int, gpus: int = 1, tasks: int = 1) -> list[dict[str, Any]]:
    return [make_config(f"alike-{at}", gpus=gpus, tasks=tasks) for at in range(number)]


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


def shapes_of_teams(number: int, names: list[str]) -> list[dict[str, Any]]:
    """Jobs of these virtual clusters: most of one GPU, few large gangs, some that may be guests."""
    configs = []
    kinds: dict[int, dict[str, Any]] = {0: {"maxRunSeconds": 3600}, 1: {"preemptible": True}, 2: {"priority": 10}}
    for at in range(number):
        tasks, gpus = _SIZES[at // len(names) % len(_SIZES)]
        extras = kinds.get(at * 31 % 17)
        config = make_config(f"train-{at}", tasks=tasks, gpus=gpus, virtualCluster=names[at % len(names)])
        configs.append(config | ({"extras": extras} if extras else {}))
    return configs


USERS = 20  # of each virtual cluster
# (tasks, GPUs of each): of forty jobs so many are like this
_FEW = [(4, 8), (2, 4), (1, 8), (1, 8), *[(1, 4), (1, 2)] * 4]
_SIZES = [*[(1, 1)] * 14, *_FEW[::2], *[(1, 1)] * 14, *_FEW[1::2]]


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
