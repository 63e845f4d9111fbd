"""What is read of Kubernetes' nodes and pods, and the names that its hosts get."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from clusters.engines.inventory import RESERVED, gpu_ids, name_of, resource_of
from clusters.engines.kubernetes import rights
from clusters.engines.kubernetes.hosts import asked_by, host_of, quantity, taken_by_others


def node(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "NVIDIA A100 SXM4"}},
        "spec": status.pop("spec", {}),
        "status": {
            "allocatable": {"cpu": "7910m", "memory": "16Gi", "nvidia.com/gpu": "2", "pods": "110"},
            "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["ubuntu@sha256:ab", "docker.io/library/ubuntu:22.04"]}],
            "nodeInfo": {"kubeletVersion": "v1.20.2"},
            **status,
        },
    }


def pod(cpu: str, *, node: str = "n1", phase: str = "Running", **meta: Any) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}
    return {"metadata": {"namespace": "other", **meta}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", "2"),
        ("100m", "0.1"),
        ("1Gi", str(2**30)),
        ("5k", "5000"),
        ("1e3", "1000"),
        ("0.5", "0.5"),
        ("x", "0"),
        ("", "0"),
        (None, "0"),
    ],
)
def test_quantities_are_read(text: str | None, number: str) -> None:
    assert quantity(text) == Decimal(number)


def test_a_node_is_a_host_with_whole_cores_and_what_is_left_of_its_memory() -> None:
    host = host_of(node(), {})
    assert (host.cpus, host.memory_mb, host.address, host.version) == (7, 16384, "10.0.0.1", "v1.20.2")
    assert host.gpus == (("0", "A100-SXM4"), ("1", "A100-SXM4"))
    assert host.images == {"ubuntu:22.04"} and not host.closed and not host.silent


def test_gpus_of_another_resource_have_ids_that_say_which() -> None:
    host = host_of(node(allocatable={"cpu": "4", "memory": "1Gi", "amd.com/gpu": "2"}), {})
    assert [id for id, _ in host.gpus] == ["amd.com/gpu:0", "amd.com/gpu:1"]
    assert {resource_of(id) for id, _ in host.gpus} == {"amd.com/gpu"}
    assert [resource_of(id) for id in gpu_ids("nvidia.com/gpu", 1)] == ["nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("spec", "conditions", "closed"),
    [
        ({"unschedulable": True}, "True", "cordoned in Kubernetes"),
        ({"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}, "True", "team=x:NoSchedule"),
        ({"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}, "True", ""),
        ({"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}, "True", ""),
        ({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}, "Unknown", ""),
        ({}, "False", "not ready"),
    ],
)
def test_what_is_closed_says_why(spec: Any, conditions: str, closed: str) -> None:
    host = host_of(node(spec=spec, conditions=[{"type": "Ready", "status": conditions}]), {})
    assert closed in host.closed and bool(host.closed) == bool(closed)
    assert host.silent == (conditions == "Unknown")


def test_what_others_take_is_what_ends_up_missing_in_whole_cores() -> None:
    taken = taken_by_others([pod("500m"), pod("500m", phase="Succeeded"), pod("1", node="n2"), pod("1")], "ours", "me")
    assert taken["n1"]["cpu"] == Decimal("1.5")
    host = host_of(node(), taken["n1"])
    assert (host.cpus - host.others_cpus, host.memory_mb - host.others_memory_mb) == (6, 14 * 1024)


def test_pods_of_this_portal_are_not_others_and_no_one_else_passes_for_them() -> None:
    own = {"labels": {"longshore.instance": "me"}, "namespace": "ours"}
    assert taken_by_others([pod("1", **own)], "ours", "me") == {}
    assert taken_by_others([pod("1", **{**own, "namespace": "theirs"})], "ours", "me")
    assert taken_by_others([pod("1", **own)], "ours", "another")


def test_a_pod_needs_what_its_first_containers_need_if_that_is_more() -> None:
    first = {"resources": {"requests": {"cpu": "3"}}}
    beside = {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"}
    made = pod("1")
    made["spec"] |= {"initContainers": [beside, first], "overhead": {"cpu": "250m"}}
    assert asked_by(made)["cpu"] == Decimal("4.25")


def test_names_of_hosts_fit_and_never_stand_for_another_page() -> None:
    assert name_of("lab", "gpu-1.example.org") == "lab/gpu-1.example.org"
    long = [name_of("lab", "n" * 200 + end) for end in "ab"]
    assert all(len(name) == 63 for name in long) and len(set(long)) == 2
    assert not {name_of("lab", word).partition("/")[2] for word in RESERVED} & set(RESERVED)


def test_the_rights_that_lack_are_said_in_a_sentence() -> None:
    said = rights.missing(rights.NAMESPACED[0], ["create", "delete", "list"], "jobs")
    assert said.startswith("It may not create, delete and list pods in the namespace jobs: Longshore needs that to")
    assert rights.too_old("1", "19+") and not rights.too_old("1", "20")
