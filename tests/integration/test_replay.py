"""Past days played again: read from the history of a whole portal, played by a worker, summed up beside what was."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.accounts.viewer import Guest
from base.core.errors import BadRequest, Forbidden, NotFound, Unauthorized
from base.core.values import milliseconds
from base.models import User
from clusters.models import VirtualCluster
from clusters.placement.topology import Topology
from jobs.history.window import TimeWindow
from jobs.models import Dependency, Holding, Job, Replay
from jobs.replay import run as replays
from jobs.replay.past import read_past
from jobs.replay.run import AskedReplay, play, read_asked
from tests.builders import make_job, make_node
from tests.cluster import Cluster
from tests.helpers import until
from tests.history import HOUR, held

pytestmark = pytest.mark.django_db
T = 1_700_000_000_000 - 1_700_000_000_000 % HOUR
WINDOW = TimeWindow(T, T + 24 * HOUR, T + 48 * HOUR, timezone.get_default_timezone())


def _moment(time: int) -> datetime:
    return datetime.fromtimestamp(time / 1000, UTC)


def asked(policy: str = "longshore", **more: Any) -> AskedReplay:
    return AskedReplay(WINDOW, policy, **more)


def ran(at: float, hours: float, waited: float | None = 0.0, **more: Any) -> Holding:
    """Began ``at`` so many hours after the window's begin."""
    began = T + round(at * HOUR)
    return held(began, began + round(hours * HOUR), waited=None if waited is None else round(waited * HOUR), **more)


# --- what is remembered ----------------------------------------------------------------------------------------------


def test_what_a_job_asked_for_beside_its_size_outlives_it(cluster: Cluster) -> None:
    cluster.add_node(gpus=2, gpu_type="A100", labels={"rack": "r1"})
    extras = {"preemptible": True, "maxRunSeconds": 600, "priority": -5, "nodeLabels": {"rack": "r1"}}
    extras |= {"topology": {"require": "node"}}
    cluster.submit(name="one", gpuType="A100", roles=[{"gpuNumber": 1, "taskNumber": 2}], extras=extras)
    cluster.submit(name="plain")
    cluster.settle()
    texts = dict(Holding.objects.order_by("-id").values_list("job_name", "asked"))  # of the first task of each
    assert json.loads(texts["one"]) == {**extras, "gpuType": "A100"}
    assert sorted(Holding.objects.filter(job_name="one").values_list("asked", flat=True))[0] == ""
    assert texts["plain"] == ""


# --- reading the past ------------------------------------------------------------------------------------------------


def test_a_gang_is_one_run_with_all_its_tasks() -> None:
    make_node("gpu-01", gpus=4)
    asks = {"preemptible": True, "maxRunSeconds": 7200, "priority": 3, "topology": {"require": "2"}}
    asked_text = json.dumps({"gpuType": "A100", **asks})
    ran(2, 1, 0.5, job_id=7, gpus=2, gpu_ids="0,1", asked=asked_text)
    ran(2, 1, job_id=7, gpus=2, gpu_ids="2,3", index=1, waited=None)
    past = read_past(WINDOW)
    [run] = past.runs
    assert (run.submitted, run.seconds, run.gpus, len(run.demands)) == (1.5 * 3600, 3600, 4, 2)
    assert (run.is_preemptible, run.most_seconds, run.priority, run.demands[1].gpu_type) == (True, 7200, 3, "A100")
    assert {demand.topology for demand in run.demands} == {Topology(2, True)}
    assert [(span.began, span.ended) for span in past.stays] == [(7200, 10_800)]


def test_an_evicted_attempt_is_one_run_with_the_next_one() -> None:
    ran(1, 1, 0.5, job_id=7, outcome="EVICTED")
    ran(3, 2, 1.0, job_id=7, attempt=2)
    past = read_past(WINDOW)
    [run] = past.runs
    assert (run.submitted, run.seconds) == (1800, 7200)
    assert [(span.id, span.is_evicted) for span in past.stays] == [(run.id, True), (run.id, False)]


def test_a_failed_attempt_and_its_retry_are_two_runs() -> None:
    ran(1, 1, job_id=7, outcome="FAILED")
    ran(2, 1, job_id=7, attempt=2)
    assert len(read_past(WINDOW).runs) == 2


def test_what_ran_already_runs_on_and_what_still_runs_does_not_end() -> None:
    ran(-1, 3, job_name="before")
    held(T + 20 * HOUR, None, job_name="goes on")
    past = read_past(WINDOW)
    [(start, began, ends)], [run] = past.running, past.runs
    assert (start.run.name, began, ends) == ("before", -3600, 7200)
    assert run.seconds > past.seconds


