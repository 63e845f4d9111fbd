"""Tests a Kubernetes cluster before it is added, step by step, and saves nothing."""

from __future__ import annotations

import time

from django.conf import settings

from clusters.engines import schemes as engines
from clusters.engines.inventory import Fitness, Inventory
from clusters.engines.runtime import RuntimeFault
from clusters.models import Cluster
from clusters.nodes.adding.checks import Step, Tested
from clusters.nodes.kubernetes import services
from clusters.nodes.kubernetes.body import endpoint_of
from clusters.nodes.kubernetes.form import ClusterForm
from clusters.nodes.probe import within
from portal.core import words
from portal.core.errors import LongshoreError

_ROLE = "kubectl apply -k Dockerfiles/kubernetes/rights gives an account all that is needed (docs/kubernetes.md)."


def test(form: ClusterForm, cluster: Cluster | None = None) -> Tested:
    """``form`` has no errors. ``cluster``: the one that it changes, whose keys count where the form has none."""
    began = time.monotonic()
    endpoint = cluster.endpoint if cluster else endpoint_of(form.name, form.namespace)
    try:
        if cluster is None:
            services.refuse_known_name(form.name)
        with services.tried_keys(form.kubeconfig or None) as folder:
            keys = folder or (cluster.tls_dir if cluster else "")
            fitness, found = within(services.PATIENCE, lambda: _ask(endpoint, keys, form))
    except (LongshoreError, RuntimeFault) as error:
        sentence = error.message if isinstance(error, LongshoreError) else error.sentence
        return _failed(sentence)
    except TimeoutError:
        return _failed(f"It does not answer within {services.PATIENCE:g} s.")
    took = round(time.monotonic() - began, 1)
    return Tested((Step("Cluster", "passed", f"Kubernetes {fitness.version} answers.", took), *_fit(fitness, found)))


def _ask(endpoint: str, keys: str, form: ClusterForm) -> tuple[Fitness, Inventory | None]:
    inventory = engines.inventory_at(endpoint, keys)
    fitness = inventory.fitness(form.network)
    if fitness.lacks:
        return fitness, None
    return fitness, inventory.inventory(form.body()["nodeSelector"], str(settings.INSTANCE))


def _fit(fitness: Fitness, found: Inventory | None) -> list[Step]:
    if found is None:
        lacking = [Step("Rights", "failed", sentence) for sentence in fitness.lacks]
        return [*lacking, Step("Nodes", "open", "Not tried.", advice=_ROLE)]
    hints = [Step("Hint", "hint", sentence) for sentence in fitness.hints]
    return [Step("Rights", "passed", "The account may do all that is needed."), *hints, _nodes(found)]


def _nodes(found: Inventory) -> Step:
    if not found.hosts:
        return Step("Nodes", "failed", "The cluster has no node with these labels.")
    gpus = sum(len(host.gpus) for host in found.hosts)
    closed = [f"{host.name} is {host.closed}" for host in found.hosts if host.closed]
    away = [f"{host.name} is not heard of" for host in found.hosts if host.silent]
    text = f"{words.count(len(found.hosts), 'node')}, {words.count(gpus, 'GPU')}."
    return Step(
        "Nodes", "hint" if closed or away else "passed", " ".join([text, *(f"{one}." for one in closed + away)])
    )


def _failed(sentence: str) -> Tested:
    return Tested((Step("Cluster", "failed", sentence), Step("Rights", "open", "Not tried.")))
