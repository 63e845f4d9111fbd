"""Shows what draining a node would do before it is drained, and how far it is afterwards.

Where its jobs would go is asked of the same room that the planner places gangs in: with this node not offered, and with
what these jobs hold elsewhere given back, because a gang that loses a task begins anew as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from clusters.models import Node
from clusters.nodes import services
from clusters.nodes.queries import take_stock
from clusters.placement.blockers import blockers
from clusters.placement.fit import Demand, NodeView, in_force
from clusters.placement.free import FreeNodes
from clusters.placement.never import never_fits
from clusters.placement.shares import nodes_without, wanted
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.models import Job, Task
from jobs.planning.lifecycle import TASK_LIVE_STATES
from jobs.scheduling.load import named_gpus
from portal.nodes.node import NodeTask, running_on
from portal.nodes.rows import line_of
from portal.shared.jobs.rows import Named

DONE = {
    "draining": "{name} drains.",
    "cordoned": "{name} gets nothing new; what runs there goes on.",
    "active": "{name} is offered again.",
}
MOST_JOBS = 200
UNREADABLE = "Its config cannot be read any more."


@dataclass(frozen=True, slots=True)
class Affected(Named):
    """A job with tasks on the node. ``goes``: the nodes that could take all of it now; empty: it would wait because of
    ``why``. ``elsewhere``: its tasks on other nodes, which stop too."""

    username: str
    name: str
    tasks: tuple[NodeTask, ...]
    elsewhere: int
    goes: tuple[str, ...]
    why: str

    @property
    def gpus(self) -> str:
        ids = [gpu for task in self.tasks for gpu in task.gpu_ids]
        return f"GPU {words.ranges(ids)}" if ids else "no GPU"


def drain_page(name: str, viewer: Viewer) -> dict[str, Any]:
    """The context of nodes/drain.html. Seven queries, however much runs there, and one
    more where nodes have several types of GPUs. Raises NoNode."""
    node = services.find_node(name)
    line = line_of(node)
    tasks = running_on(name, viewer)
    affected = affected_by(name, tasks)
    return {
        "nav": "nodes",
        "node": node,
        "line": line,
        "affected": affected,
        "waiting": sum(not job.goes for job in affected),
        "tasks": tasks,
        "kept": sum(task.is_kept for task in tasks),
        "is_draining": node.status == Node.Status.DRAINING,
        "is_empty": not tasks,
        "is_cordoned": node.status == Node.Status.CORDONED,
    }


def affected_by(name: str, tasks: Sequence[NodeTask]) -> list[Affected]:
    """The jobs of these tasks, in the order in which they would be placed again."""
    ids = sorted({task.job_id for task in tasks})[:MOST_JOBS]
    if not ids:
        return []
    jobs = {job.pk: job for job in Job.objects.filter(id__in=ids).only("username", "name", "vc", "spec")}
    shapes = {id: _shape(job) for id, job in jobs.items()}
    held = list(Task.objects.filter(job__in=ids, state__in=TASK_LIVE_STATES).exclude(node=""))
    stock = take_stock()
    views, holds = in_force(stock.nodes, timezone.now()), stock.holds
    views = nodes_without(views, [holds[str(task.pk)] for task in held if str(task.pk) in holds])
    left = [replace(view, offered=False, why_not="draining") if view.name == name else view for view in views]
    free, affected = FreeNodes(left, wanted=wanted(left, named_gpus(left))), []
    for id, job in sorted(jobs.items()):
        places = free.place(shapes[id], id, vc=job.vc) if shapes[id] else None
        goes = tuple(dict.fromkeys(place.node for place in places or ()))
        here = tuple(task for task in tasks if task.job_id == id)
        others = sum(task.job_id == id and task.node != name for task in held)
        why = "" if goes else _why(left, shapes[id])
        affected.append(Affected(job.username, job.name, here, others, goes, why))
    return affected


def _shape(job: Job) -> tuple[Demand, ...]:
    """Empty for a job whose spec cannot be read any more: it is parked, and the page is about the others too."""
    try:
        return demands(JobSpec.from_json(job.spec))
    except ValueError:
        return ()


def _why(nodes: Sequence[NodeView], shape: tuple[Demand, ...]) -> str:
    if not shape:
        return UNREADABLE
    never = never_fits([node for node in nodes if node.offered], shape)
    reasons = [never] if never else blockers(nodes, shape)
    return reasons[0].sentence if reasons else "No way was found to put all its tasks on the other nodes."
