"""Tests a Kubernetes cluster before it is added, step by step, and saves nothing."""

from __future__ import annotations

import time

from base.core import words
from base.core.errors import LongshoreError
from clusters.engines.inventory import Fitness, Inventory
from clusters.models import Cluster
from clusters.nodes import keys
from clusters.nodes.kubernetes import services
from clusters.nodes.kubernetes.body import endpoint_of
from portal.nodes.adding.checks import CheckStep, Tested
from portal.nodes.adding.forms import ClusterForm

_ROLE = "kubectl apply -k Dockerfiles/kubernetes/rights gives an account all that is needed (docs/run/kubernetes.md)."


def test(form: ClusterForm, cluster: Cluster | None = None) -> Tested:
    """``form`` has no errors. ``cluster``: the one that it changes, whose keys count where the form has none."""
    began = time.monotonic()
    endpoint = cluster.endpoint if cluster else endpoint_of(form.name, form.namespace)
    try:
        if cluster is None:
            services.refuse_known_name(form.name)
        with keys.tried(endpoint, services.files_of(form.kubeconfig or None)) as folder:
            tls_dir = folder or (cluster.tls_dir if cluster else "")
            fitness, inventory = services.ask(endpoint, tls_dir, form.body()["nodeSelector"], form.network)
    except LongshoreError as error:
        return Tested((CheckStep("Cluster", "failed", error.message), CheckStep("Rights", "open", "Not tried.")))
    took = round(time.monotonic() - began, 1)
    answers = CheckStep("Cluster", "passed", f"Kubernetes {fitness.version} answers.", took)
    return Tested((answers, *_fit(fitness, inventory)))


def _fit(fitness: Fitness, inventory: Inventory | None) -> list[CheckStep]:
    if inventory is None:
        lacking = [CheckStep("Rights", "failed", sentence) for sentence in fitness.lacks]
        return [*lacking, CheckStep("Nodes", "open", "Not tried.", advice=_ROLE)]
    hints = [CheckStep("Hint", "hint", sentence) for sentence in fitness.hints]
    return [CheckStep("Rights", "passed", "The account may do all that is needed."), *hints, _nodes(inventory)]


def _nodes(inventory: Inventory) -> CheckStep:
    hosts = inventory.hosts
    if not hosts:
        return CheckStep("Nodes", "failed", "The cluster has no node with these labels.")
    closed = [f"{host.name} is {host.closed}." for host in hosts if host.closed]
    away = [f"{host.name} is not heard of." for host in hosts if host.silent]
    text = f"{words.count(len(hosts), 'node')}, {words.count(sum(len(host.gpus) for host in hosts), 'GPU')}."
    return CheckStep("Nodes", "hint" if closed or away else "passed", " ".join([text, *closed, *away]))