def test_what_waited_in_the_window_and_ran_later_is_in_it_and_others_are_not() -> None:
    ran(25, 1, 2, job_name="waited")
    ran(25, 1, 0.5, job_name="came later")
    ran(-3, 1, job_name="over")
    assert [run.name for run in read_past(WINDOW).runs] == ["waited"]


def test_a_job_waits_no_earlier_than_what_it_depends_on_ended() -> None:
    first = make_job("alice", "first", state="SUCCEEDED")
    Job.objects.filter(pk=first.pk).update(completed_at=_moment(T + 2 * HOUR))
    second = make_job("alice", "second")
    Dependency.objects.create(job=second, on=first, on_name="first")
    ran(3, 1, 3, job_id=second.pk)
    [run] = read_past(WINDOW).runs
    assert run.submitted == 7200


def test_a_node_that_is_gone_has_what_was_held_of_it() -> None:
    make_node("gpu-01", gpus=1, status="draining")
    ran(1, 2, node="old", gpu_ids="0,1", gpus=2, cpus=3)
    ran(2, 2, node="old", gpu_ids="2", gpus=1, cpus=4)
    past = read_past(WINDOW)
    [known, gone] = past.nodes
    assert (known.name, known.offered, past.gone) == ("gpu-01", True, ["old"])
    assert (gone.cpus, [id for id, _ in gone.gpus]) == (7, ["0", "1", "2"])


def test_a_day_is_read_by_few_queries() -> None:
    make_node("gpu-01", gpus=4)
    for at in range(3):
        ran(at, 1)
    with CaptureQueriesContext(connection) as few:
        play(asked())
    for at in range(60):
        ran(at / 3, 1, 0.1, username=f"u{at}")
    with CaptureQueriesContext(connection) as many:
        play(asked())
    assert len(many) <= len(few) <= 8


# --- playing it ------------------------------------------------------------------------------------------------------


def a_day() -> None:
    """On a node of two GPUs a job of both ran, then a small one that had waited behind a large one for nothing."""
    make_node("gpu-01", gpus=2)
    ran(0, 2, gpus=1, gpu_ids="0", vc="default")
    ran(2, 2, 1.9, gpus=2, gpu_ids="0,1", vc="default")
    ran(4, 1, 3.8, gpus=1, gpu_ids="0", vc="default")


def test_another_policy_stands_beside_what_happened() -> None:
    a_day()
    found = asdict(play(asked("backfill")))
    before, then = found["before"], found["after"]
    assert before["waits"]["1 GPU"]["mean"] == pytest.approx(1.9 * 3600)
    assert then["waits"]["1 GPU"]["mean"] == pytest.approx(0, abs=10)
    assert before["waits"]["2-8 GPUs"]["mean"] == then["waits"]["2-8 GPUs"]["mean"] == pytest.approx(1.9 * 3600, abs=60)
    assert found["jobs"] == 3 and before["utilisation"] == pytest.approx(then["utilisation"])


@pytest.mark.parametrize("policy", ["longshore", "fifo", "backfill", "easy"])
def test_every_policy_plays_the_day(policy: str) -> None:
    a_day()
    found = asdict(play(asked(policy)))
    assert found["after"]["not_started"] == 0
    assert json.loads(json.dumps(found)) is not None


def test_more_nodes_make_waits_short() -> None:
    a_day()
    found = asdict(play(asked("fifo", nodes=2.0)))
    assert (found["nodes"], found["whole"]) == ({"before": 1, "after": 2}, {"before": 2.0, "after": 4.0})
    assert found["after"]["waits"]["2-8 GPUs"]["mean"] == pytest.approx(0, abs=10)


def test_another_guarantee_lets_its_jobs_evict() -> None:
    make_node("gpu-01", gpus=2)
    VirtualCluster.objects.create(name="a", capacity=40, max_capacity=100)
    ran(0, 4, gpus=2, gpu_ids="0,1")
    ran(4, 1, 3, vc="a")
    assert play(asked()).after.evictions == 0
    found = asdict(play(asked(changes=("vc:a:guarantee:+1",))))
    assert found["after"]["evictions"] == 1
    assert found["after"]["waits"]["1 GPU"]["mean"] < found["before"]["waits"]["1 GPU"]["mean"]


