"""Shows what draining a node would do before it is drained, and how far it is afterwards.

Where its jobs would go is asked of the same room that the planner places gangs in: with this node not offered, and with
what these jobs hold elsewhere given back, because a gang that loses a task begins anew as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from clusters.models import Node
from clusters.nodes import services
from clusters.nodes.pages import line_of
from clusters.nodes.queries import load_nodes
from clusters.placement.blockers import blockers, never_fits
from clusters.placement.fit import Demand, NodeView
from clusters.placement.room import Room
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.models import Job, Task
from jobs.pages.nodes.node import RunningTask, running_on
from jobs.pages.rows import Named
from jobs.planning.lifecycle import TASK_LIVE
from portal.accounts.viewer import Viewer
from portal.core import words

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
    tasks: tuple[RunningTask, ...]
    elsewhere: int
    goes: tuple[str, ...] = ()
    why: str = ""

    @property
    def gpus(self) -> str:
        ids = [gpu for task in self.tasks for gpu in task.gpu_ids]
        return f"GPU {words.ranges(ids)}" if ids else "no GPU"


def drain_page(name: str, viewer: Viewer) -> dict[str, Any]:
    """The context of jobs/drain.html. Seven queries, however much runs there. Raises NoNode."""
    node = services.find_node(name)
    line = line_of(node)
    tasks = running_on(name, viewer)
    affected = affected_by(name, tasks)
    return {
        "nav": "nodes",
        "node": node,
        "line": line,
        "affected": affected,
        "waiting": sum(not one.goes for one in affected),
        "tasks": tasks,
        "is_draining": node.status == Node.Status.DRAINING,
        "is_empty": not tasks,
        "was": "active" if node.status == Node.Status.ACTIVE else str(node.status),
    }


def affected_by(name: str, tasks: Sequence[RunningTask]) -> list[Affected]:
    """The jobs of these tasks, in the order in which they would be placed again."""
    ids = sorted({task.job_id for task in tasks})[:MOST_JOBS]
    if not ids:
        return []
    jobs = {job.pk: job for job in Job.objects.filter(id__in=ids).only("username", "name", "vc", "spec")}
    shapes = {id: _shape(job) for id, job in jobs.items()}
    held = list(Task.objects.filter(job__in=ids, state__in=TASK_LIVE).exclude(node=""))
    views = without(name, load_nodes(), held, shapes)
    room, left, found = Room(views), views, []
    for id, job in sorted(jobs.items()):
        places = room.place(shapes[id], id, vc=job.vc) if shapes[id] else None
        here = tuple(task for task in tasks if task.job_id == id)
        others = sum(task.job_id == id and task.node != name for task in held)
        one = Affected(job.username, job.name, here, others)
        if places is not None:
            found.append(replace(one, goes=tuple(dict.fromkeys(place.node for place in places))))
        else:
            found.append(replace(one, why=_why(left, shapes[id])))
    return found


def without(
    name: str, views: Sequence[NodeView], held: Sequence[Task], shapes: dict[int, tuple[Demand, ...]]
) -> list[NodeView]:
    """The nodes with ``name`` not offered, and without what the tasks ``held`` hold."""
    sizes = {(id, one.role, one.index): one for id, shape in shapes.items() for one in shape}
    left = {view.name: view for view in views}
    if name in left:
        left[name] = replace(left[name], offered=False, why_not="draining")
    for task in held:
        size, view = sizes.get((task.job_id, task.role, task.index)), left.get(task.node)
        if size is not None and view is not None:
            left[task.node] = replace(
                view,
                used_cpus=view.used_cpus - size.cpus,
                used_memory_mb=view.used_memory_mb - size.memory_mb,
                used_gpus=view.used_gpus.difference(map(str, task.gpu_ids)),
                used_ports=view.used_ports.difference(*task.ports.values()),
            )
    return list(left.values())


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
    found = [never] if never else blockers(nodes, shape)
    return found[0].sentence if found else "No way was found to put all its tasks on the other nodes."
