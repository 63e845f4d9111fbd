"""Finds out more about a node than its watcher sees: which images it has, how full its disk is, whether it has
the sample image and, by a trial, whether it does what it promises.

A node is surveyed when it is registered or back again, when its engine tells of new images, and every few minutes: by
the process that registers it and by workers, never in a pass of the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import structlog
from django.db.models import Q
from django.utils import timezone
from django_q.tasks import async_task

from clusters.engines import schemes
from clusters.engines.image_names import is_snapshot
from clusters.engines.runtime import Engine, RuntimeFault
from clusters.engines.sample_image import ensure_sample_image
from clusters.models import Node
from clusters.nodes import refusals, snapshots, trial

EVERY = timedelta(minutes=5)
DISK_EVERY = timedelta(minutes=30)
PATIENCE = 30.0  # seconds that a survey may take while somebody registers the node
_trials: dict[str, Collection[str]] = {}  # containers of trials that the last survey of this process saw, by node
log = structlog.get_logger()


def order_due(now: datetime) -> None:
    """Order the surveys that are due, for the scheduler. A node that is away is due as soon as it is back."""
    away = Q(health=Node.Health.UNREACHABLE, surveyed_at__isnull=False)
    due = Q(health=Node.Health.READY) & (
        Q(surveyed_at=None) | Q(surveyed_at__lt=now - EVERY) | Q(surveyed_at__gt=now + EVERY)  # the clock was set back
    )
    asked = Node.objects.filter(cluster=None)  # a cluster says by itself which images its nodes have
    nodes = list(asked.filter(away | due).order_by("name").values_list("name", "health", "surveyed_at"))
    gone = [name for name, health, _ in nodes if health == Node.Health.UNREACHABLE]
    here = [(name, at is None) for name, health, at in nodes if health == Node.Health.READY]
    if gone:
        Node.objects.filter(name__in=gone).update(surveyed_at=None)
    if here:
        Node.objects.filter(name__in=[name for name, _ in here]).update(surveyed_at=now)
        order(here)


def order(nodes: Sequence[tuple[str, bool]]) -> None:
    """Order the survey of nodes, each (node, thorough)."""
    async_task("jobs.containers.tasks.survey", nodes)


def survey(name: str, *, thorough: bool) -> None:
    """Survey one node. ``thorough``: with a trial, which also happens while marks of the last trial are in force."""
    node = Node.objects.filter(name=name).first()
    if node is None:
        return
    with_trial = thorough or any(mark.get("since") and not mark["until"] for mark in node.marks.values())
    if with_trial:
        trial.await_portal()
    try:
        images, marks = look_into(node, schemes.runtime_for(node), with_trial=with_trial)
    except RuntimeFault as fault:
        log.info("a node was not surveyed", node=name, reason=fault.sentence)
        return
    keep(node, images, marks)
    with suppress(RuntimeFault):  # remove trials that were killed: what two surveys of this process have seen
        _trials[node.name] = trial.left_behind(schemes.runtime_for(node), _trials.get(node.name, ()))
    snapshots.clean_up(node)
    _keep_disk(node)


def keep(node: Node, images: frozenset[str], marks: dict[str, str]) -> None:
    if node.images_at is None or images != set(node.images):
        refusals.write_images(node.name, images)
    if marks:
        refusals.learnt(node.name, marks)


def look_into(node: Node, engine: Engine, *, with_trial: bool) -> tuple[frozenset[str], dict[str, str]]:
    """Give the images (the sample image among them, if it can be put there) and what ``trial.try_out`` returns. Raises
    RuntimeFault."""
    has_sample = True
    try:
        ensure_sample_image(engine)
    except RuntimeFault as fault:
        log.warning("the sample image could not be put on a node", node=node.name, reason=fault.sentence)
        has_sample = False
    marks = trial.try_out(node, engine) if with_trial and has_sample else {}
    return frozenset(image for image in engine.image_names() if not is_snapshot(image)), marks


def _keep_disk(node: Node) -> None:
    """Ask for the use of its disk now and then: an engine may have to add up many files."""
    now = int(timezone.now().timestamp() * 1000)
    if 0 <= now - int(node.disk.get("at", 0)) < DISK_EVERY / timedelta(milliseconds=1):
        return
    try:
        disk = schemes.runtime_for(node).disk_use()
    except RuntimeFault as fault:
        log.info("the use of a node's disk is not known", node=node.name, reason=fault.sentence)
        return
    Node.objects.filter(pk=node.pk).update(disk={"used": disk.used, "total": disk.total, "at": now})