def test_what_has_no_room_on_a_smaller_cluster_waits() -> None:
    make_node("gpu-01", gpus=2)
    make_node("gpu-02", gpus=2)
    ran(-1, 3, node="gpu-02", gpus=2, gpu_ids="0,1")
    ran(-1, 3, node="gpu-01", gpus=2, gpu_ids="0,1")
    found = asdict(play(asked("fifo", nodes=0.5)))
    assert found["after"]["waits"]["2-8 GPUs"]["mean"] == pytest.approx(7200, abs=60)


def test_it_can_be_ended_and_says_how_far_it_is() -> None:
    a_day()
    found = asdict(play(asked(), lambda part: part > 0.02))
    assert found["until"] < WINDOW.end
    assert found["notes"] == [f"It took too long and was ended: the day was played until {_clock(found['until'])}."]


def _clock(time: int) -> str:
    return f"{_moment(time).astimezone(WINDOW.zone):%H:%M}"


# --- asking for it ---------------------------------------------------------------------------------------------------


def test_a_worker_plays_what_an_admin_asked_for(admin: User) -> None:
    a_day()
    row = replays.ask(admin, asked("easy"))
    assert (row.result, row.progress) == (None, 0)
    assert replays.play_next() and not replays.play_next()
    found = replays.find(admin, row.pk)
    assert found.progress == 100 and found.result["jobs"] == 3


def test_what_another_worker_plays_is_left_to_it_while_it_lives(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "STALE", HOUR)
    row = replays.ask(admin, asked())
    now = milliseconds(timezone.now())
    Replay.objects.update(beat=now)
    assert not replays.play_next()
    Replay.objects.update(beat=now - 2 * replays.STALE)
    assert replays.play_next()
    assert replays.find(admin, row.pk).result is not None


def test_a_day_that_cannot_be_played_says_so_and_the_next_one_is_played(admin: User) -> None:
    VirtualCluster.objects.create(name="a", capacity=10, max_capacity=100)
    make_node("gpu-01", gpus=2)
    first, second = replays.ask(admin, asked(changes=("vc:a:+1",))), replays.ask(admin, asked())
    VirtualCluster.objects.all().delete()
    while replays.play_next():
        pass
    assert replays.find(admin, first.pk).error == "There is no virtual cluster a."
    assert replays.find(admin, second.pk).result is not None


def test_only_the_newest_are_kept(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "KEPT", 2)
    rows = [replays.ask(admin, asked()) for _ in range(3)]
    assert [row.pk for row in replays.newest(admin)] == [rows[2].pk, rows[1].pk]
    with pytest.raises(NotFound):
        replays.find(admin, rows[0].pk)


def test_it_is_for_admins(alice: User) -> None:
    for who, error in ((alice, Forbidden), (Guest(), Unauthorized)):
        with pytest.raises(error):
            replays.ask(who, asked())
        with pytest.raises(error):
            replays.find(who, 1)
        with pytest.raises(error):
            replays.newest(who)


def test_a_window_that_is_too_full_is_refused(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.replay.run.MOST_TASKS", 2)
    a_day()
    with pytest.raises(BadRequest, match="More than 2 tasks ran in this window"):
        replays.ask(admin, asked())


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "policy": ({"policy": "lottery"}, "policy must be one of longshore, fifo, backfill, easy"),
    "time": ({"begin": "yesterday"}, "from is not a time"),
    "too long": ({"begin": "9d"}, "at most 7 days"),
    "future": ({"begin": "2999-01-01", "end": "2999-01-02"}, "has not begun"),
    "many nodes": ({"nodes": 11}, "nodes must be a number above 0 and up to 10"),
    "no nodes": ({"nodes": -1}, "nodes must be a number"),
    "not a number": ({"nodes": float("nan")}, "nodes must be a number"),
    "job": ({"changes": ["job:a~b:stop"]}, "none of jobs"),
    "change": ({"changes": ["x"]}, "cannot be read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_played_is_said(case: str) -> None:
    data, says = WRONG[case]
    with pytest.raises(BadRequest, match=says):
        read_asked(**{"begin": "1d", **data})


def test_what_has_not_happened_yet_is_not_played() -> None:
    now = milliseconds(timezone.now())
    found = read_asked(str(now - HOUR), str(now + HOUR))
    assert now - 1000 <= found.window.end < now + HOUR / 2


@pytest.mark.django_db(transaction=True)
def test_the_order_is_carried_out_in_a_thread(admin: User) -> None:
    row = replays.ask(admin, asked())
    replays.in_worker()
    until(lambda: Replay.objects.get(pk=row.pk).result is not None, what="the day to be played")
