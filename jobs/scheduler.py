"""The scheduler process: watch, load, plan, apply; the only writer of states.

``Scheduler.tick`` is one pass and is what tests call. ``run`` does nothing but tick when it is woken, when time alone
changes something, and every few seconds to be safe. Whatever a pass raises is logged and the next one tries again.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

from clusters.models import Node
from clusters.watch import Look, Watch
from jobs import discard, hold, publish
from jobs.apply import apply
from jobs.load import Loader
from jobs.models import Event
from jobs.planner import plan
from jobs.world import Observation
from portal import expiry, health, wake
from portal.bulk import update_rows

log = structlog.get_logger()

SAFETY_POLL = 5.0  # seconds: a lost wake-up costs no more
SEEN_EVERY = timedelta(seconds=15)  # how often a node's last_seen_at is written when nothing else changed
SWEEP_EVERY = 15.0  # seconds
GARBAGE = (50_000, 20, 20)  # for gc: a pass makes many values, all of them short-lived or kept for hours
FIRST_LOOKS = 5.0  # seconds a new scheduler waits for the first look at every node


class Scheduler:
    def __init__(self) -> None:
        self.woken = threading.Event()
        self.watch = Watch(self.woken.set)
        self._loader = Loader()
        self._strangers: dict[tuple[str, str], datetime] = {}
        self._seen: dict[str, datetime] = {}  # node -> when its last_seen_at was written
        self._stopped = False
        self.again_at: datetime | None = None
        self._sweep_at = self._expiry_at = 0.0  # monotonic

    def tick(self, looks: Mapping[str, Look] | None = None, now: datetime | None = None) -> int:
        """One pass; how many jobs changed. Without ``looks`` it takes the watchers' last."""
        now = now or timezone.now()
        nodes = self._watch_registered()
        looks = self.watch.looks() if looks is None else looks
        self._write_health(nodes, looks, now)
        world = self._loader.world(now, {name: _observation(look) for name, look in looks.items()}, self._strangers)
        made = plan(world)
        changed = apply(made, now)
        self._note_strangers(made.strangers, now)
        hold.note(looks, now)
        self.watch.look_again(made.look)
        self.again_at = now if made.more or (changed and made.goes_on) else made.again_at
        return changed

    def run(self) -> None:
        """Until SIGTERM or SIGINT. The lock is the caller's business."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        gc.set_threshold(*GARBAGE)
        threading.Thread(target=self._listen, name="wake", daemon=True).start()
        self._await_first_looks()
        failures = 0
        while not self._stopped:
            self.woken.clear()
            try:
                health.beat("scheduler")
                self.tick()
                self._sweep()
                failures = 0
            except Exception:
                failures += 1
                log.exception("the pass failed and is tried again", failures=failures)
                close_old_connections()
                self.woken.wait(min(10.0, 0.2 * 2**failures))
                continue
            self.woken.wait(self._patience())
        self.watch.stop()

    def _sweep(self) -> None:
        """Work that waits for nothing but its time."""
        if time.monotonic() >= self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_EVERY
            publish.sweep()
            discard.sweep()
        if time.monotonic() >= self._expiry_at:
            self._expiry_at = time.monotonic() + expiry.EVERY
            expiry.sweep(timezone.now())

    def stop(self) -> None:
        self._stopped = True
        self.woken.set()

    def _patience(self) -> float:
        if self.again_at is None:
            return SAFETY_POLL
        return max(0.0, min(SAFETY_POLL, (self.again_at - timezone.now()).total_seconds()))

    def _listen(self) -> None:
        listener = wake.Listener("scheduler")
        while not self._stopped:
            if listener.wait(SAFETY_POLL):
                self.woken.set()

    def _note_strangers(self, seen: dict[tuple[str, str], datetime], now: datetime) -> None:
        """A container with our label that no task knows: said once, when it is first seen."""
        for node, container in seen.keys() - self._strangers.keys():
            reason = f"A container nobody asked for, {container}, is on node {node}. It is removed after a while."
            Event.objects.create(at=now, kind="container.stranger", node=node, reason=reason)
        self._strangers = seen

    def _watch_registered(self) -> list[Node]:
        nodes = self._loader.ledger.registered()
        self.watch.keep_up({node.name: node.unreachable_since for node in nodes})
        return nodes

    def _write_health(self, nodes: list[Node], looks: Mapping[str, Look], now: datetime) -> None:
        """Node rows follow what was seen; a change is an Event."""
        seen: list[tuple[datetime, int]] = []
        for node in nodes:
            look = looks.get(node.name)
            if look is None:
                continue
            healthy = Node.Health.READY if look.reachable else Node.Health.UNREACHABLE
            if node.health != healthy:
                _change_health(node, look, healthy, now)
            last = self._seen.get(node.name)
            if look.reachable and (node.health != healthy or last is None or now - last > SEEN_EVERY):
                seen.append((look.at, node.pk))
                self._seen[node.name] = now
        update_rows(Node, ["last_seen_at"], ["id"], seen)

    def _await_first_looks(self) -> None:
        """A pass that knows only half of the nodes would let small jobs overtake a large one."""
        deadline = time.monotonic() + FIRST_LOOKS
        while not self._stopped and time.monotonic() < deadline:
            try:
                nodes = self._watch_registered()
                if len(self.watch.looks()) == len(nodes):
                    return
            except DatabaseError:
                log.exception("the database does not answer")
                close_old_connections()
            self.woken.wait(0.1)
            self.woken.clear()


def _observation(look: Look) -> Observation:
    return Observation(look.node, look.at, look.reachable, look.containers, look.since)


def _change_health(node: Node, look: Look, after: Node.Health, now: datetime) -> None:
    values = {"health": after, "health_reason": look.reason, "unreachable_since": look.since, "updated_at": now}
    with transaction.atomic():
        Node.objects.filter(pk=node.pk).update(**values)
        Event.objects.create(
            at=now,
            kind="node.ready" if look.reachable else "node.unreachable",
            node=node.name,
            before=node.health,
            after=after,
            reason=look.reason,
        )
        wake.notify("pages")
