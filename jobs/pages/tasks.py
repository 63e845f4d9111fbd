"""Shows the tasks of one attempt by role, one page at a time when a role has many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from jobs import queries
from jobs.config.spec import JobSpec, RoleSpec
from jobs.metrics.use import TaskUse, uses
from jobs.models import Attempt, Task
from jobs.planning.lifecycle import TaskState
from portal.core import words

MOST_TASKS = 200  # lines on one page, over all roles
_MOST_PORTS = 4  # ports of one label that are listed one by one


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one label. ``shown``: (text, address for a browser or ""); ``copied``: the first port with its host;
    ``what``: the task and the label."""

    label: str
    shown: tuple[tuple[str, str], ...]
    copied: str
    what: str


@dataclass(frozen=True, slots=True)
class TaskLine:
    label: str
    state: str
    node: str
    address: str
    ports: tuple[Ports, ...]
    gpus: str
    doing: str  # what the worker does while it starts
    kept_until: datetime | None  # its command failed, and its container is kept for debugging
    code: str  # "196"; "" while it has not ended
    ended: str  # "out of memory"
    bad: bool
    start: datetime | None
    end: datetime | None
    has_log: bool
    use: TaskUse | None = None  # what it uses, if that was measured


@dataclass(frozen=True, slots=True)
class RoleView:
    """One role with the tasks from ``first`` to ``last`` of its ``total``. ``next`` and ``previous`` are the starts of
    other pages, or None."""

    name: str
    says: str
    counts: Mapping[str, int]
    lines: Sequence[TaskLine]
    total: int
    first: int
    next: int | None
    previous: int | None

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def is_part(self) -> bool:
        return len(self.lines) < self.total


def role_views(
    spec: JobSpec, attempt: Attempt, counts: Mapping[str, Mapping[str, int]], only: str, start: int
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
        lines.setdefault(task.role, []).append(replace(task_line(task), use=used.get(task.pk)))
    return [_role_view(role, counts.get(role.name, {}), lines.get(role.name, []), begin, size) for role in roles]


def without_story(role: RoleView) -> RoleView:
    """The role for viewers who may not read the job's story (jobs.access)."""
    lines = [replace(line, address="", ports=(), doing="", ended="", use=None) for line in role.lines]
    return replace(role, lines=lines)


def task_line(task: Task) -> TaskLine:
    """One task as a line of the table."""
    return TaskLine(
        label=task.label,
        state=task.state,
        node=task.node,
        address=task.address,
        ports=tuple(_ports(task, label, ports) for label, ports in sorted(task.ports.items()) if ports),
        gpus=", ".join(task.gpus_given or ()) or words.ranges(task.gpu_ids),
        doing=task.progress if task.state == TaskState.STARTING else "",
        kept_until=queries.held_until(task),
        code="" if task.exit_code is None else words.code(task.exit_code),
        ended=_ended(task),
        bad=task.state == TaskState.FAILED,
        start=task.container_started_at,
        end=task.finished_at,
        has_log=bool(task.container_started_at),
    )


def _ports(task: Task, label: str, ports: Sequence[int]) -> Ports:
    """A few ports are links each; many ports are one text, which links to the first."""
    host = f"[{task.address}]" if ":" in task.address else task.address
    opens = task.state == TaskState.RUNNING and label != "ssh"
    texts = [str(port) for port in ports] if len(ports) <= _MOST_PORTS else [words.ranges(ports)]
    links = [f"http://{host}:{port}" if opens else "" for port in ports]
    return Ports(label, tuple(zip(texts, links, strict=False)), f"{host}:{ports[0]}", f"{task.label}, {label}")


_PHRASES = {
    0: "",
    196: "out of memory",
    -7103: "port taken",
    -7110: "container lost",
    -7111: "node lost",
    -7112: "start expired",
    -7400: "stopped with its job",
}


def _ended(task: Task) -> str:
    """The end in two or three words. (The whole sentence is in the cause panel and in the events.)"""
    if task.exit_code is None:
        return ""
    code, raw, signal = task.exit_code, task.exit.get("raw_code"), task.exit.get("signal")
    if code in _PHRASES:
        return _PHRASES[code]
    if signal:
        return str(signal)
    if raw is not None and raw != code:
        return f"exit code {raw}"
    return str(task.exit.get("sentence", ""))


def _role_view(role: RoleSpec, counts: Mapping[str, int], lines: Sequence[TaskLine], begin: int, size: int) -> RoleView:
    after = begin + size
    return RoleView(
        name=role.name,
        says=role_says(role),
        counts=counts,
        lines=lines,
        total=role.task_number,
        first=begin,
        next=after if after < role.task_number else None,
        previous=max(0, begin - size) if begin else None,
    )


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
    text = "its failures do not end the job" if fails is None else f"the job fails when {fails} {_fail(fails)}"
    enough = role.min_succeeded_task_count
    return text if enough is None else f"{text}, succeeds when {enough} {'succeeds' if enough == 1 else 'succeed'}"


def _fail(number: int) -> str:
    return "fails" if number == 1 else "fail"
