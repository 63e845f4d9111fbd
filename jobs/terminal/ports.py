"""Finds the port of a task that somebody reaches from their own machine. Called in threads."""

from __future__ import annotations

from base.accounts import audit
from base.accounts.viewer import Viewer
from base.core.errors import NodeUnreachable, NotFound
from clusters.models import Node
from jobs.models import Task
from jobs.terminal import place
from jobs.web_pages.visits import Target


def find_port(viewer: Viewer, username: str, name: str, role: str, index: int, port: str) -> tuple[Task, Target]:
    """``port`` is the label of one that the task was given, or its number: others may be of somebody else on its node.
    Raises as ``place.find``, NotFound for one that it was not given."""
    task = place.find(viewer, username, name, role, index)
    numbers = task.ports.get(port) or [each for given in task.ports.values() for each in given if str(each) == port]
    if not numbers:
        has = ", ".join(f"{label} ({', '.join(map(str, given))})" for label, given in sorted(task.ports.items()))
        raise NotFound(
            f"{task.label} was given no port {port}. It has: {has or 'none'}. The portList of its role adds one."
        )
    node = Node.objects.filter(name=task.node).first()
    if node is None:
        raise NodeUnreachable(f"Node {task.node} is not registered any more.")
    address = task.address or node.address
    return task, Target(task.pk, node.endpoint, node.tls_dir, address, int(numbers[0]), False, task.container_name)


def record_entry(viewer: Viewer, task: Task, port: str, ip: str | None) -> None:
    """Of who reaches a port of somebody else's job."""
    if viewer.username != task.job.username:
        where = f"{task.job.username}/{task.job.name} {task.label} {port}"[:200]
        audit.record(viewer.username, "port opened", where, ip=ip, way="tunnel")
