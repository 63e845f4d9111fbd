"""Every write that an admin makes to Kubernetes clusters: each checks what they ask for, asks the cluster outside any
transaction, then writes rows and audit records and wakes the scheduler."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, Q
from django.utils import timezone

from clusters.engines import schemes as engines
from clusters.engines.inventory import Fitness, Inventory
from clusters.engines.kubernetes import kubeconfig
from clusters.engines.runtime import RuntimeFault
from clusters.models import Allocation, Cluster, Node
from clusters.nodes import keys
from clusters.nodes.kubernetes.body import ClusterChange, NewCluster, endpoint_of
from clusters.nodes.kubernetes.rows import take_over
from clusters.nodes.probe import within
from clusters.nodes.serializers import read
from portal.accounts import audit
from portal.accounts.viewer import Viewer, require_admin
from portal.core.bulk import take_turns
from portal.core.errors import BadRequest, ConflictNode, NoNode
from portal.wakes import wake

PATIENCE = 30.0  # seconds for all questions to a cluster while somebody adds it


@dataclass(frozen=True, slots=True)
class Asked:
    """What a cluster said before it is added."""

    fitness: Fitness
    inventory: Inventory

    @property
    def hints(self) -> tuple[str, ...]:
        return self.fitness.hints


def register_cluster(actor: Viewer, data: object, ip: str | None = None) -> tuple[Cluster, tuple[str, ...]]:
    """POST /nodes with the endpoint ``kubernetes://``: adds the cluster and all its nodes. Returns the cluster, and
    hints about what could be better there. BadRequest with everything that it lacks, ConflictNode when the name or the
    cluster is known already."""
    who = require_admin(actor).username
    body = read(NewCluster, data)
    endpoint = endpoint_of(body.name, body.namespace)
    refuse_known_name(body.name)
    tls_dir = keys.store_files(body.name, files_of(body.kubeconfig))
    try:
        asked = ask(endpoint, tls_dir, body.nodeSelector, body.network)
        cluster = Cluster(
            name=body.name,
            endpoint=endpoint,
            tls_dir=tls_dir,
            selector=body.nodeSelector,
            port_from=body.portRange[0],
            port_to=body.portRange[1],
            network=body.network,
        )
        _create(cluster, asked.inventory, who, ip)
    except BaseException:
        keys.forget(tls_dir)
        raise
    finally:
        engines.forget(endpoint, tls_dir)
    return Cluster.objects.get(pk=cluster.pk), asked.hints


def change_cluster(actor: Viewer, name: str, data: object, ip: str | None = None) -> tuple[Cluster, tuple[str, ...]]:
    """PUT /nodes/:name of a cluster: other keys, or another choice of its nodes. The cluster is asked first."""
    who = require_admin(actor).username
    cluster = find_cluster(name)
    body = read(ClusterChange, data)
    selector = cluster.selector if body.nodeSelector is None else body.nodeSelector
    before = tls_dir = cluster.tls_dir
    if body.kubeconfig is not None:
        tls_dir = keys.store_files(name, files_of(body.kubeconfig))
    try:
        asked = ask(cluster.endpoint, tls_dir, selector, cluster.network)
        with transaction.atomic():
            take_turns(Node)
            cluster = find_cluster(name)
            cluster.tls_dir, cluster.selector = tls_dir, selector
            cluster.save(update_fields=["tls_dir", "selector"])
            Node.objects.filter(cluster=cluster).update(tls_dir=tls_dir)
            take_over(cluster, asked.inventory, timezone.now())
            _record(who, "cluster changed", cluster, ip, {"fields": sorted(body.model_fields_set)})
    except BaseException:
        if tls_dir != before:
            keys.forget(tls_dir)
        raise
    if tls_dir != before:
        keys.forget(before)
    return find_cluster(name), asked.hints


def remove_cluster(actor: Viewer, name: str, ip: str | None = None) -> None:
    """DELETE /nodes/:name of a cluster, with all its nodes. ConflictNode while tasks hold something on one of them.
    Nothing is removed from the cluster itself."""
    who = require_admin(actor).username
    try:
        with transaction.atomic():
            cluster = find_cluster(name)
            if held := holding(cluster):
                raise ConflictNode(_in_use(name, held))
            _record(who, "cluster removed", cluster, ip, {"endpoint": cluster.endpoint})
            cluster.delete()
    except (ProtectedError, IntegrityError):  # a task was placed on it this very moment
        raise ConflictNode(_in_use(name, 1)) from None
    keys.forget(cluster.tls_dir)


def find_cluster(name: str) -> Cluster:
    """The cluster, or NoNode (404)."""
    try:
        return Cluster.objects.get(name=name)
    except (Cluster.DoesNotExist, ValueError):  # ValueError: PostgreSQL takes no NUL
        raise NoNode(f"Node {name} is not found.") from None


def holding(cluster: Cluster) -> int:
    """How many tasks hold something on its nodes."""
    return Allocation.objects.filter(node__cluster=cluster).count()


def refuse_known_name(name: str) -> None:
    if Cluster.objects.filter(name=name).exists() or Node.objects.filter(Q(name=name)).exists():
        raise ConflictNode(f"A node or a cluster with the name {name} exists already.")


def files_of(text: str | None) -> dict[str, str]:
    """{file: content} of a cluster's folder of keys: of a kubeconfig the way into the cluster, and nothing else of it.
    BadRequest when it has none, or more than that."""
    if text is None:
        return {}
    try:
        return {kubeconfig.NAME: yaml.safe_dump(kubeconfig.read(text))}
    except ValueError as error:
        raise BadRequest(f"The kubeconfig {error}.") from None


def ask(endpoint: str, tls_dir: str, selector: dict[str, str], network: str) -> Asked:
    """What the cluster says. BadRequest with everything that it lacks, or why it cannot be asked."""
    try:
        return within(PATIENCE, lambda: _ask(endpoint, tls_dir, selector, network))
    except TimeoutError:
        raise BadRequest(f"The cluster does not answer within {PATIENCE:g} s.") from None
    except RuntimeFault as fault:
        raise BadRequest(fault.sentence) from None


@contextmanager
def tried_keys(text: str | None) -> Iterator[str]:
    """A folder with the keys, for as long as the block lasts; "" without a kubeconfig."""
    files = files_of(text)
    if not files:
        yield ""
        return
    folder = Path(tempfile.mkdtemp(prefix="longshore-cluster-"))
    try:
        keys.write_files(folder, files)
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ask(endpoint: str, tls_dir: str, selector: dict[str, str], network: str) -> Asked:
    inventory = engines.inventory_at(endpoint, tls_dir)
    fitness = inventory.fitness(network)
    if fitness.lacks:
        raise BadRequest(" ".join(fitness.lacks))
    found = inventory.inventory(selector, str(settings.INSTANCE))
    if not found.hosts:
        which = " with these labels" if selector else ""
        raise BadRequest(f"The cluster has no node{which}.")
    return Asked(fitness, found)


def _create(cluster: Cluster, inventory: Inventory, who: str, ip: str | None) -> None:
    try:
        with transaction.atomic():
            take_turns(Node)
            refuse_known_name(cluster.name)
            cluster.save(force_insert=True)
            joined, _ = take_over(cluster, inventory, timezone.now())
            data = {"endpoint": cluster.endpoint, "version": inventory.version, "nodes": len(joined)}
            _record(who, "cluster registered", cluster, ip, data)
    except IntegrityError:
        raise ConflictNode(f"A node or a cluster with the name {cluster.name} exists already.") from None


def _record(who: str, action: str, cluster: Cluster, ip: str | None, data: dict[str, object]) -> None:
    audit.record(who, action, cluster.name, ip, data)
    wake.notify("scheduler")
    wake.notify("pages")


def _in_use(name: str, count: int) -> str:
    tasks = "1 task runs" if count == 1 else f"{count} tasks run"
    return f"{tasks} on nodes of {name}. Stop their jobs or wait until they end, then try again."
