"""What one user asks for costs the pages of others next to nothing, and themselves no more than it is large."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from base.models import User
from clusters.placement.fit import FreeNode
from jobs.models import Job, Task
from jobs.waiting import changes, queue, why
from jobs.what_if import answer
from tests.builders import make_job, make_node
from tests.http import Browser
from tests.submitting import config_text

pytestmark = pytest.mark.django_db


def counted(monkeypatch: pytest.MonkeyPatch, of: object, name: str) -> list[None]:
    """Grows by one with each call of it."""
    calls: list[None] = []
    real: Callable[..., object] = getattr(of, name)

    def call(*given: object, **more: object) -> object:
        calls.append(None)
        return real(*given, **more)

    monkeypatch.setattr(of, name, call)
    return calls


@pytest.fixture
def bob() -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_user("bob", "correct horse"))
    return browser


def wide(tasks: int, name: str = "wide") -> Job:
    """A job that waits, since half of the only node is taken."""
    if not Job.objects.exists():
        node = make_node(cpus=2 * tasks, memory_mb=10**9)
        make_job("carol", "runs", state="RUNNING", node=node)
        node.others = {"cpus": tasks + 1}
        node.save()
    return make_job("alice", name, tasks=tasks)


def test_the_turns_behind_a_job_of_many_tasks_are_worked_out_once_for_all_who_look(
    bob: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "SHORTEST", 3600.0)  # seconds: on a busy machine so many pages take longer than a look
    monkeypatch.setattr(queue, "LONGEST", 3600.0)
    wide(600)
    make_job("bob", "behind", tasks=600)
    looks, puts = counted(monkeypatch, queue, "_read"), counted(monkeypatch, FreeNode, "put")
    for _ in range(2):
        first = len(looks), len(puts)
        for address in ("/jobs", "/", "/jobs/bob/behind", "/jobs/alice/wide", "/nodes", "/wall", "/api/v1/jobs"):
            assert bob.get(address).status_code == 200
    assert (len(looks), len(puts)) == first
    assert first[0] == 1
    assert "600" in bob.get("/jobs").content.decode()


def test_what_follows_where_nothing_changes_is_worked_out_once(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "SHORTEST", 3600.0)
    monkeypatch.setattr(queue, "LONGEST", 3600.0)
    wide(600)
    browser, plays = Browser(), counted(monkeypatch, answer, "consequences")
    browser.force_login(admin)
    for _ in range(3):
        assert browser.get("/policy").status_code == 200
    assert len(plays) == 1
    monkeypatch.setattr(queue, "MANY", 10_000)
    queue.forget()
    for _ in range(2):
        browser.get("/policy")
    assert len(plays) == 3, "a small queue is looked at as it is now"


def test_a_job_submitted_a_moment_ago_has_its_reason_on_its_own_page(bob: Browser) -> None:
    wide(600)
    bob.get("/jobs")
    make_job("bob", "new", tasks=1000)
    assert "free" in bob.get("/jobs/bob/new").content.decode()
    assert queue.turn_now(Job.objects.get(name="new").pk) is not None


def test_a_job_of_few_tasks_is_always_looked_at_as_it_is_now(bob: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    wide(5)
    looks = counted(monkeypatch, queue, "_read")
    for _ in range(3):
        bob.get("/jobs")
    assert len(looks) == 3


def test_where_the_turns_cost_much_no_change_is_tried_against_them(
    bob: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide(600)
    make_job("bob", "behind", tasks=600)
    assert bob.get("/jobs/bob/behind").status_code == 200
    seen, tries = queue.recent_queue(), counted(monkeypatch, changes, "turns")
    assert seen.is_large and seen.cost > 0
    seen.cost = 2 * why.SECONDS
    assert "None of those that were tried" in bob.get("/jobs/bob/behind/why").content.decode()
    assert not tries
    seen.answers.clear()
    seen.cost = 0.0
    assert bob.get("/jobs/bob/behind/why").status_code == 200
    assert tries


def test_twice_as_many_tasks_are_twice_as_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    puts, found = counted(monkeypatch, FreeNode, "put"), list[int]()
    for tasks in (400, 800):
        Job.objects.all().delete()
        job = wide(tasks) if not found else make_job("alice", "wider", tasks=tasks)
        queue.forget()
        before = len(puts)
        turn = queue.turn_now(job.pk)
        assert turn is not None and turn.blockers
        found.append(len(puts) - before)
    assert found[1] <= 2.2 * found[0] + 10


def test_a_submission_reads_no_ended_job_of_its_user(bob: Browser) -> None:
    for number in range(40):
        make_job("bob", f"ended-{number}", state="SUCCEEDED")
    asked: list[tuple[str, object]] = []

    def note(execute: Callable[..., object], sql: str, params: object, many: bool, context: object) -> object:
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        assert bob.post("/api/v1/jobs", config_text(), "application/json").status_code == 201
    sums = [statement for statement in asked if "SUM(total_tasks)" in statement[0]]
    assert sums
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE jobs_job")
            cursor.execute("SET LOCAL enable_seqscan = off")  # a small table is read whole
        for sql, params in sums:
            cursor.execute(f"EXPLAIN {'' if connection.vendor == 'postgresql' else 'QUERY PLAN'} {sql}", params)
            assert "job_live_by_user" in str(cursor.fetchall())


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite counts its steps")
def test_no_page_about_what_is_now_reads_what_has_ended(bob: Browser) -> None:
    make_job("bob", "runs", state="RUNNING", node=make_node("n1", cpus=1))
    make_job("bob", "waits")
    ended = make_job("alice", "ended", state="SUCCEEDED")
    of_one = ("/jobs/bob/runs", "/jobs/bob/waits", "/nodes/n1")
    addresses = ("/", "/nodes", "/wall", "/notebooks", "/submit", "/jobs?state=SUCCEEDED", *of_one)
    many = 1_000

    def steps(address: str) -> int:
        counted = 0

        def step() -> None:
            nonlocal counted
            counted += 1

        queue.forget()
        connection.connection.set_progress_handler(step, 1)
        try:
            assert bob.get(address).status_code == 200
        finally:
            connection.connection.set_progress_handler(None, 0)
        return counted

    for address in addresses:
        bob.get(address)  # what a process reads once
    few = {address: steps(address) for address in addresses}
    [job], [task] = Job.objects.filter(pk=ended.pk).values(), ended.tasks.values()
    Job.objects.bulk_create(Job(**{**job, "id": None, "name": f"ended-{number}"}) for number in range(many))
    Task.objects.bulk_create(Task(**{**task, "id": None, "index": 1 + number}) for number in range(many))
    grown = {address: steps(address) - few[address] for address in addresses}
    counted = grown.pop("/jobs?state=SUCCEEDED")  # beside each filter of the list stands how many jobs it has
    assert (counted < 12 * many, {address: more for address, more in grown.items() if more >= many}) == (True, {})
