"""Follows the nodes of every Kubernetes cluster, by one thread and one stream each: a list at once, then again when the
stream tells of a change, and every half a minute anyway. The list is the truth, as with containers.

What a list says goes into the rows of nodes at once, under the lease of the scheduler that acts. The scheduler's passes
ask here which nodes their cluster does not hear of: what runs on such a node may go on running.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from base.accounts import audit
from base.core import clock
from base.core.threads import KeptThread
from base.wakes import wake
from base.wakes.lease import Fenced, Lease
from clusters.engines import schemes
from clusters.engines.inventory import Inventoried, Inventory, name_of
from clusters.engines.runtime import Look, RuntimeFault
from clusters.models import Cluster, Node
from clusters.nodes.kubernetes.rows import LEFT, take_over

LIST_EVERY = 30.0  # seconds between two lists without news
LEAST_PAUSE = 1.0  # seconds between two lists however much news there is
RETRY_EVERY = 5.0  # seconds after a list that failed
LONGEST = 300.0  # seconds of one step: a list of a large cluster takes its time
ACTOR = "scheduler"  # who adds and removes nodes that joined or left their cluster, in the audit log

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SilentNode:
    """A node that its cluster does not hear of, since when on the steady clock, and the sentence about it."""

    since: datetime
    reason: str


class Clusters:
    """The clusters that are followed, from the first ``keep_up`` to ``stop``. ``changed`` is called when passes have
    something new to read."""

    def __init__(self, lease: Lease, changed: Callable[[], None]) -> None:
        self._lease = lease
        self._changed = changed
        self._followed: dict[tuple[int, str, str, str], ClusterFollower] = {}

    def keep_up(self) -> None:
        """Follow exactly the clusters that are registered. One query."""
        registered = {_key(cluster): cluster for cluster in Cluster.objects.all()}
        for key in self._followed.keys() - registered.keys():
            self._followed.pop(key).thread.stop()
        for key, cluster in registered.items():
            if key not in self._followed:
                self._followed[key] = ClusterFollower(cluster, self._lease, self._changed)
            self._followed[key].thread.ensure_running()

    def heard(self, looks: Mapping[str, Look]) -> Mapping[str, Look]:
        """The same looks, but those at nodes that their cluster does not hear of have no answer."""
        silent = {name: one for follower in self._followed.values() for name, one in follower.silent.items()}
        if not silent:
            return looks
        return {name: _silenced(look, silent[name]) if name in silent else look for name, look in looks.items()}

    def are_known(self) -> bool:
        """Whether every cluster was asked at least once."""
        return all(follower.was_asked for follower in self._followed.values())

    def threads(self) -> list[KeptThread]:
        return [follower.thread for follower in self._followed.values()]

    def stop(self) -> None:
        for follower in self._followed.values():
            follower.thread.stop()
        self._followed = {}


@dataclass
class ClusterFollower:
    """Follows one cluster."""

    cluster: Cluster
    lease: Lease
    changed: Callable[[], None]
    silent: Mapping[str, SilentNode] = field(default_factory=dict)  # by node; another mapping after each list

    was_asked: bool = False

    def __post_init__(self) -> None:
        self.thread = KeptThread(f"cluster-{self.cluster.name}", self.step, longest=LONGEST)
        self._inventory: Inventoried | None = None
        self._written: Inventory | None = None
        self._told = ""  # the last reason why it could not be asked

    def step(self) -> None:
        """Ask for one list, take it, and wait for what follows it."""
        began = time.monotonic()
        try:
            self._inventory = self._inventory or schemes.inventory_at(self.cluster.endpoint, self.cluster.tls_dir)
            self.take(self._inventory.inventory(self.cluster.selector, str(settings.INSTANCE)))
            self._inventory.wait_change(max(1.0, LIST_EVERY - (time.monotonic() - began)))
            time.sleep(max(0.0, LEAST_PAUSE - (time.monotonic() - began)))
        except RuntimeFault as fault:
            self._silent(fault.sentence)
            time.sleep(RETRY_EVERY)
        except Fenced:  # another scheduler acts now, and this one ends its threads in a moment
            time.sleep(LEAST_PAUSE)

    def take(self, inventory: Inventory) -> None:
        """Write down what a list says, where it says anything new."""
        now = timezone.now()
        self.silent, self.was_asked = self._silences(inventory, now), True
        with self.lease.writing():
            if inventory == self._written:
                Cluster.objects.filter(pk=self.cluster.pk).update(last_seen_at=now, silent_reason="")
                return
            registered = Cluster.objects.filter(pk=self.cluster.pk).first()
            if registered is None or _key(registered) != _key(self.cluster):  # removed, or changed, this moment
                return
            taken = take_over(self.cluster, inventory, now)
            for action, names in (("node joined", taken.joined), ("node left", taken.left)):
                for name in names:
                    audit.record(ACTOR, action, name, {"cluster": self.cluster.name})
        # While a node stays only for what it holds, the next list has to look again.
        self._written = None if taken.stays else inventory
        self._told = ""
        self.changed()
        wake.notify("pages")

    def _silences(self, inventory: Inventory, now: datetime) -> dict[str, SilentNode]:
        rows = Node.objects.filter(cluster=self.cluster).values_list("name", "host", "unreachable_since")
        since = {name: now - at if at else timedelta() for name, _, at in rows}
        reasons = {name_of(self.cluster.name, host.name): _UNHEARD for host in inventory.hosts if host.silent}
        here = {host.name for host in inventory.hosts}
        reasons |= {name: LEFT for name, host, _ in rows if host not in here}
        return {
            name: self.silent.get(name)
            or SilentNode(clock.monotonic_now() - max(timedelta(), since.get(name, timedelta())), why)
            for name, why in reasons.items()
        }

    def _silent(self, reason: str) -> None:
        self.was_asked = True
        if reason == self._told:
            return
        log.warning("a cluster cannot be asked for its nodes", cluster=self.cluster.name, reason=reason)
        with self.lease.writing():
            Cluster.objects.filter(pk=self.cluster.pk).update(silent_reason=reason)
        self._told, self._written = reason, None
        wake.notify("pages")


_UNHEARD = "Its Kubernetes cluster does not hear of it. What runs there may go on running."


def _silenced(look: Look, silence: SilentNode) -> Look:
    if not look.reachable:
        return look
    return replace(look, reachable=False, silent=True, since=silence.since, reason=silence.reason)


def _key(cluster: Cluster) -> tuple[int, str, str, str]:
    return cluster.pk, cluster.endpoint, cluster.tls_dir, repr(sorted(cluster.selector.items()))
