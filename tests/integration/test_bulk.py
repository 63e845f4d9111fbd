"""What is read and written by other ways than querysets is what querysets read and write."""

from __future__ import annotations

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from jobs.models import Job, Task
from jobs.scheduling import columns
from portal.core.bulk import read_values
from portal.wakes import wake
from portal.wakes.broker import Gathering, WakingBroker
from tests.builders import make_job, make_node

pytestmark = pytest.mark.django_db


def test_values_are_those_of_the_queryset() -> None:
    node = make_node("n1")
    for at in range(3):
        make_job("mira", f"j{at}", state="RUNNING", tasks=2, node=node)
    make_job("mira", "j9")
    jobs = Job.objects.order_by("id").annotate(**columns.ASKED).values_list(*columns.JOB, "spec")
    tasks = Task.objects.order_by("id").values_list(*columns.TASK)
    assert read_values(jobs) == list(jobs) != []
    assert read_values(tasks) == list(tasks) != []


def test_no_row_is_no_value() -> None:
    assert read_values(Job.objects.values_list("id", "name")) == []
    assert read_values(Job.objects.filter(id__in=[]).values_list("id", "name")) == []


def test_orders_that_are_gathered_are_written_together_and_wake_workers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []
    monkeypatch.setattr(wake, "notify", woken.append)
    gathering = Gathering()
    gathering.write()
    assert woken == [], "nobody is woken for nothing"
    gathering.enqueue("one")
    gathering.enqueue("two")
    assert not OrmQ.objects.exists()
    gathering.write()
    assert list(OrmQ.objects.filter(lock__lte=timezone.now()).values_list("payload", flat=True)) == ["one", "two"]
    assert WakingBroker(list_key="longshore").queue_size() == 2
    assert woken == ["workers"]
