"""GET /virtual-clusters and /virtual-clusters/:vc (v1 contract, 3.11)."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from base.models import User
from clusters.models import Allocation, Node, VirtualCluster
from jobs.models import Job
from tests.builders import make_node
from tests.submitting import submitted

Api = Callable[[User | None], APIClient]
URL = "/api/v1/virtual-clusters"


def test_it_shows_what_the_default_one_has_and_uses(api: Api, alice: User) -> None:
    gpus = [{"id": str(n), "type": ""} for n in range(4)]
    node = Node.objects.create(name="n1", endpoint="unix:///x", address="a", cpus=8, memory_mb=8000, gpus=gpus)
    Allocation.objects.create(owner="1", node=node, vc="default", cpus=2, memory_mb=4000, gpu_ids=["0"], ports=[])
    submitted(alice, "a")
    Job.objects.update(state="RUNNING")
    submitted(alice, "b")
    body = api(None).get(URL).json()
    assert body == {
        "default": {
            "capacity": 100,
            "maxCapacity": 100,
            "usedCapacity": 50.0,
            "numActiveJobs": 1,
            "numJobs": 2,
            "numPendingJobs": 1,
            "resourcesUsed": {"memory": 4000, "vCores": 2, "GPUs": 1},
            "resourcesTotal": {"memory": 8000, "vCores": 8, "GPUs": 4},
            "status": "RUNNING",
            "dedicated": False,
            "profile": "default",
            "rdma": False,
            "storeQuota": None,
            "nodeList": ["n1"],
            "gpuGuarantee": None,
            "gpuCeiling": None,
            "dedicatedNodes": [],
            "userCaps": {"gpus": None, "jobs": None},
            "userPriority": 0,
            "shareHalfLifeHours": 24,
            "graceSeconds": 30,
            "minRunMinutes": 0,
            "notebookMinutes": 120,
            "logRetention": {"days": None, "gigabytes": None},
        }
    }
    assert api(None).get(f"{URL}/default").json() == body["default"]


def test_its_own_nodes_are_no_part_of_the_pool(api: Api, db: None) -> None:
    vision = VirtualCluster.objects.create(name="vision", capacity=50, max_capacity=50, gpu_guarantee=1)
    other = VirtualCluster.objects.create(name="other", capacity=25, max_capacity=25)
    for name, owner in (("n1", None), ("n2", vision), ("n3", other)):
        make_node(name, cpus=8, gpus=4, dedicated_to=owner)
    body = api(None).get(URL).json()
    assert (body["vision"]["dedicatedNodes"], body["vision"]["nodeList"]) == (["n2"], ["n1", "n2"])
    assert (body["default"]["dedicatedNodes"], body["default"]["nodeList"]) == ([], ["n1"])
    assert body["vision"]["resourcesTotal"] == {"memory": 8192 + 16384, "vCores": 4 + 8, "GPUs": 1 + 4}
    assert body["other"]["resourcesTotal"]["GPUs"] == 1 + 4
    assert body["default"]["resourcesTotal"]["GPUs"] == 4 - 1 - 1
    assert body["vision"]["gpuGuarantee"] == 1


def test_it_leaves_to_the_default_one_what_the_others_do_not_have(api: Api, db: None) -> None:
    VirtualCluster.objects.create(name="vision", capacity=30, max_capacity=60, status="STOPPED")
    VirtualCluster.objects.update_or_create(name="default", defaults={"capacity": 0})
    body = api(None).get(URL).json()
    assert {name: vc["capacity"] for name, vc in body.items()} == {"default": 70, "vision": 30}
    assert (body["vision"]["maxCapacity"], body["vision"]["status"]) == (60, "STOPPED")
    assert body["vision"]["usedCapacity"] == 0.0


def test_it_refuses_a_missing_one_and_a_bad_name(api: Api, db: None) -> None:
    missing = api(None).get(f"{URL}/xx")
    assert (missing.status_code, missing.json()) == (
        404,
        {"code": "NoVirtualClusterError", "message": "Vc xx not found"},
    )
    assert api(None).get(f"{URL}/a-b").status_code == 400


def test_it_needs_a_login_where_nobody_may_read_without(api: Api, alice: User, settings: Settings) -> None:
    settings.ANONYMOUS_READ = "none"
    assert api(None).get(URL).status_code == 401
    assert api(alice).get(URL).status_code == 200


def test_it_needs_no_more_queries_for_more_clusters(api: Api, db: None) -> None:
    counts = []
    for number in (1, 20):
        VirtualCluster.objects.bulk_create(VirtualCluster(name=f"vc{number}_{n}", capacity=1) for n in range(number))
        with CaptureQueriesContext(connection) as queries:
            api(None).get(URL)
        counts.append(len(queries))
    assert counts == [4, 4]
