"""Large configs of waiting jobs cost the pages of others nothing: these read columns, of which configs and specs are
the last."""

from __future__ import annotations

import json
import time
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from base.models import User
from jobs import services
from jobs.models import Attempt, Job, Task
from jobs.waiting import queue
from tests.builders import make_config, make_job, make_node
from tests.http import Browser

pytestmark = pytest.mark.django_db
PAGES = ("/jobs", "/wall", "/jobs/bob/mine/why", "/", "/nodes", "/jobs/bob/mine", "/api/v1/jobs?limit=100")


@pytest.fixture
def bob() -> Browser:
    browser = Browser()
    user = User.objects.create_user("bob", "correct horse")
    browser.force_login(user)
    make_node(gpus=1)
    make_job("carol", "runs", state="RUNNING")
    services.submit(user, json.dumps(make_config("mine", gpus=2, gpuType="A100")))
    return browser


def wait(jobs: int, note: str) -> None:
    """So many jobs of alice wait, before all others."""
    Job.objects.filter(username="alice").delete()
    first = make_job("alice", "first", gpus=2, age=120.0, config={"gpuType": "A100", "extras": {"note": note}})
    columns = {field.attname: getattr(first, field.attname) for field in Job._meta.concrete_fields}
    Job.objects.bulk_create(Job(**columns | {"id": None, "name": f"alike-{at}"}) for at in range(jobs - 1))
    alike = Job.objects.filter(username="alice").exclude(pk=first.pk)
    opened = [Attempt(job=job, number=1, app_id=job.name, created_at=job.created_at) for job in alike]
    Attempt.objects.bulk_create(opened)
    rows = Attempt.objects.filter(job__in=alike)
    Task.objects.bulk_create(
        Task(job_id=each.job_id, attempt=each, role="worker", index=0, changed_at=each.created_at) for each in rows
    )
    queue.forget()


def test_no_page_reads_the_configs_or_specs_of_all_that_wait(bob: Browser) -> None:
    wait(150, "x" * 1000)
    for page in PAGES:
        assert bob.get(page).status_code == 200  # a spec that the queue needs is read once, and known from then on
    for page in PAGES:
        with CaptureQueriesContext(connection) as asked:
            assert bob.get(page).status_code == 200
        large = [each["sql"] for each in asked if '"spec"' in each["sql"] or '"config"' in each["sql"]]
        assert all('"username" = ' in sql or "IN (" in sql for sql in large), f"{page} {large}"
        assert not any('"jobs_job"."spec", ' in sql for sql in large), page
    assert "2 × A100" in bob.get("/jobs").content.decode()


@pytest.mark.timed
def test_they_cost_no_more_cpu_than_small_ones(bob: Browser) -> None:
    cost: dict[int, float] = {}
    for size in (1, 32_000):
        wait(800, "x" * size)
        for page in PAGES:
            bob.get(page)
        cost[size] = sum(min(_cpu(bob, page) for _ in range(4)) for page in PAGES[:3])
    assert cost[32_000] < 1.5 * cost[1]


def _cpu(browser: Browser, page: str) -> float:
    began = time.thread_time()
    assert browser.get(page).status_code == 200
    return time.thread_time() - began


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL keeps what is large elsewhere")
def test_config_and_spec_are_the_last_columns() -> None:
    """Who adds a column to a job says LargeLast behind it, as jobs/migrations/0033_gpu_type.py does."""
    with connection.cursor() as cursor:
        columns = [column.name for column in connection.introspection.get_table_description(cursor, "jobs_job")]
    assert columns[-2:] == ["config", "spec"]


def test_the_type_of_jobs_that_are_there_already_is_filled_in_by_one_statement() -> None:
    for name in ("A100", ""):
        make_job("alice", f"job-{name}", gpus=1, config={"gpuType": name})
    older = make_job("alice", "older", gpus=1)
    Job.objects.filter(pk=older.pk).update(spec={key: older.spec[key] for key in older.spec if key != "gpuType"})
    Job.objects.update(gpu_type="")
    with CaptureQueriesContext(connection) as asked:
        import_module("jobs.migrations.0033_gpu_type").fill(apps, None)
    assert len(asked) == 1
    kinds = dict(Job.objects.values_list("name", "gpu_type"))
    assert kinds == {"job-A100": "A100", "job-": "", "older": ""}
