"""Sweeps: all jobs or none, one group in list, page, stop and API."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from base.core.errors import ConflictJob, InvalidConfig, NotFound
from base.models import User
from clusters.models import VcGrant, VirtualCluster
from jobs import services
from jobs.models import Dependency, Event, Job, JobSecrets, Sweep
from jobs.queries import JobFilter, count_by_state
from jobs.submitting import sweeps
from portal.lists.listing import ListQuery, page_of, rows_by_id
from tests.builders import make_job, make_node
from tests.cluster import Cluster
from tests.http import ApiClient, Browser

Api = Callable[[User | None], ApiClient]
Browse = Callable[[User | None], Browser]
pytestmark = pytest.mark.django_db


def text(name: str = "train", command: str = "run $$lr$$ $$seed$$", extras: Any = None, **more: Any) -> str:
    grid = {"lr": [1e-4, 3e-4], "seed": "1..3"}
    role = {"name": "w", "command": command, **more.pop("role", {})}
    asks = {"sweep": {"grid": grid, **more.pop("sweep", {})}, **(extras or {})}
    return json.dumps({"jobName": name, "image": "x", "taskRoles": [role], "extras": asks, **more}, indent=2)


def test_it_makes_a_job_of_each_combination(alice: User) -> None:
    sweep = sweeps.submit(alice, text())
    jobs = list(Job.objects.filter(sweep=sweep).order_by("id"))
    assert [job.name for job in jobs] == [f"train-0{number}" for number in range(1, 7)]
    assert jobs[4].spec["taskRoles"][0]["command"] == "run 0.0003 2"
    assert sweeps.values_of(jobs[4]) == {"lr": "0.0003", "seed": "2"}
    assert all(job.tasks.count() == 1 for job in jobs)
    assert Event.objects.filter(kind="job.submitted", reason__contains="with sweep train").count() == 6
    again = services.submit(alice, jobs[0].config.replace("train-01", "one"))
    assert again.sweep_id is None


def test_all_are_submitted_or_none(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    make_job("alice", "train-05")
    with pytest.raises(ConflictJob, match="train-05 already exists"):
        sweeps.submit(alice, text())
    write, calls = services._write, iter(range(9))

    def fails(*given: Any) -> None:
        if next(calls) == 3:
            raise RuntimeError
        write(*given)

    monkeypatch.setattr(services, "_write", fails)
    with pytest.raises(RuntimeError):
        sweeps.submit(alice, text("other"))
    assert Job.objects.count() == 1 and not Sweep.objects.exists()


def test_its_transaction_is_short(alice: User) -> None:
    with CaptureQueriesContext(connection) as seen:
        sweeps.submit(alice, text())
    begin = next(at for at, query in enumerate(seen.captured_queries) if 'INTO "jobs_sweep"' in query["sql"])
    assert len(seen.captured_queries) - begin < 6 * 9


def test_what_its_jobs_wait_for_is_looked_up_and_written_at_once(alice: User) -> None:
    """Nobody else writes meanwhile on SQLite: 200 jobs that wait for 100 others each kept it for seconds."""
    others = [{"job": make_job("alice", f"other-{number}").name} for number in range(20)]
    asked: list[tuple[int, int]] = []
    for name, seeds in (("few", "1..2"), ("many", "1..9")):
        sweep = {"grid": {"lr": [1], "seed": seeds}, "atOnce": 1}
        with CaptureQueriesContext(connection) as seen:
            sweeps.submit(alice, text(name, extras={"dependsOn": others, "sweep": sweep}))
        statements = [query["sql"] for query in seen.captured_queries]
        begin = next(at for at, sql in enumerate(statements) if 'INTO "jobs_sweep"' in sql)
        looked_up = [sql for sql in statements[begin:] if '"name" IN (' in sql]
        stored = [sql for sql in statements if 'INTO "jobs_dependency"' in sql]
        asked.append((len(looked_up), len(stored)))
    assert asked == [(1, 1), (1, 1)]
    names = Dependency.objects.filter(job__name="many-09").order_by("id").values_list("on_name", flat=True)
    assert list(names) == [*(other["job"] for other in others), "many-08"]
    assert Job.objects.get(name="many-09").awaits == 21


def test_its_transaction_writes_so_many_tasks_at_most(alice: User) -> None:
    """Nobody else writes meanwhile on SQLite."""
    most = sweeps.MOST_TASKS // 6
    with pytest.raises(InvalidConfig, match="Its 6 jobs have 20,004 tasks together; the most is 20,000") as invalid:
        sweeps.submit(alice, text(role={"taskNumber": most + 1}))
    assert [each.path for each in invalid.value.problems] == ["/extras/sweep"] and not Sweep.objects.exists()
    assert sum(spec.total_tasks for spec in sweeps.plan(text(role={"taskNumber": most}), "alice").specs) == most * 6


def test_problems_are_at_their_places_in_the_text_of_the_sweep(alice: User) -> None:
    typed = text(role={"cpuNumber": "$$seed$$", "memoryMB": 50}, sweep={"grid": {"lr": [1], "seed": ["many", 2]}})
    with pytest.raises(InvalidConfig) as invalid:
        sweeps.plan(typed, "alice")
    first = invalid.value.problems[0]
    assert '"cpuNumber"' in typed.split("\n")[first.line - 1] and "in train-01: lr 1, seed many" in first.message
    assert first.mend is None and invalid.value.problems[1].mend.value == 100  # type: ignore[union-attr]


def test_at_most_so_many_run_at_once(alice: User) -> None:
    make_job("alice", "before")
    sweeps.submit(alice, text(sweep={"atOnce": 2}, extras={"dependsOn": ["before"]}))
    waits = Dependency.objects.filter(job__sweep__isnull=False).exclude(on_name="before").order_by("id")
    pairs = [(each.job.name, each.on_name, each.condition) for each in waits]
    assert pairs == [(f"train-0{at}", f"train-0{at - 2}", "end") for at in range(3, 7)]


def test_secrets_are_sealed_and_shown_nowhere(alice: User) -> None:
    sweep = sweeps.submit(alice, text(extras={"secrets": {"KEY": "open$$sesame"}}))
    assert "sesame" not in sweep.config + "".join(Job.objects.values_list("config", flat=True))
    assert JobSecrets.objects.count() == 6


def test_a_list_folds_a_sweep_to_one_line_with_counts_and_the_same_number_of_queries(alice: User) -> None:
    make_job("alice", "alone")
    Job.objects.filter(name="train-02").update(state="FAILED")

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            page_of(ListQuery({}), alice)
        return len(seen)

    sweeps.submit(alice, text("first"))
    one = queries()
    sweeps.submit(alice, text())
    assert queries() == one
    Job.objects.filter(name="train-02").update(state="FAILED")
    rows, _, older = page_of(ListQuery({}), alice)
    assert [(row.sweep.name if row.sweep else row.name) for row in rows] == ["train", "first", "alone"] and not older
    assert rows[0].sweep is not None and rows[0].sweep.counts == {"WAITING": 5, "FAILED": 1}
    failed, _, _ = page_of(ListQuery({"state": "failed"}), alice)
    assert [row.name for row in failed] == ["train-02"] and failed[0].sweep is not None
    members, _, _ = page_of(ListQuery({"sweep": "alice/train"}), alice)
    assert len(members) == 6 and not members[0].sweep
    assert count_by_state(JobFilter(folded=True))["WAITING"] == 12
    [live] = rows_by_id([rows[0].id], JobFilter(folded=True), alice)
    assert live.sweep == rows[0].sweep and live.part == rows[0].part


def test_it_is_stopped_as_one_by_its_owner(browse: Browse, alice: User, bob: User) -> None:
    sweeps.submit(alice, text())
    assert browse(bob).post("/sweeps/alice/train/stop").status_code == 403
    asked = browse(alice).get("/sweeps/alice/train/stop").content.decode()
    assert "Stop 6 jobs" in asked
    assert browse(alice).post("/sweeps/alice/train/stop").status_code == 302
    assert Job.objects.filter(execution="STOP").count() == 6
    assert browse(alice).get("/jobs").context["rows"][0].sweep.state == "STOPPING"


def test_its_page_shows_the_values_to_who_may_read_configs(
    browse: Browse, alice: User, bob: User, settings: Any
) -> None:
    sweeps.submit(alice, text())
    shown = browse(bob).get("/sweeps/alice/train")
    assert shown.context["lines"][4].values == ("0.0003", "2") and "Stop all" not in shown.content.decode()
    assert browse(bob).get("/submit?sweep=alice/train").context["text"].count("$$lr$$") == 1
    settings.JOB_PRIVACY = "owner"
    assert browse(bob).get("/sweeps/alice/train").context["parameters"] == []
    assert browse(bob).get("/submit?sweep=alice/train").status_code == 403
    assert browse(bob).get("/sweeps/alice/nothing").status_code == 404


def test_a_sweep_without_jobs_gives_its_name_up(alice: User) -> None:
    sweep = sweeps.submit(alice, text())
    assert "Rename" in (sweeps.check(text(), alice).problems[0].mend.says)  # type: ignore[union-attr]
    for job in Job.objects.filter(sweep=sweep):
        services.delete(alice, job)
    with pytest.raises(NotFound):
        sweeps.find("alice", "train")
    assert sweeps.check(text(), alice).problems == () and sweeps.submit(alice, text()).pk != sweep.pk


def test_the_api_submits_lists_and_stops_it(api: Api, alice: User, bob: User) -> None:
    client = api(alice)
    checked = client.post("/api/v1/sweeps/validate", text(), content_type="text/plain").json()
    assert checked["valid"] and checked["jobs"][0]["values"] == {"lr": "0.0001", "seed": "1"}
    made = client.post("/api/v1/sweeps", text(), content_type="text/plain")
    assert made.status_code == 201 and made.headers["Location"].endswith("/api/v1/sweeps/alice~train")
    assert client.post("/api/v1/sweeps", text(), content_type="text/plain").status_code == 409
    refused = client.post("/api/v1/jobs", text("x"), content_type="text/plain")
    assert refused.status_code == 400 and "/sweeps" in refused.json()["message"]
    for one in ("{}", "[]", '"x"', "{", '{"extras": {"sweep": 1}}', '{"extras": "{\\"sweep\\": {\\"grid\\": 1}}"}'):
        assert client.post("/api/v1/sweeps", one, content_type="text/plain").status_code == 400, one
    [listed] = client.get("/api/v1/sweeps?username=alice").json()
    assert (listed["jobs"], listed["states"]) == (6, {"WAITING": 6})
    assert len(client.get("/api/v1/jobs?sweep=alice~train").json()) == 6
    assert client.get("/api/v1/sweeps/alice~train").json()["jobList"][0]["values"]["seed"] == "1"
    assert client.get("/api/v1/sweeps/alice~nothing").status_code == 404
    bare = client.get("/api/v1/sweeps/train")
    assert bare.status_code == 404 and "user belongs to its name, as in mira~train" in bare.json()["message"]
    stop = "/api/v1/sweeps/alice~train/executionType"
    assert api(bob).put(stop, {"value": "STOP"}, format="json").status_code == 403
    assert client.put(stop, {"value": "START"}, format="json").status_code == 400
    assert client.put(stop, {"value": "STOP"}, format="json").status_code == 202
    assert Job.objects.filter(execution="STOP").count() == 6


def test_a_sweep_needs_the_right_to_each_of_its_virtual_clusters(alice: User) -> None:
    vision = VirtualCluster.objects.create(name="vision", capacity=10, max_capacity=10)
    typed = text(virtualCluster="$$vc$$", sweep={"grid": {"vc": ["default", "vision"]}}, command="true")
    with pytest.raises(Exception, match="not allowed"):
        sweeps.submit(alice, typed)
    assert not Job.objects.exists()
    VcGrant.objects.create(vc=vision, username="alice")
    sweeps.submit(alice, typed)
    assert sorted(Job.objects.values_list("vc", flat=True)) == ["default", "vision"]


def test_the_submit_page_shows_the_jobs_and_submits_them_without_a_script(browse: Browse, alice: User) -> None:
    make_node()
    plan = browse(alice).post("/submit/check", {"config": text()})
    assert plan.context["plan"].verb == "Submit 6 jobs" and "train-06" in plan.content.decode()
    sent = browse(alice).post("/submit", {"config": text()})
    assert sent.headers["Location"] == "/sweeps/alice/train" and Job.objects.count() == 6


def test_the_rest_stops_when_as_many_have_failed_as_it_says(cluster: Cluster) -> None:
    cluster.add_node(cpus=8)
    sweep = sweeps.submit(cluster.owner, text(sweep={"stopAfterFailed": 2, "atOnce": 4}))
    cluster.settle()
    jobs = list(Job.objects.filter(sweep=sweep).order_by("id"))
    cluster.finish(jobs[0], 1)
    cluster.settle()
    assert Counter(Job.objects.values_list("state", flat=True)) == {"FAILED": 1, "RUNNING": 4, "WAITING": 1}
    cluster.finish(jobs[1], 1)
    cluster.settle()
    assert Counter(Job.objects.values_list("state", flat=True)) == {"FAILED": 2, "STOPPED": 4}
    [reason] = {event.reason for event in Event.objects.filter(kind="job.stop_asked")}
    assert reason == "2 of the jobs of sweep train have failed."
    assert set(Job.objects.filter(state="STOPPED").values_list("stopped_by", flat=True)) == {"its sweep"}


def test_a_failure_stops_no_other_job(cluster: Cluster) -> None:
    cluster.add_node(cpus=8)
    sweep, other = sweeps.submit(cluster.owner, text()), cluster.submit(name="alone")
    limited = sweeps.submit(cluster.owner, text("limited", sweep={"stopAfterFailed": 1}, role={"cpuNumber": 99}))
    cluster.settle()
    assert {job.state for job in Job.objects.filter(sweep=limited)} <= {"FAILED", "STOPPED"}
    cluster.finish(other, 1)
    cluster.finish(Job.objects.filter(sweep=sweep).order_by("id")[0], 1)
    cluster.settle()
    assert Job.objects.filter(sweep=sweep, state="RUNNING").count() == 5
