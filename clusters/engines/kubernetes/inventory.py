"""The inventory of a Kubernetes cluster: its nodes, what other workloads take on them, and whether it may be used."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from clusters.engines.faults import short
from clusters.engines.inventory import Fitness, HostReport, Inventory
from clusters.engines.kubernetes import rights
from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.kubernetes.errors import EXPIRED, FORBIDDEN, NOT_FOUND, Refused, Tolerated
from clusters.engines.kubernetes.events import watched
from clusters.engines.kubernetes.hosts import Taken, host_of, taken_by_others
from clusters.engines.kubernetes.spec import pod_name
from clusters.engines.runtime import LABEL_TASK, FaultReason

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_BY_FORCE = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
_OCCUPYING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class KubernetesInventory:
    """See clusters.engines.inventory.Inventoried. Nothing is sent yet. Raises RuntimeFault when the endpoint is not one
    of a cluster."""

    def __init__(self, endpoint: str, folder: Path | None) -> None:
        self._cluster = ClusterApi(endpoint, folder)
        self._known: dict[str, HostReport] = {}  # of the last inventory, without what others take
        self._selector = ""
        self._version = ""  # the resourceVersion of that list
        self._may_see_others = True

    def fitness(self, network: str) -> Fitness:
        version = self._cluster.ask("GET", "/version")
        if rights.too_old(str(version.get("major")), str(version.get("minor"))):
            oldest = ".".join(map(str, rights.OLDEST))
            return Fitness(_word(version), (f"It is Kubernetes {_word(version)}; {oldest} is the oldest that works.",))
        lacks, hints = self._rights()
        if not lacks and (refused := self._refuses_pods(host_network=network == "host")):
            lacks.append(f"It takes no pods such as Longshore's: {refused}")
            if network == "host" and not self._refuses_pods(host_network=False):
                lacks.append('It would take them with the network "bridge", where pods have addresses of their own.')
        return Fitness(_word(version), tuple(lacks), tuple(hints))

    def inventory(self, selector: Mapping[str, str], instance: str) -> Inventory:
        self._selector = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
        nodes, self._version = self._cluster.listed(NODES, self._query())
        others = self._others(instance)
        self._known = {host.name: host for host in (host_of(node, {}) for node in nodes)}
        hosts = tuple(host_of(node, others.get(str(node["metadata"]["name"]), {})) for node in nodes)
        return Inventory(_word(self._cluster.ask("GET", "/version")), hosts, self._may_see_others)

    def forget(self, container: str) -> None:
        path = self._cluster.here("pods", pod_name(container))
        meta = (self._cluster.find(path) or {"metadata": {}})["metadata"]
        if LABEL_TASK in (meta.get("labels") or {}):
            self._cluster.drop(path, {**_BY_FORCE, "preconditions": {"uid": str(meta["uid"])}})

    def wait_change(self, timeout: float) -> None:
        query = {**self._query(), "allowWatchBookmarks": "true"}
        watch = watched(self._cluster, NODES, query, self._version, timeout)
        with Tolerated(EXPIRED), closing(watch) as events:  # the list is too old to follow on from: another one helps
            any(map(self._is_relevant, events))

    def _is_relevant(self, event: Mapping[str, Any]) -> bool:
        """Whether it is more than a sign of life."""
        node = event.get("object") or {}
        meta = node.get("metadata") or {}
        if event.get("type") == "BOOKMARK":
            return False
        name = str(meta.get("name"))
        if event.get("type") == "DELETED":
            return self._known.pop(name, None) is not None
        host = host_of(node, {})
        is_news = self._known.get(name) != host
        self._known[name] = host
        return is_news

    def _query(self) -> dict[str, str]:
        return {"labelSelector": self._selector} if self._selector else {}

    def _others(self, instance: str) -> dict[str, Taken]:
        self._may_see_others = False
        with Tolerated(FORBIDDEN):
            pods, _ = self._cluster.listed(PODS, {"fieldSelector": _OCCUPYING})
            self._may_see_others = True
            return taken_by_others(pods, self._cluster.namespace, instance)
        return {}

    def _rights(self) -> tuple[list[str], list[str]]:
        """Sentences about the rights that the account lacks: those that Longshore needs, and those that it can do
        without."""
        lacks: list[str] = []
        hints: list[str] = []
        for rules, namespace in ((rights.NAMESPACED, self._cluster.namespace), (rights.CLUSTER_WIDE, "")):
            for rule in rules:
                if verbs := [verb for verb in rule.verbs if not self._may(rule.resource, verb, namespace)]:
                    (hints if rule.is_optional else lacks).append(rights.missing(rule, verbs, namespace))
        return lacks, hints

    def _may(self, resource: str, verb: str, namespace: str) -> bool:
        kind, _, part = resource.partition("/")
        asked = {"resource": kind, "verb": verb, "namespace": namespace, "subresource": part}
        body = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
        said = self._cluster.ask("POST", REVIEWS, None, {**body, "spec": {"resourceAttributes": asked}})
        return bool((said.get("status") or {}).get("allowed"))

    def _refuses_pods(self, *, host_network: bool) -> str:
        """Why a pod would be refused; empty when it would be taken, now or once the namespace's quota has room again.
        The question makes no pod."""
        asks = {"cpu": "10m", "memory": "16Mi"}
        main = {"name": "main", "image": "longshore/sample:1", "command": ["true"], "resources": {"limits": asks}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "longshore-test-"},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "hostNetwork": host_network,
                "containers": [main],
            },
        }
        try:
            self._cluster.ask("POST", self._cluster.here("pods"), {"dryRun": "All"}, pod)
        except Refused as fault:
            if fault.status == NOT_FOUND:
                return f"it has no namespace {self._cluster.namespace}."
            if fault.reason is FaultReason.UNREACHABLE:
                raise
            return "" if "exceeded quota" in fault.text else short(fault.text)
        return ""


def _word(version: Mapping[str, Any]) -> str:
    return str(version.get("gitVersion") or "").removeprefix("v")[:40]
