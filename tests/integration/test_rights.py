"""What a virtual cluster's containers may do beyond the others', and who may ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.models import VcGrant, VirtualCluster
from jobs import services
from jobs.containers import inputs as launching
from jobs.containers import launch
from jobs.models import Job
from jobs.services import NoRdma
from portal.models import User
from tests.cluster import Cluster
from tests.submitting import config, config_text

pytestmark = pytest.mark.django_db
RDMA = {"virtualCluster": "hpc", "jobEnvs": {"paiAzRDMA": True}}


def vc(user: User, **more: Any) -> None:
    made = VirtualCluster.objects.create(name="hpc", capacity=50, max_capacity=50, **more)
    VcGrant.objects.create(vc=made, username=user.username)


def request_of(cluster: Cluster, job: Job) -> Any:
    cluster.tick()
    return launch.request(launching.launch(cluster.task(job).pk, epoch=""))


def test_infiniband_is_refused_where_nobody_gave_it_and_the_place_is_told(alice: User, admin: User) -> None:
    vc(alice)
    for user in (alice, admin):
        with pytest.raises(NoRdma, match="hpc may not have"):
            services.submit(user, config_text(**RDMA))
    (problem,) = services.check(config(jobEnvs={"paiAzRDMA": True}), alice).problems
    assert problem.path == "/jobEnvs/paiAzRDMA" and "virtual cluster default" in problem.message
    for other in (False, "true", 1):
        assert not services.check(config(jobEnvs={"paiAzRDMA": other}), alice).problems


def test_infiniband_goes_to_the_jobs_that_ask_for_it_where_it_was_given(cluster: Cluster) -> None:
    vc(cluster.owner, rdma=True)
    cluster.add_node()
    assert request_of(cluster, cluster.submit(name="a", **RDMA)).rdma
    assert not request_of(cluster, cluster.submit(name="b", virtualCluster="hpc")).rdma


def test_containers_have_the_profile_and_the_limit_of_processes_that_were_set(cluster: Cluster, settings: Any) -> None:
    vc(cluster.owner, profile="pai")
    settings.TASK_PIDS = 77
    cluster.add_node()
    mounting = request_of(cluster, cluster.submit(name="a", virtualCluster="hpc"))
    plain = request_of(cluster, cluster.submit(name="b"))
    assert (mounting.security, plain.security) == ("pai", "default")
    assert mounting.pids_limit == plain.pids_limit == 77
