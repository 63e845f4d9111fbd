"""The scheduler process: watch, load, plan, apply; the only writer of states.

``Scheduler.tick`` is one pass and is what tests call. ``run`` does nothing but tick when it is woken, when time alone
changes something, and every few seconds to be safe. Whatever a pass raises is logged and the next one tries again.
Any number may run: the lease lets one act, and every write compares its epoch (base/wakes/lease.py).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import structlog
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from base.accounts import expiry
from base.core import clock
from base.core.threads import KeptThread
from base.hosts import predecessor, this_host
from base.wakes import processes, wake
from base.wakes.lease import RENEW, Fenced, Lease
from clusters.engines import schemes
from clusters.engines.runtime import Look
from clusters.engines.watch import Watched, Watchers
from clusters.models import Node
from clusters.nodes import survey
from clusters.nodes.kubernetes.watch import Clusters
from clusters.placement.pace import NO_PACES, Pace
from jobs.containers import discard, publish
from jobs.history import holdings
from jobs.models import Event
from jobs.planning.live import Standing
from jobs.planning.planner import plan
from jobs.planning.queue.unchanged import INTERVAL, UnchangedTurns, hold_for
from jobs.scheduling import invariants, orders, remembered
from jobs.scheduling.apply import apply
from jobs.scheduling.garbage import Garbage
from jobs.scheduling.health import NodeHealth
from jobs.scheduling.load import WorldLoader

log = structlog.get_logger()

SAFETY_POLL = 5.0  # seconds: a lost wake-up costs no more
ROUTINE_EVERY = 15.0  # seconds
IMAGES_EVERY = 5.0  # seconds at least between two orders to list images: an engine may get many in a row
FORECAST_EVERY, FORECAST_STILL = 60.0, 300.0  # the second where all that the turns go by is as it was
FIRST_LOOKS = 5.0  # seconds a new scheduler waits for the first look at every node
CLOSE = 0.05  # seconds: after a pass that was wanted sooner than this after the last one, the next comes as much later
KEEP_EVERY = 1.0  # seconds between two looks at the threads of the watchers
BLIND = 3.0  # seconds for which a scheduler that reaches no node at all keeps the lease, where there are other hosts
STEP_BACK = 30.0  # seconds for which it leaves the lease to others then
TURN_EVERY = 0.25  # seconds between two tries to take the lease


class Scheduler:
    def __init__(self, lease: Lease | None = None) -> None:
        self.lease = lease or Lease("scheduler")
        self.woken = threading.Event()
        self.watch = Watchers(self.woken.set)
        self.clusters = Clusters(self.lease, self.woken.set)
        self.invariants = invariants.Checker()
        self._loader = WorldLoader()
        self._strangers: dict[tuple[str, str], datetime] = {}
        self._health = NodeHealth(self.lease)
        self._nodes: list[Node] = []  # that are watched
        self._kept_at = 0.0  # monotonic
        self._unchanged: UnchangedTurns | None = None
        self._hold = INTERVAL  # of turns in which no job could start
        self._forecast: tuple[object, ...] = ()  # what the turns went by when forecasts were last asked for
        self._standing: Standing | None = None
        self._paces: Mapping[str, Pace] = NO_PACES
        self._stopped = False
        self.restraint = predecessor.Restraint()
        self.again_at: datetime | None = None  # on the steady clock
        self._routine_at = self._images_at = self._expiry_at = 0.0  # monotonic
        self._forecast_at = self._forecast_still_at = 0.0  # monotonic
        self._garbage = Garbage()
        self._wake_thread: KeptThread | None = None
        self._sees_at = self._back_at = 0.0  # monotonic: when any node was reached; when it may take the lease again

    def tick(self, looks: Mapping[str, Look] | None = None) -> int:
        """Do one pass, and return how many jobs changed. Without ``looks`` it takes the last ones of the watchers.
        Raises Fenced, with nothing written, when another scheduler acts now."""
        now, steady = timezone.now(), clock.monotonic_now()
        nodes = self._watch_registered()
        looks = self.clusters.heard(self.watch.looks()) if looks is None else looks
        is_changed = self._health.write(nodes, looks, self.watch.blind(), now, self._loader.unseen)
        if self.restraint.lasts():
            self.again_at = None
            return 0
        self._loader.writes(now, steady)
        world = self._loader.world(steady, looks, self._strangers, again=is_changed)
        standing, self._standing = self._standing or Standing(), None  # of a pass that fails nothing is kept
        began = time.thread_time()
        made = plan(world, self._unchanged, self._paces, standing, self._hold)
        if made.unchanged is not self._unchanged:
            self._hold = hold_for(time.thread_time() - began)
        self._unchanged, self._paces, self._standing = made.unchanged, made.paces, standing
        changed = apply(made, now, self.lease)
        if made.idlings is not None:
            self._loader.idles(made.idlings)
        self._note_strangers(made.strangers, now)
        self.watch.look_again(made.look)
        self.again_at = steady if made.more or made.purge or (changed and made.goes_on) else made.again_at
        self._garbage.after_pass()
        return changed

    def run(self) -> None:
        """Wait for the lease, act while this process has it, and wait again, until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        self._garbage.begin()
        schemes.load()  # who waits for the lease has all that it needs then
        self._wake_thread = KeptThread("wake", self._listener(), longest=4 * SAFETY_POLL)
        while not self._stopped:
            try:
                self._wake_thread.ensure_running()
                processes.record_process("scheduler")
                if time.monotonic() >= self._back_at and (self.lease.epoch is not None or self.lease.try_take()):
                    self._run_as_leader()
            except Fenced as fenced:
                log.warning("another scheduler acts now", reason=str(fenced))
                self._forget()
            except DatabaseError:
                log.exception("the database does not answer")
                close_old_connections()
            self._pause(TURN_EVERY)
        self._stop_watching()
        self._give_back()
        processes.forget_process("scheduler")

    def stop(self) -> None:
        self._stopped = True
        self.woken.set()

    def _run_as_leader(self) -> None:
        """Do passes until the process ends. Raises Fenced when another scheduler has the lease."""
        log.info("this scheduler acts", epoch=self.lease.epoch)
        self.restraint.learn()
        self._loader.learn()
        self._garbage.freeze()
        self._await_first_looks()
        failures, ready, self._sees_at = 0, 0.0, time.monotonic()
        while not self._stopped:
            began = time.monotonic()
            self.woken.clear()
            try:
                self._beat()
                self.tick()
                self._give_way()
                self._do_routine()
                failures = 0
            except Fenced:
                raise
            except Exception:
                failures += 1
                log.exception("the pass failed and is tried again", failures=failures)
                close_old_connections()
                self.woken.wait(min(10.0, 0.2 * 2 ** min(failures, 8)))
                continue
            if began - ready < CLOSE:  # what comes meanwhile shares the next pass
                self._pause(CLOSE)
            ready = time.monotonic()
            self._rest()

    def _rest(self) -> None:
        """Wait until somebody wakes this process or something is due. The lease is renewed meanwhile."""
        end = time.monotonic() + self._patience()
        while (left := end - time.monotonic()) > 0 and not self.woken.wait(min(left, RENEW.total_seconds())):
            self._renew()

    def _renew(self) -> None:
        """A database that is away is a matter of the next pass."""
        try:
            with self._loader.unseen():
                self.lease.renew()
        except DatabaseError:
            self.woken.set()

    def _give_way(self) -> None:
        """Leave the lease to another host when this one reaches no node at all: perhaps it is cut off, and would take
        all of them for lost. Raises Fenced."""
        now = time.monotonic()
        if not self._nodes or any(look.reachable for look in self.watch.looks().values()):
            self._sees_at = now
        elif now - self._sees_at > BLIND and this_host.others():
            self.lease.give_back()
            self._back_at = now + STEP_BACK
            raise Fenced("This host reaches no node; another one may.")

    def _forget(self) -> None:
        """Drop what was seen and read while this process had the lease: it grows old while another one acts."""
        self._stop_watching()
        self._loader, self._strangers, self._health = WorldLoader(), {}, NodeHealth(self.lease)
        self._nodes, self._unchanged, self._standing, self._paces = [], None, None, NO_PACES

    def _stop_watching(self) -> None:
        self.watch.stop()
        self.clusters.stop()

    def _give_back(self) -> None:
        try:
            self.lease.give_back()
        except DatabaseError:
            log.warning("the lease was not given back: the next scheduler waits until it lapses")

    def _pause(self, seconds: float) -> None:
        if not self._stopped:
            time.sleep(seconds)

    def _beat(self) -> None:
        """Renew the lease and report how all parts of this process are. Threads that have died begin again."""
        if self._wake_thread is not None:
            self._wake_thread.ensure_running()
        with self._loader.unseen():
            if not processes.is_due("scheduler"):
                self.lease.renew()
                return
            with self.lease.writing():
                processes.record_process("scheduler")
                processes.record_heartbeat("scheduler", self._report())

    def _report(self) -> processes.Report:
        threads = [*filter(None, [self._wake_thread]), *self.watch.threads(), *self.clusters.threads()]
        return processes.Report(
            threads=len(threads),
            late_threads=sorted(thread.name for thread in threads if thread.is_late()),
            oldest_look=self.watch.oldest(),
            old_looks=self.watch.blind(),
            healed=self.invariants.healed,
            broken=self.invariants.broken,
        )

    def _do_routine(self) -> None:
        """Do what is due from time to time."""
        if self.restraint.is_on:
            return
        if time.monotonic() >= self._routine_at:
            self._routine_at = time.monotonic() + ROUTINE_EVERY
            with self.lease.writing():
                publish.order_due()
                discard.order_due()
                survey.order_due(timezone.now())
                orders.ask_for_diagnoses(timezone.now())
            self.invariants.check_if_due(self.lease, timezone.now(), self._loader.seen)
            self.clusters.keep_up()
        if time.monotonic() >= self._images_at and (nodes := self.watch.new_images()):
            self._images_at = time.monotonic() + IMAGES_EVERY
            with self.lease.writing():
                survey.order([(name, False) for name in nodes])
        if time.monotonic() >= self._forecast_at:
            self._forecast_at = time.monotonic() + FORECAST_EVERY
            self._ask_for_forecasts()
        if time.monotonic() >= self._expiry_at:
            self._expiry_at = time.monotonic() + expiry.EVERY
            expiry.clean_up(timezone.now())
            with self.lease.writing():
                orders.ask_to_expire_logs()
                orders.ask_to_clean_up_uploads()
            holdings.purge(timezone.now())
            remembered.forget_rests(timezone.now())
        self._garbage.look_if_due()

    def _ask_for_forecasts(self) -> None:
        """Forecasts of turns that go by what those of the last ones went by only move with the clock."""
        basis = self._unchanged.basis if self._unchanged is not None else ()
        if basis and basis == self._forecast and time.monotonic() < self._forecast_still_at:
            return
        self._forecast, self._forecast_still_at = basis, time.monotonic() + FORECAST_STILL
        with self.lease.writing():
            orders.ask_for_forecasts()

    def _patience(self) -> float:
        if self.again_at is None:
            return SAFETY_POLL
        return max(0.0, min(SAFETY_POLL, (self.again_at - clock.monotonic_now()).total_seconds()))

    def _listener(self) -> Callable[[], None]:
        """A function that waits once for a wake-up by another process. The thread that calls it makes the socket."""
        listener: list[wake.Listener] = []

        def listen() -> None:
            if not listener:
                listener.append(wake.Listener("scheduler"))
                self.woken.set()  # a wake-up may have been sent before
            if listener[0].wait(SAFETY_POLL):
                self.woken.set()

        return listen

    def _note_strangers(self, seen: dict[tuple[str, str], datetime], now: datetime) -> None:
        """Write an Event, once, of each container that has our label and belongs to no task."""
        new = seen.keys() - self._strangers.keys()
        if new:
            with self.lease.writing():
                for node, container in new:
                    reason = f"A container nobody asked for is on node {node}. It is removed after a while."
                    told = {"reason": reason, "data": {"container": container}}
                    Event.objects.create(at=now, kind="container.stranger", node=node, **told)
        self._strangers = seen

    def _watch_registered(self) -> list[Node]:
        """The registered nodes, all of which are watched: at once when one of them has changed, and by threads that
        work, which need not be asked in each of many passes a second."""
        nodes = self._loader.registered()
        if nodes is not self._nodes or time.monotonic() - self._kept_at >= KEEP_EVERY:
            self.watch.keep_up({node.name: _watched(node) for node in nodes})
            self._nodes, self._kept_at = nodes, time.monotonic()
        return nodes

    def _await_first_looks(self) -> None:
        """Wait until every node was looked at: a pass that knows half of them would let small jobs overtake a large
        one."""
        deadline = time.monotonic() + FIRST_LOOKS
        self.clusters.keep_up()
        while not self._stopped and time.monotonic() < deadline:
            nodes = self._watch_registered()
            looks = self.watch.looks()
            seen = all(node.name in looks or node.health == Node.Health.UNREACHABLE for node in nodes)
            if seen and self.clusters.are_known():
                return
            self.woken.wait(0.1)
            self.woken.clear()


def _watched(node: Node) -> Watched:
    since = node.unreachable_since
    silent = max(timedelta(), timezone.now() - since) if since is not None else None
    return Watched(node.endpoint, node.tls_dir, silent)
