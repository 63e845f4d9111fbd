"""Jobs through a whole portal on a real cluster: some that Docker nodes have too, and what may go wrong there."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hdfs import TokenClient

from clusters.engines.sample_image import root_file_system, static_busybox
from tests.acceptance import test_files_and_ssh, test_hold_docker, test_main_job, test_seeds
from tests.acceptance.portal import Portal, config
from tests.acceptance.test_seeds import code
from tests.bed.kubernetes_bed import NAMESPACE, KubernetesBed
from tests.bed.registry import Registry
from tests.bed.ssh_image import import_ssh_image
from tests.helpers import LIMIT, until
from tests.kubernetes.portal import pods, portal_over, wait_clean

__all__ = ["code"]
PASSWORD = "a-password-of-the-registry"
FOREVER = "echo ready; while :; do sleep 1; done"


@pytest.fixture(scope="module")
def portal(cluster: KubernetesBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    with portal_over(cluster, tmp_path_factory.mktemp("portal"), LONGSHORE_NODE_LOST_AFTER="15") as one:
        answer = one.http.put("/virtual-clusters/your_virtual_cluster", json={"vcCapacity": 50, "vcMaxCapacity": 100})
        assert answer.status_code == 201, answer.text
        yield one
        one.stop_all()
        wait_clean(one, cluster)


@pytest.fixture
def small(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of this cluster has what this machine has, and says no more: jobs ask for less."""
    submit = portal.submit

    def submitted(config: Any) -> str:
        if isinstance(config, str):
            config = re.sub(r'("cpuNumber": )\d+', r"\g<1>1", config)
            config = re.sub(r'("memoryMB": )\d+', r"\g<1>512", config)
        return submit(config)

    monkeypatch.setattr(portal, "submit", submitted)


@pytest.mark.usefixtures("small")
def test_parameter_servers_and_workers_know_each_other(portal: Portal) -> None:
    test_seeds.test_parameter_servers_and_workers_know_each_other(portal, *test_seeds.NEWEST)


@pytest.mark.parametrize(
    "what",
    [
        # What a kubelet tells in another way than Docker: that its container is kept, and why it was killed.
        test_hold_docker.test_a_failed_command_keeps_its_container_until_it_is_released,
        test_main_job.test_it_says_why_it_failed_with_the_lines_that_say_so,
    ],
)
def test_it_is_as_on_a_docker_node(portal: Portal, what: Any) -> None:
    what(portal)


def test_a_stop_ends_it_within_the_grace_period(portal: Portal) -> None:
    test_main_job.test_a_stop_ends_it_within_the_grace_period(portal, "obeys", FOREVER, 8)


def containers_on(cluster: KubernetesBed, host: str) -> str:
    """The names of those that run there: a kubelet begins them with k8s, the container and its pod."""
    return cluster.docker(host, "ps", "--format", "{{.Names}}")


def node_of(portal: Portal, name: str) -> str:
    """The host that the job's task is on."""
    return str(portal.task(name)["nodeName"]).partition("/")[2]


def test_its_gpus_are_those_that_the_cluster_gave(portal: Portal, cluster: KubernetesBed) -> None:
    name = portal.submit(config("gpus", "echo $NVIDIA_VISIBLE_DEVICES; sleep 3", gpuNumber=2))
    assert portal.wait_state(name)["state"] == "SUCCEEDED"
    host = node_of(portal, name)
    given = [f"GPU-{host}-0", f"GPU-{host}-1"]
    assert sorted(portal.log(name).strip().split(",")) == given
    assert portal.rows("SELECT gpus_given FROM jobs_task WHERE gpus_given IS NOT NULL") == [(json.dumps(given),)]


def test_code_that_is_too_large_for_a_secret_is_fetched_from_the_portal(portal: Portal, cluster: KubernetesBed) -> None:
    portal.write("/user/admin/large/weights", os.urandom(3_000_000))
    command = "wc -c <large/weights; ls /pai/code/large"
    name = portal.submit(config("large-code", command) | {"codeDir": "$PAI_DEFAULT_FS_URI/user/admin/large"})
    portal.wait_state(name)
    assert portal.log(name) == "3000000\nweights\n"


@pytest.fixture
def files(portal: Portal) -> TokenClient:
    answer = portal.http.get(f"{portal.url}/webhdfs/v1/?op=GETDELEGATIONTOKEN")
    return TokenClient(portal.url, answer.json()["Token"]["urlString"], timeout=LIMIT)


@pytest.fixture
def ssh_image(cluster: KubernetesBed) -> None:
    for name in ("n1", "n2"):
        import_ssh_image(f"unix://{cluster.folder}/bed/nodes/{name}/docker.sock")


@pytest.mark.usefixtures("ssh_image")
def test_tasks_on_two_nodes_log_in_to_each_other(portal: Portal, files: TokenClient, tmp_path: Path) -> None:
    test_files_and_ssh.test_code_logins_outputs_and_logs(portal, files, tmp_path)


