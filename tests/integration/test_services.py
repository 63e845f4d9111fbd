"""jobs.services: what is written for each intent, and what is refused."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from base.core.errors import ConflictJob, Forbidden, InvalidConfig, NoJob, NoVirtualCluster, TooLarge
from base.models import AuditEvent, User
from base.wakes import wake
from clusters.models import Node, VcGrant, VirtualCluster
from clusters.nodes import queries as node_queries
from jobs import admission, queries, services
from jobs.models import Attempt, Event, Job, Task
from jobs.queries import JobFilter
from jobs.submitting.dry_run import check_config
from tests.builders import make_job, make_node
from tests.helpers import LIMIT
from tests.submitting import config, config_text, submitted

pytestmark = pytest.mark.django_db


@pytest.fixture
def wakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    topics: list[str] = []
    monkeypatch.setattr(wake, "notify", lambda *those: topics.extend(those))
    yield topics


def test_a_fixed_port_must_be_one_that_some_node_gives_out(alice: User) -> None:
    def sent(first: int) -> str:
        role = {"name": "w", "command": "x", "portList": [{"label": "x", "beginAt": first}]}
        return config_text(taskRoles=[role])

    assert check_config(sent(22)).is_valid, "without a node, who knows"
    make_node("n1")
    make_node("n2", fixed_ports=[[80, 80]])
    assert check_config(sent(80)).is_valid
    assert check_config(sent(39_999)).is_valid
    with pytest.raises(InvalidConfig):
        services.submit(alice, sent(22))
    [problem] = check_config(sent(22)).problems
    assert (problem.path, problem.line > 0) == ("/taskRoles/0/portList/0/beginAt", True)


def test_older_configs_may_name_any_unprivileged_port_where_v0_is_set(settings: Any) -> None:
    make_node("n1")
    role = {"name": "w", "command": "x", "portList": [{"label": "x", "beginAt": 8080}]}
    assert not check_config(config_text(taskRoles=[role])).is_valid
    settings.FIXED_PORTS = ((1024, 65535),)
    node_queries.forget()  # as a process that begins with this setting
    assert check_config(config_text(taskRoles=[role])).is_valid
    role["portList"][0]["beginAt"] = 1000  # type: ignore[index]
    assert not check_config(config_text(taskRoles=[role])).is_valid


def test_it_writes_a_job_its_attempt_its_tasks_and_an_event_at_once(alice: User, wakes: list[str]) -> None:
    text = '// mine\n{"jobName": "a", "image": "i", "taskRoles": [{"name": "w", "taskNumber": "3", "command": "x"}],}\n'
    job = services.submit(alice, text)
    job.refresh_from_db()
    assert job.config == text
    assert (job.state, job.execution, job.vc, job.total_tasks, job.total_roles) == ("WAITING", "START", "default", 3, 1)
    attempt = job.attempts.get()
    assert attempt.number == 1 and re.fullmatch(r"application_\d{13}_\d{4,}", attempt.app_id)
    assert [(t.role, t.index, t.state) for t in queries.list_tasks(attempt)] == [("w", n, "WAITING") for n in range(3)]
    event = job.events.get()
    assert (event.kind, event.actor) == ("job.submitted", "alice")
    assert wakes == ["scheduler", "pages"]


def test_it_wakes_the_scheduler_once_the_rows_are_there(transactional_db: None, alice: User) -> None:
    listener = wake.Listener("scheduler")
    try:
        submitted(alice)
        assert listener.wait(LIMIT)
    finally:
        listener.close()


def test_it_gives_each_attempt_an_id_of_its_own(alice: User) -> None:
    ids = {submitted(alice, f"job{n}").attempts.get().app_id for n in range(5)}
    assert len(ids) == 5


def test_it_keeps_a_form_as_json_that_can_be_read_again(alice: User) -> None:
    job = services.submit(alice, config("form"))
    assert services.submit(alice, job.config.replace("form", "again")).spec["taskRoles"] == job.spec["taskRoles"]


def test_it_lets_the_name_of_the_url_win(alice: User) -> None:
    assert services.submit(alice, config_text("a"), name_from_url="b").name == "b"


def test_it_refuses_a_name_that_is_taken_until_it_is_deleted(alice: User, bob: User) -> None:
    job = submitted(alice)
    submitted(bob)
    with pytest.raises(ConflictJob, match=r"^Job name hello already exists$"):
        submitted(alice)
    services.delete(alice, job)
    assert submitted(alice).pk != job.pk


def test_it_refuses_the_second_of_two_that_come_at_once(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(alice)
    answers = iter([None])
    real = admission.require_free_name
    monkeypatch.setattr(admission, "require_free_name", lambda *a: next(answers, "over") and real(*a))
    with pytest.raises(ConflictJob, match="already exists"):
        submitted(alice)
    assert Job.objects.count() == 1


def test_it_takes_one_of_many_that_come_at_once(transactional_db: None, alice: User) -> None:
    answers: list[str] = []

    def send() -> None:
        try:
            submitted(alice)
            answers.append("accepted")
        except ConflictJob:
            answers.append("conflict")
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["accepted"] + ["conflict"] * 5
    assert (Job.objects.count(), Attempt.objects.count(), Task.objects.count()) == (1, 1, 1)


def test_it_asks_for_a_virtual_cluster_that_is_there_and_granted(alice: User, admin: User) -> None:
    with pytest.raises(NoVirtualCluster, match=r"^Virtual cluster vision is not found\.$"):
        submitted(alice, virtualCluster="vision")
    vision = VirtualCluster.objects.create(name="vision")
    with pytest.raises(Forbidden, match=r"^User alice is not allowed to do operation in vision$"):
        submitted(alice, virtualCluster="vision")
    assert submitted(admin, virtualCluster="vision").vc == "vision"
    VcGrant.objects.create(vc=vision, username="alice")
    assert submitted(alice, virtualCluster="vision").vc == "vision"


def test_it_refuses_a_job_for_somebody_else_also_by_an_admin(admin: User) -> None:
    with pytest.raises(Forbidden):
        services.submit(admin, config_text(), username="alice")


def test_it_refuses_a_bad_config_and_writes_nothing(alice: User) -> None:
    with pytest.raises(InvalidConfig):
        services.submit(alice, "{")
    with pytest.raises(TooLarge):
        services.submit(alice, '{"jobName": "' + "a" * 200_000 + '"}')
    assert not Job.objects.exists()


def test_it_inserts_a_gang_of_50000_with_as_many_queries_as_one_of_30(alice: User) -> None:
    counts = []
    for name, tasks in (("small", 30), ("large", 50_000)):
        with CaptureQueriesContext(connection) as run:
            job = submitted(alice, name, tasks=tasks)
        assert job.tasks.count() == tasks
        counts.append(len(run))
    assert counts[0] == counts[1]


def test_what_a_user_has_already_is_added_up_once_for_a_small_job(alice: User) -> None:
    """It takes the longer, the more of their jobs wait."""
    with CaptureQueriesContext(connection) as run:
        submitted(alice, tasks=2)
    assert sum("SUM(total_tasks)" in query["sql"] for query in run) == 1


def test_a_job_of_many_roles_takes_as_many_statements_as_one_of_one(alice: User) -> None:
    """600 roles of 80 tasks were 1,200 of them, for which all others who write waited."""
    counts, make = [], {"cpuNumber": 1, "memoryMB": 100, "command": "x"}
    for name, roles in (("few", [("b", 30)]), ("many", [(f"r{99 - at}", at % 3 + 1) for at in range(90)])):
        with CaptureQueriesContext(connection) as run:
            job = submitted(
                alice, name, taskRoles=[{"name": role, "taskNumber": tasks, **make} for role, tasks in roles]
            )
        there = list(job.tasks.order_by("id").values_list("role", "index", "state", "job", "attempt__number"))
        assert there == [(role, at, "WAITING", job.pk, 1) for role, tasks in roles for at in range(tasks)]
        counts.append(len(run))
    assert counts[0] == counts[1]


def test_it_asks_for_a_stop_once(alice: User, wakes: list[str]) -> None:
    job = submitted(alice)
    wakes.clear()
    assert services.stop(alice, job)
    assert not services.stop(alice, job)
    job.refresh_from_db()
    assert (job.execution, job.stopped_by, job.state) == ("STOP", "alice", "WAITING")
    assert job.events.filter(kind="job.stop_asked").count() == 1
    assert wakes == ["scheduler", "pages"]


def test_it_leaves_an_ended_job_as_it_is(alice: User) -> None:
    job = submitted(alice)
    Job.objects.filter(pk=job.pk).update(state="FAILED")
    assert not services.stop(alice, job)
    assert not services.start(alice, job)
    assert Job.objects.get().execution == "START"


def test_it_does_not_undo_a_stop(alice: User) -> None:
    job = submitted(alice)
    services.stop(alice, job)
    services.start(alice, job)
    assert Job.objects.get().execution == "STOP"


def test_it_lets_only_the_owner_and_admins_change_a_job(alice: User, bob: User, admin: User) -> None:
    job = submitted(alice)
    for act in (services.stop, services.start, services.saved, services.release):
        with pytest.raises(Forbidden, match=r"^User bob is not allowed to execute job hello\.$"):
            act(bob, job)
    with pytest.raises(Forbidden, match=r"^User bob is not allowed to remove job hello\.$"):
        services.delete(bob, job)
    for user in (bob, admin):
        with pytest.raises(Forbidden, match=r"^Only alice may submit job hello again\.$"):
            services.change(user, job, {"preemptible": True})
        Job.objects.update(state="FAILED")
        with pytest.raises(Forbidden, match=r"^Only alice may submit job hello again\.$"):
            services.again(user, Job.objects.get(), {})
        Job.objects.update(state="WAITING")
    assert [each.execution for each in Job.objects.all()] == ["START"]
    assert services.stop(admin, job)
    assert services.delete(admin, job)


def test_it_stops_many_and_names_those_it_may_not(alice: User, bob: User) -> None:
    jobs = [submitted(alice, "a"), submitted(alice, "b"), submitted(bob, "c")]
    services.stop(alice, jobs[1])
    result = services.stop_many(alice, jobs)
    assert (result.stopped, result.refused) == (("alice~a",), ("bob~c",))
    assert Event.objects.filter(kind="job.stop_asked").count() == 2


def test_it_hides_a_deleted_job_at_once_and_leaves_its_rows_to_the_scheduler(alice: User) -> None:
    job = submitted(alice)
    assert services.delete(alice, job)
    assert not services.delete(alice, job)
    with pytest.raises(NoJob):
        queries.get_job("alice", "hello")
    assert not queries.list_jobs().exists()
    job.refresh_from_db()
    assert (job.execution, job.deleted_at is not None) == ("STOP", True)
    assert AuditEvent.objects.get(action="job deleted").object == "alice/hello"


def test_it_checks_a_config_without_writing_anything(alice: User) -> None:
    result = check_config(config_text(tasks=2), alice)
    assert result.is_valid and result.spec is not None
    assert [blocker.kind for blocker in result.blockers] == ["nodes"]  # there is none yet
    Node.objects.create(name="n1", endpoint="unix:///x", address="10.0.0.1", cpus=8, memory_mb=8000)
    fits = check_config(config_text(tasks=2), alice)
    assert (fits.never, fits.blockers) == (None, ())
    busy = check_config(config_text(tasks=3, gpus=1), alice)
    assert busy.never is not None
    assert not Job.objects.exists()


def test_it_marks_a_job_that_no_node_could_ever_run(alice: User) -> None:
    Node.objects.create(name="n1", endpoint="unix:///x", address="10.0.0.1", cpus=8, memory_mb=8000)
    assert submitted(alice, "fits").never == ""
    assert "n1" in submitted(alice, "huge", gpus=1).never


def test_it_finds_every_problem_when_it_checks(alice: User) -> None:
    result = check_config('{"jobName": "a b",\n "taskRoles": []}', alice)
    assert {problem.path for problem in result.problems} >= {"/jobName", "/image", "/taskRoles"}
    assert check_config("{,", alice).problems[0].line == 1


def test_it_says_where_a_taken_name_and_a_missing_virtual_cluster_stand(alice: User) -> None:
    submitted(alice)
    taken = check_config('{\n"jobName": "hello",' + config_text()[1:].replace('"jobName": "hello", ', ""), alice)
    assert [(p.line, p.path, p.message) for p in taken.problems] == [(2, "/jobName", "Job name hello already exists")]
    missing = check_config(config_text("b", virtualCluster="vision"), alice)
    assert [p.path for p in missing.problems] == ["/virtualCluster"]


def test_it_finds_a_job_by_its_full_name_and_by_its_plain_one(alice: User, bob: User) -> None:
    job = submitted(alice)
    assert (
        queries.get_job("alice", "hello") == queries.get_job("", "alice~hello") == queries.get_job("", "hello") == job
    )
    other = submitted(bob)
    assert queries.get_job("", "hello", mine="bob") == other
    for username, name in (("", "hello"), ("carol", "hello"), ("alice", "nope"), ("", "alice~nope"), ("", "a\0")):
        with pytest.raises(NoJob):
            queries.get_job(username, name)


def test_it_filters_and_counts_in_the_database(alice: User, bob: User) -> None:
    for name in ("mnist-a", "mnist-b", "bert"):
        submitted(alice, name)
    services.stop(bob, submitted(bob, "mnist-c"))

    def names(**which: object) -> list[str]:
        return [row["name"] for row in queries.list_jobs(JobFilter(**which))]  # type: ignore[arg-type]

    assert names() == ["mnist-c", "bert", "mnist-b", "mnist-a"]
    assert names(username="alice", keyword="MNIST") == ["mnist-b", "mnist-a"]
    assert names(keyword="bob") == ["mnist-c"]
    assert names(vc="default", state="STOPPING") == ["mnist-c"]
    assert len(names(state="WAITING")) == 4
    assert len(names(state="WAITING", shown_as=True)) == 3
    assert queries.count_by_state(JobFilter(keyword="mnist"))["STOPPING"] == 1
    assert queries.count_by_state()["WAITING"] == 3


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_it_walks_all_jobs_in_pieces_without_losing_or_doubling_one(alice: User, at_once: int) -> None:
    jobs = [submitted(alice, f"job{n}") for n in range(7)]
    Job.objects.filter(pk__in=[job.pk for job in jobs[2:5]]).update(created_at=jobs[3].created_at)
    whole = [row["id"] for row in queries.list_jobs()]
    assert [row["id"] for row in queries.iterate_jobs(JobFilter(), at_once)] == whole


def test_very_many_ended_jobs_are_counted_once_in_a_while_and_live_ones_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "VERY_MANY", 2)
    monkeypatch.setattr(queries, "_ended", {})
    monkeypatch.setattr(queries, "ENDED_FOR", math.inf)
    for name in ("a", "b"):
        make_job("mira", name, state="SUCCEEDED")
    assert queries.count_by_state()["SUCCEEDED"] == 2
    make_job("mira", "c", state="SUCCEEDED")
    make_job("mira", "d", state="WAITING")
    assert (queries.count_by_state()["SUCCEEDED"], queries.count_by_state()["WAITING"]) == (2, 1)
    monkeypatch.setattr(queries, "ENDED_FOR", 0.0)
    assert queries.count_by_state()["SUCCEEDED"] == 3


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL reads moments as they are")
def test_the_whole_list_is_read_along_its_index() -> None:
    """A moment is read as a text, by which no index orders."""
    make_job("alice", "one")
    with CaptureQueriesContext(connection) as asked:
        assert len(list(queries.iterate_jobs(JobFilter(), 10))) == 1
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {asked[0]['sql']}")
        assert "TEMP B-TREE" not in str(cursor.fetchall())
