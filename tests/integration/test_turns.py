"""The turns that pages and the API print are those that the scheduler carries out in its next pass."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from base.core import clock
from clusters.models import Node, VcGrant, VirtualCluster
from clusters.nodes.queries import Ledger
from jobs import services
from jobs.history import lengths
from jobs.models import Job
from jobs.planning.live import Standing
from jobs.planning.planner import scene
from jobs.planning.turns import Move, turns
from jobs.scheduling import load
from jobs.scheduling.load import named_gpus
from jobs.waiting.queue import queue_now, turns_of
from tests.cluster import Cluster
from tests.history import a_past

VCS = ("default", "a", "stopped")


def waiting(cluster: Cluster) -> list[int]:
    return list(Job.objects.filter(state="WAITING").values_list("id", flat=True))


def printed_rooms(ids: list[int]) -> dict[int, list[str]]:
    """The nodes on which room is kept for a job, as its page says."""
    return {id: turn.reservation.names for id, turn in turns_of(ids).items() if turn.reservation}


def rooms_of_the_pass(cluster: Cluster) -> dict[int, list[str]]:
    """The same as a pass of the scheduler decides it."""
    scheduler = cluster.scheduler
    seen = {name: watcher.look for name, watcher in cluster._watchers.items() if watcher.look}
    world = scheduler._loader.world(clock.monotonic_now(), seen, {})
    decided = turns(world.waiting, scene(world, world.nodes, lambda: Standing().runners(world)), only_tried=True)
    return {turn.job.id: turn.reservation.names for turn in decided if turn.reservation}


@pytest.mark.parametrize("seed", range(10))
def test_what_is_printed_is_what_happens(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    if seed % 2:
        a_past()
    for name in VCS:
        status = VirtualCluster.Status.STOPPED if name == "stopped" else VirtualCluster.Status.RUNNING
        vc, _ = VirtualCluster.objects.update_or_create(name=name, defaults={"status": status})
        VcGrant.objects.create(vc=vc, username=cluster.owner.username)
    kinds = ["A", "B"] if seed >= 6 else [""]
    for at in range(3):
        cluster.add_node(f"n{at}", gpus=chance.randint(1, 3), gpu_type=kinds[at % len(kinds)], cpus=4)
    Node.objects.filter(name="n0").update(status=chance.choice(["active", "cordoned"]))
    cluster.tick()
    for at in range(12):
        role = {"gpuNumber": chance.randint(0, 3), "taskNumber": chance.randint(1, 3)}
        names = {"gpuType": chance.choice(["", "A"])} if seed >= 6 else {}
        cluster.submit(name=f"j{at}", roles=[role], virtualCluster=chance.choice(VCS), **names)
    for _ in range(3):
        printed = turns_of(waiting(cluster))
        cluster.tick()
        started = set(Job.objects.filter(state="RUNNING").values_list("id", flat=True))
        assert {id for id, turn in printed.items() if turn.move is Move.GO} == started & printed.keys()
        for id in printed.keys() - started:
            assert printed[id].blockers, "a job that waits has a reason"
        assert printed_rooms(waiting(cluster)) == rooms_of_the_pass(cluster)
        for job in Job.objects.filter(id__in=sorted(started)[:2]):
            services.stop(cluster.owner, job)
        cluster.tick()
        cluster.tick()  # their containers never began: their room is free


def test_the_turns_of_many_jobs_take_as_many_queries_as_those_of_one(
    cluster: Cluster, django_assert_max_num_queries: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths.known_lengths, "seconds", math.inf)  # nothing gets old meanwhile
    cluster.add_node(cpus=1)
    jobs = [cluster.submit(name=f"j{at}").pk for at in range(30)]
    cluster.tick()
    with django_assert_max_num_queries(10):
        assert [turn.position for turn in turns_of(jobs[1:]).values()] == list(range(1, 30))


def test_who_names_a_type_of_gpus_counts_whether_waiting_or_running(
    cluster: Cluster, django_assert_num_queries: Callable[[int], Any]
) -> None:
    for at, kind in enumerate("AAB"):
        cluster.add_node(f"n{at}", gpus=1, gpu_type=kind)
    for name, kind in (("first", "A"), ("second", "A"), ("third", "A"), ("ended", "A"), ("any", "")):
        cluster.submit(name=name, roles=[{"gpuNumber": 1}], gpuType=kind)
    services.stop(cluster.owner, Job.objects.get(name="ended"))
    cluster.settle()
    assert Job.objects.get(name="any").state == "RUNNING", "B is left for it"
    views = Ledger().nodes()
    with django_assert_num_queries(1):
        assert named_gpus(views) == {"A": 3}
    with django_assert_num_queries(0):
        assert named_gpus(views[:2]) == {}, "there is nothing to choose"
    assert queue_now()[1].wanted == {"A": 1.5}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite says which index it reads")
def test_that_is_read_from_one_index_without_a_row(cluster: Cluster) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {load._NAMED}")
        assert "USING COVERING INDEX job_naming_gpus" in cursor.fetchone()[-1]


def test_jobs_of_the_release_before_get_their_type_by_the_migration(cluster: Cluster) -> None:
    for name, values in (("names", {"gpuType": "A"}), ("any", {})):
        cluster.submit(name=name, roles=[{"gpuNumber": 1}], **values)
    Job.objects.update(gpu_type="")
    importlib.import_module("jobs.migrations.0033_gpu_type").fill(apps, None)
    assert dict(Job.objects.values_list("name", "gpu_type")) == {"names": "A", "any": ""}
