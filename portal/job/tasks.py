"""Shows the tasks of one attempt by role, one page at a time when a role has many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from base.core import words
from jobs import queries
from jobs.config.spec import JobSpec, RoleSpec
from jobs.metrics.use import TaskUse, uses
from jobs.models import Attempt, Task
from jobs.planning import exits
from jobs.planning.lifecycle import TaskState

MOST_TASKS = 200  # lines on one page, over all roles
_MOST_PORTS = 4  # ports of one label that are listed one by one


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one label. ``shown``: (text, address for a browser or "")."""

    label: str
    shown: tuple[tuple[str, str], ...]


class TaskLine:
    """One task as a line of the table. What tells the job's details (jobs.access) is there only for those who may read
    it."""

    address = ""
    ports: Sequence[Ports] = ()
    copied = ""  # the address with all ports, a line for each label
    doing = ""  # what the worker does while it starts, or that it is paused
    kept_until: datetime | None = None  # its command failed, and its container is kept for debugging
    code = ""  # "196"; "" while it has not ended
    ended = ""  # "out of memory"
    use: TaskUse | None = None  # what it uses, if that was measured

    def __init__(self, task: Task, use: TaskUse | None, *, with_details: bool) -> None:
        ports = {label: numbers for label, numbers in sorted(task.ports.items()) if numbers}
        self.label, self.state, self.node = task.label, task.state, task.node
        self.port_count = words.count(sum(map(len, ports.values())), "port")
        self.gpus = ", ".join(task.gpus_given or ()) or words.ranges(task.gpu_ids)
        self.bad = task.state == TaskState.FAILED
        self.start, self.end = task.container_started_at, task.finished_at
        self.has_log = bool(task.container_started_at)
        if not with_details:
            return
        self.address, self.use = task.address, use
        self.ports = [_ports(task, label, ports[label]) for label in ports]
        self.copied = "\n".join(_copied(_host(task), ports))
        self.doing = task.progress if task.state in (TaskState.STARTING, TaskState.RUNNING) else ""
        self.kept_until = queries.held_until(task)
        self.code = "" if task.exit_code is None else words.code(task.exit_code)
        self.ended = _ended(task)


class RoleView:
    """One role with the tasks from ``first`` to ``last`` of its ``total``. ``next`` and ``previous`` are the starts of
    other pages, or None."""

    def __init__(
        self, role: RoleSpec, counts: Mapping[str, int], lines: Sequence[TaskLine], begin: int, size: int
    ) -> None:
        self.name, self.says = role.name, role_says(role)
        self.counts, self.lines, self.total = counts, lines, role.task_number
        self.first, self.last = begin, begin + len(lines) - 1
        self.is_part = len(lines) < self.total
        self.next = begin + size if begin + size < self.total else None
        self.previous = max(0, begin - size) if begin else None


def role_views(
    spec: JobSpec,
    attempt: Attempt,
    counts: Mapping[str, Mapping[str, int]],
    only: str,
    start: int,
    *,
    with_details: bool,
) -> list[RoleView]:
    """All roles with their first tasks, or only the role ``only`` with the page that begins at ``start``. One query."""
    roles = [role for role in spec.task_roles if role.name == only] or list(spec.task_roles)
    size = MOST_TASKS if len(roles) == 1 else max(5, MOST_TASKS // len(roles))
    begin = start if len(roles) == 1 else 0
    tasks = Task.objects.filter(attempt=attempt, index__gte=begin, index__lt=begin + size).order_by("index")
    if len(roles) < len(spec.task_roles):
        tasks = tasks.filter(role=roles[0].name)
    lines: dict[str, list[TaskLine]] = {}
    used = uses(attempt, list(tasks), spec)
    for task in tasks:
        lines.setdefault(task.role, []).append(TaskLine(task, used.get(task.pk), with_details=with_details))
    return [RoleView(role, counts.get(role.name, {}), lines.get(role.name, []), begin, size) for role in roles]


def _host(task: Task) -> str:
    return f"[{task.address}]" if ":" in task.address else task.address


def _ports(task: Task, label: str, ports: Sequence[int]) -> Ports:
    """A few ports are links each; many ports are one text, which links to the first."""
    opens = task.state == TaskState.RUNNING and label != "ssh"
    texts = [str(port) for port in ports] if len(ports) <= _MOST_PORTS else [words.ranges(ports)]
    links = [f"http://{_host(task)}:{port}" if opens else "" for port in ports]
    return Ports(label, tuple(zip(texts, links, strict=False)))


def _copied(host: str, ports: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """``10.0.0.1:30000``; with several ports a line for each label: ``http 10.0.0.1:30000``."""
    is_one = sum(map(len, ports.values())) == 1
    for label, numbers in ports.items():
        yield f"{'' if is_one else f'{label} '}{host}:{words.ranges(numbers).replace('–', '-')}"


_PHRASES = {
    0: "",
    -7103: "port taken",
    -7110: "container lost",
    -7111: "node lost",
    -7112: "start expired",
    -7400: "stopped with its job",
}


def _ended(task: Task) -> str:
    """The end in two or three words. (The whole sentence is in the cause panel and in the events.) A task that is kept
    for debugging has the end of its command."""
    code, raw, signal = task.exit_code, task.exit.get("raw_code"), task.exit.get("signal")
    if code in _PHRASES:
        return _PHRASES[code]
    if task.exit.get("oom"):
        return "out of memory"
    if signal and code != exits.OUT_OF_MEMORY:  # then something inside was killed, and nobody knows why
        return str(signal)
    if raw is not None and raw != code:
        return f"exit code {raw}"
    return str(task.exit.get("sentence", ""))


def role_says(role: RoleSpec) -> str:
    """``4 tasks · each 4 GPUs, 16 cores, 128 GB, shm 16 GB · the job fails when 1 fails``"""
    each = [words.count(role.gpu_number, "GPU")] if role.gpu_number else []
    each += [words.count(role.cpu_number, "core"), words.memory(role.memory_mb)]
    if role.shm_mb > 64:
        each.append(f"shm {words.memory(role.shm_mb)}")
    many = "each " if role.task_number > 1 else ""
    return " · ".join([words.count(role.task_number, "task"), many + ", ".join(each), _ends(role)])


def _ends(role: RoleSpec) -> str:
    fails = role.min_failed_task_count
    ends = f"the job fails when {fails} {'fails' if fails == 1 else 'fail'}"
    text = "its failures do not end the job" if fails is None else ends
    enough = role.min_succeeded_task_count
    return text if enough is None else f"{text}, succeeds when {enough} {'succeeds' if enough == 1 else 'succeed'}"
