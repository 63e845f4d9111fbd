"""Getting to know a node beyond what its watcher sees: which images it has, that it has the sample image, and by a
trial whether it does what it promises. Asked when it is registered or back again, and every few minutes; by whoever
registers it and by workers, never by a pass of the scheduler.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.db.models import Q
from django_q.tasks import async_task

from clusters.engines import schemes as engines
from clusters.engines.runtime import Engine, RuntimeFault
from clusters.engines.sample_image import ensure_sample_image
from clusters.models import Node
from clusters.nodes import refusals, trial

EVERY = timedelta(minutes=5)
PATIENCE = 30.0  # seconds that somebody who registers a node waits for it
log = structlog.get_logger()


def sweep(now: datetime) -> None:
    """For the scheduler: orders what is due. A node that is away is due as soon as it is back."""
    away = Q(health=Node.Health.UNREACHABLE, surveyed_at__isnull=False)
    due = Q(health=Node.Health.READY) & (
        Q(surveyed_at=None) | Q(surveyed_at__lt=now - EVERY) | Q(surveyed_at__gt=now + EVERY)  # the clock was set back
    )
    found = list(Node.objects.filter(away | due).order_by("name").values_list("name", "health", "surveyed_at"))
    gone = [name for name, health, _ in found if health == Node.Health.UNREACHABLE]
    here = [(name, at is None) for name, health, at in found if health == Node.Health.READY]
    if gone:
        Node.objects.filter(name__in=gone).update(surveyed_at=None)
    if here:
        Node.objects.filter(name__in=[name for name, _ in here]).update(surveyed_at=now)
        async_task("jobs.containers.tasks.survey", here)


def survey(name: str, *, thorough: bool) -> None:
    """``thorough``: with a trial, which is also made again while the last one's marks last."""
    node = Node.objects.filter(name=name).first()
    if node is None:
        return
    with_trial = thorough or any(not mark["until"] for mark in _set(node))
    if with_trial:
        trial.await_portal()
    try:
        images, found = look_into(node, engines.runtime_for(node), with_trial=with_trial)
    except RuntimeFault as fault:
        log.info("a node was not surveyed", node=name, reason=fault.sentence)
        return
    keep(node, images, found)


def keep(node: Node, images: frozenset[str], found: dict[str, str]) -> None:
    if node.images_at is None or images != set(node.images):
        refusals.write_images(node.name, images)
    if found:
        refusals.learnt(node.name, found)


def look_into(node: trial.Tried, engine: Engine, *, with_trial: bool) -> tuple[frozenset[str], dict[str, str]]:
    """The images, the sample image among them if that can be, and what ``trial.try_out`` says. Raises RuntimeFault."""
    has_sample = True
    try:
        ensure_sample_image(engine)
    except RuntimeFault as fault:
        log.warning("the sample image could not be put on a node", node=node.name, reason=fault.sentence)
        has_sample = False
    found = trial.try_out(node, engine) if with_trial and has_sample else {}
    return engine.image_names(), found


def _set(node: Node) -> list[dict[str, str]]:
    return [entry for entry in node.marks.values() if entry.get("since")]