def test_the_password_of_an_auth_file_pulls_and_is_deleted_afterwards(portal: Portal, cluster: KubernetesBed) -> None:
    registry = Registry(cluster.host, password=PASSWORD)
    try:
        image = registry.add("team/tool", root=root_file_system(static_busybox()).read())
        portal.write("/users/admin/auth", f"{registry.address}\nbed\n{PASSWORD}\n".encode())
        asked = {"image": image, "authFile": "$PAI_DEFAULT_FS_URI/users/admin/auth"}
        name = portal.submit(config("locked", "env; while :; do sleep 1; done") | asked)
        portal.wait_running(name)
        until(lambda: "PAI_JOB_NAME" in portal.log(name), 10, 0.1, "its output")
        kept = cluster.kubectl("-n", NAMESPACE, "get", "pods,secrets", "-o", "json")
        assert ".files" in kept and ".pull" not in cluster.kubectl("-n", NAMESPACE, "get", "secrets", "-o", "name")
        for secret in (PASSWORD, *(base64.b64encode(each.encode()).decode() for each in (PASSWORD, f"bed:{PASSWORD}"))):
            assert not any(secret in text for text in (kept, portal.log(name), str(portal.job(name)), portal.text()))
        portal.stop(name)
        refused = portal.submit(config("unlocked", "true") | {"image": registry.add("team/other")})
        until(lambda: portal.job(refused)["jobStatus"]["appExitMessages"], 60, what="it is refused")
        said = str(portal.job(refused)["jobStatus"]["appExitMessages"]) + str(portal.attempts(refused))
        assert "credentials" in said, said
        portal.stop(refused)
        portal.wait_state(refused)
    finally:
        registry.close()


@pytest.mark.parametrize("how", [(), ("--force", "--grace-period=0")])
def test_a_pod_that_somebody_deletes_is_lost_and_tried_again(
    portal: Portal, cluster: KubernetesBed, how: tuple[str, ...]
) -> None:
    name = portal.submit(config(f"deleted-{len(how)}", FOREVER))
    portal.wait_running(name)
    (pod,) = (one for one in pods(cluster, portal) if name in one)
    cluster.kubectl("-n", NAMESPACE, "delete", pod, "--wait=false", *how)
    until(lambda: portal.job(name)["jobStatus"]["retryDetails"]["platform"], 60, what="another try")
    print(portal.attempts(name)[-1]["appExitMessages"])
    portal.wait_running(name, timeout=60)
    portal.stop(name)
    portal.wait_state(name)


def test_a_quota_that_is_met_is_told(portal: Portal, cluster: KubernetesBed) -> None:
    cluster.kubectl("-n", NAMESPACE, "create", "quota", "small", "--hard=requests.cpu=0")
    try:
        name = portal.submit(config("quota", "true"))
        until(lambda: portal.job(name)["jobStatus"]["retryDetails"]["platform"], 60, what="another try")
        said = portal.attempts(name)[-1]["appExitMessages"]
        print(said)
        assert "quota of the namespace is used up" in str(said)
    finally:
        cluster.kubectl("-n", NAMESPACE, "delete", "quota", "small")
    portal.stop(name)
    portal.wait_state(name)


def test_an_image_that_cannot_be_had_is_told(portal: Portal) -> None:
    name = portal.submit(config("no-image") | {"image": "127.0.0.1:9/no/such:1"})
    until(lambda: portal.job(name)["jobStatus"]["retryDetails"]["platform"], 90, what="another try")
    said = str(portal.attempts(name)[-1]["appExitMessages"])
    print(said)
    assert "127.0.0.1:9/no/such:1" in said and "cannot reach its registry" in said
    portal.stop(name)
    portal.wait_state(name)


@pytest.mark.parametrize("mode", ["kill", "hang"])
def test_an_api_server_that_is_away_harms_no_job(portal: Portal, cluster: KubernetesBed, mode: Any) -> None:
    """Its command ends while nobody hears of it."""
    name = portal.submit(config(f"away-{mode}", "echo begins; sleep 8; echo ends; exit 3"))
    host = str(portal.wait_running(name)["nodeName"]).partition("/")[2]
    cluster.api_down(mode)
    try:
        until(lambda: "k8s_main_longshore" not in containers_on(cluster, host), 60, what="its command has ended")
    finally:
        cluster.api_up()
    status = portal.wait_state(name, timeout=90)
    print(status["appExitMessages"], status["retries"])
    until(lambda: portal.node("lab/n1")["health"] == "ready", 60, what="the nodes are ready")
    if not status["retries"]:  # else the outage was longer than a node's silence may be
        assert (status["state"], portal.log(name)) == ("FAILED", "begins\nends\n")


def test_a_task_on_a_silent_node_is_tried_again_elsewhere_and_its_gpus_wait(
    portal: Portal, cluster: KubernetesBed
) -> None:
    """Its task is tried again elsewhere; what runs on goes when the node is heard again, and only then its GPUs are
    offered."""
    name = portal.submit(config("silent", "echo $PAI_CONTAINER_ID; while :; do sleep 1; done", gpuNumber=2))
    portal.wait_running(name)
    lost = node_of(portal, name)
    cluster.node_down(lost, "cut")
    try:
        until(lambda: portal.job(name)["jobStatus"]["retryDetails"]["platform"], 180, what="another try")
        print(portal.attempts(name)[-1]["appExitMessages"])
        elsewhere = portal.wait_running(name, timeout=60)["nodeName"]
        assert elsewhere != f"lab/{lost}"
        until(lambda: len(pods(cluster, portal)) == 2, 30, what="the lost one, which is not forgotten, and the new one")
        waits = portal.submit(config("waits", "true", gpuNumber=1))
        portal.wait_state(portal.submit(config("passes", "true")))  # so the queue was gone through
        assert portal.state(waits) == "WAITING"
    finally:
        cluster.node_up(lost)
    assert portal.wait_state(waits, timeout=120)["state"] == "SUCCEEDED"
    until(lambda: len(pods(cluster, portal)) == 1, 90, what="the one that runs is left alone")
    assert (portal.state(name), len(portal.attempts(name))) == ("RUNNING", 2)
    portal.stop(name)
    portal.wait_state(name)
