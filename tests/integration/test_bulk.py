"""Orders that are gathered are written together; rows are read and written as by Django's own ways."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import Model, QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from base.core.bulk import (
    all_rows,
    all_values,
    insert,
    insert_all,
    insert_row,
    values_again,
    values_of,
    values_with_ids,
)
from base.models import AuditEvent
from base.wakes import wake
from base.wakes.broker import GatheringBroker, WakingBroker
from jobs.models import Event, Job, Task
from jobs.queries import TaskRow, list_tasks
from tests.builders import make_job

pytestmark = pytest.mark.django_db


def test_orders_that_are_gathered_are_written_together_and_wake_workers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []
    monkeypatch.setattr(wake, "notify", lambda *topics: woken.extend(topics))
    gathering = GatheringBroker()
    gathering.write()
    assert woken == [], "nobody is woken for nothing"
    gathering.enqueue("one")
    gathering.enqueue("two")
    assert not OrmQ.objects.exists()
    gathering.write()
    assert list(OrmQ.objects.filter(lock__lte=timezone.now()).values_list("payload", flat=True)) == ["one", "two"]
    assert WakingBroker(list_key="longshore").queue_size() == 2
    assert woken == ["workers"]


def test_rows_are_read_as_a_queryset_reads_them() -> None:
    job = make_job("alice", "one", state="FAILED", tasks=3, exit_code=1)
    for model in (Job, Task, Event):
        rows = all_rows(model, f'SELECT *, 7 AS seven FROM "{model._meta.db_table}" ORDER BY id')
        assert [{**vars(row), "_state": None} for row in rows] == [
            {**vars(row), "_state": None, "seven": 7} for row in model._default_manager.order_by("id")
        ]
    task = Task.objects.filter(job=job).earliest("id")
    assert list_tasks(task.attempt)[0] == TaskRow(*(getattr(task, name) for name in TaskRow.__slots__))
    assert all_values(Task, tuple, "SELECT id FROM jobs_task WHERE id < %s", 0) == []


def test_a_query_that_is_put_together_once_finds_what_is_there_now() -> None:
    def rows() -> QuerySet[Job, Any]:
        return Job.objects.exclude(state="FAILED").order_by("-id").values_list("name", "spec", "created_at")

    assert values_again(rows) == values_with_ids(rows, [1]) == []
    jobs = [make_job("alice", name) for name in ("one", "two", "three")]
    assert values_again(rows) == values_of(rows()) == list(rows())
    ids = [job.pk for job in jobs[:2]]
    assert values_with_ids(rows, ids) == list(rows().filter(id__in=ids)), "in the order of the queryset"
    assert values_with_ids(rows, ids[1:]) == list(rows().filter(id=ids[1]))
    assert values_with_ids(rows, []) == []
    assert values_of(Job.objects.filter(id__in=[]).values_list("id")) == []


def test_a_row_is_written_as_save_writes_it() -> None:
    job = make_job("alice", "one", state="RUNNING")
    other = Job.objects.get(pk=job.pk)
    other.pk, other.name = None, "two"
    insert_row(other)
    assert other.pk and other._state.adding is False
    written = Job.objects.get(name="two")
    left_out = {"_state": None, "id": 0, "name": ""}
    assert {**vars(written), **left_out} == {**vars(Job.objects.get(pk=job.pk)), **left_out}


def test_a_row_is_written_with_its_defaults_as_create_writes_it() -> None:
    job = make_job("alice", "one")
    of_task = {"job_id": job.pk, "attempt_id": job.attempts.get().pk, "role": "x", "changed_at": job.created_at}
    made = Task.objects.create(**of_task, index=7)
    assert _values(Task.objects.get(pk=insert(Task, **of_task, index=8)), index=7) == _values(made)
    of_event = {"job_id": job.pk, "at": job.created_at, "kind": "a", "data": {"of": [1]}}
    expected = _values(Event.objects.create(**of_event))
    insert_all(Event, [of_event, of_event])
    assert [_values(event) for event in Event.objects.order_by("-id")[:2]] == [expected] * 2


def test_a_row_tells_when_it_was_written() -> None:
    before = timezone.now()
    row = AuditEvent.objects.get(pk=insert(AuditEvent, actor="b", action="c", ip="::1"))
    assert before <= row.at <= timezone.now()


def _values(row: Model, **others: object) -> dict[str, object]:
    return {**vars(row), "_state": None, "id": 0, **others}
