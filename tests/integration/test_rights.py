"""What a virtual cluster's containers may do beyond the others', and who may ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from base.models import User
from clusters.models import VcGrant, VirtualCluster
from jobs import services
from jobs.admission import NotGiven
from jobs.containers import launch
from jobs.containers.inputs import launch_of
from jobs.models import Job
from jobs.submitting.dry_run import check_config
from tests.cluster import Cluster
from tests.submitting import config, config_text

pytestmark = pytest.mark.django_db
RDMA = {"virtualCluster": "hpc", "jobEnvs": {"paiAzRDMA": True}}


def vc(user: User, **more: Any) -> None:
    made = VirtualCluster.objects.create(name="hpc", capacity=50, max_capacity=50, **more)
    VcGrant.objects.create(vc=made, username=user.username)


def request_of(cluster: Cluster, job: Job) -> Any:
    cluster.tick()
    return launch.request(launch_of(cluster.task(job).pk, epoch=""))


def test_infiniband_is_refused_where_nobody_gave_it_and_the_place_is_told(alice: User, admin: User) -> None:
    vc(alice)
    for user in (alice, admin):
        with pytest.raises(NotGiven, match="hpc may not have"):
            services.submit(user, config_text(**RDMA))
    (problem,) = check_config(config(jobEnvs={"paiAzRDMA": True}), alice).problems
    assert problem.path == "/jobEnvs/paiAzRDMA" and "virtual cluster default" in problem.message
    for other in (False, "true", 1):
        assert not check_config(config(jobEnvs={"paiAzRDMA": other}), alice).problems


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


def test_the_profile_of_v1_is_refused_where_nobody_gave_it_and_the_place_is_told(alice: User, admin: User) -> None:
    vc(alice)
    asks = {"virtualCluster": "hpc", "extras": {"profile": "pai"}}
    for user in (alice, admin):
        with pytest.raises(NotGiven, match="rights to mount file systems, which jobs of virtual cluster hpc may not"):
            services.submit(user, config_text(**asks))
    (problem,) = check_config(config(extras={"profile": "pai"}), alice).problems
    assert problem.path == "/extras/profile" and "virtual cluster default" in problem.message
    assert not check_config(config(extras={"profile": "default"}), alice).problems
    (problem,) = check_config(config(extras={"profile": "root"}), alice).problems
    assert problem.message == 'profile is "root"; it must be default or pai.'
    VirtualCluster.objects.filter(name="hpc").update(profile="pai")
    assert services.submit(alice, config_text(**asks)).vc == "hpc"


def test_a_job_may_do_without_the_rights_of_its_virtual_cluster(cluster: Cluster) -> None:
    vc(cluster.owner, profile="pai")
    cluster.add_node()
    asked = {"virtualCluster": "hpc", "extras": {"profile": "default"}}
    assert request_of(cluster, cluster.submit(name="a", **asked)).security == "default"
    asked["extras"] = {"profile": "pai"}
    assert request_of(cluster, cluster.submit(name="b", **asked)).security == "pai"
