"""Writes into the rows of nodes whether they answer, each change with an Event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

from base.core import clock
from base.core.bulk import update_rows
from base.wakes import wake
from base.wakes.lease import Lease
from clusters.engines.runtime import Look
from clusters.engines.watch import unseen
from clusters.models import Node
from jobs.models import Event

SEEN_EVERY = timedelta(seconds=15)  # how often a node's last_seen_at is written when nothing else changed
_NEVER = datetime.min.replace(tzinfo=UTC)
_SLOW = "Its host takes connections, so it answers slowly rather than being lost."


class NodeHealth:
    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._seen: dict[str, datetime] = {}  # node -> when its last_seen_at was written
        self._slow: dict[str, bool] = {}  # node -> whether its last look said that it only answers slowly
        self._healthy: tuple[object, object] = None, ()  # nodes, and looks of which no row had to be written
        self._healthy_at = _NEVER, _NEVER  # from when until when

    def write(
        self,
        nodes: list[Node],
        looks: Mapping[str, Look],
        blind: Mapping[str, float],
        now: datetime,
        unseen_by_passes: Callable[[], AbstractContextManager[None]],
    ) -> bool:
        """Write what these looks say and return whether anything has changed. ``blind``: the seconds for which nodes
        have shown nothing. When nodes were last seen is written in ``unseen_by_passes``: no pass goes by it."""
        told = blind.keys(), {name: (look.reachable, look.slow) for name, look in looks.items()}
        # The list itself: rows of Django are equal where their ids are.
        is_same = nodes is self._healthy[0] and told == self._healthy[1]
        if is_same and self._healthy_at[0] <= now <= self._healthy_at[1]:
            return False
        changed: list[tuple[Node, Look]] = []
        seen: list[tuple[datetime, int]] = []
        for node in nodes:
            look = looks.get(node.name)
            if look is None and node.name in blind:
                look = unseen(node.name, blind[node.name])
            if look is None:
                continue
            is_new = node.health != _health(look) or self._slow.get(node.name, look.slow) != look.slow
            self._slow[node.name] = look.slow
            if is_new:
                changed.append((node, look))
            last = self._seen.get(node.name)
            if look.reachable and (is_new or last is None or not timedelta() <= now - last <= SEEN_EVERY):
                seen.append((now - (clock.monotonic_now() - look.at), node.pk))
                self._seen[node.name] = now
        if changed:
            with self._lease.writing():
                for node, look in changed:
                    _change_health(node, look, now)
        if seen:
            with unseen_by_passes(), self._lease.writing():
                update_rows(Node, ["last_seen_at"], ["id"], seen)
        written = [self._seen[node.name] for node in nodes if node.name in self._seen and node.name in looks]
        self._healthy = (None, ()) if changed else (nodes, told)
        self._healthy_at = max(written, default=now), min(written, default=now) + SEEN_EVERY
        return bool(changed)


def _health(look: Look) -> Node.Health:
    return Node.Health.READY if look.reachable else Node.Health.UNREACHABLE


def _change_health(node: Node, look: Look, now: datetime) -> None:
    """Call inside the transaction."""
    after = _health(look)
    since = now - (clock.monotonic_now() - look.since) if look.since is not None else None
    reason = f"{_SLOW} {look.reason}" if look.slow else look.reason
    values = {"health": after, "health_reason": reason, "unreachable_since": since, "updated_at": now}
    if look.reachable:
        values["gone_at"] = None
    Node.objects.filter(pk=node.pk).update(**values)
    Event.objects.create(
        at=now,
        kind="node.ready" if look.reachable else "node.unreachable",
        node=node.name,
        before=node.health,
        after=after,
        reason=reason,
    )
    wake.notify("pages")
