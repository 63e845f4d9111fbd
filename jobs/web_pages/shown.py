"""The web pages of a job as they are listed: which there are, whether they answer, and who may open them."""

from __future__ import annotations

import itertools
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

from base.accounts.viewer import Viewer
from base.core.errors import NotFound
from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node
from clusters.vcs.grants import grants_of
from jobs import access, queries
from jobs.config import web_pages
from jobs.config.spec import JobSpec
from jobs.config.web_pages import WebPage
from jobs.models import Job, Task
from jobs.planning.lifecycle import TaskState
from jobs.web_pages import rights
from jobs.web_pages.models import PageShare
from jobs.web_pages.visits import Target, any_certificate, target_of

MOST = 100  # pages listed
PATIENCE = 1.5  # seconds a page has to answer
_AT_ONCE = 32
_GET = "GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Longshore\r\nAccept: */*\r\nConnection: close\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)\b")
_LONGEST = 4096  # bytes of an answer that are read

Is = Literal["answers", "refused", "silent", "other", "away", "unplaced"]


class NoWebPage(NotFound):
    """There is no such web page."""

    code = "NoWebPageError"


@dataclass(frozen=True, slots=True)
class State:
    """Whether a page answers. ``status`` and ``milliseconds`` are of its answer."""

    is_: Is
    status: int = 0
    milliseconds: int = 0
    says: str = ""


@dataclass(frozen=True, slots=True)
class ListedPage:
    page: WebPage
    node: str
    state: State
    may_open: bool
    url: str  # on the portal; it leads to the page
    shares: Sequence[PageShare] = field(default=())  # for those who may change them

    @property
    def task(self) -> str:
        return f"{self.page.role}-{self.page.index}"

    @property
    def key(self) -> str:
        return f"{self.page.role}/{self.page.index}/{self.page.label}"


def find(job: Job, role: str, index: int, label: str) -> WebPage:
    """A page of the job by its names, whether it runs or not. Raises NoWebPage."""
    spec = JobSpec.from_json(job.spec)
    asked = next((each for each in spec.task_roles if each.name == role), None)
    if asked is None or index >= asked.task_number or label not in {port.label for port in asked.all_ports} - {"ssh"}:
        raise NoWebPage(f"Job {job.name} has no port {label} of a task {role}-{index}.")
    return WebPage(role, index, label)


def listed(job: Job, viewer: Viewer, url: str, *, asks: bool = True) -> list[ListedPage]:
    """The pages of the current attempt, MOST at most. With ``asks`` all of them are asked now, at once; it takes
    PATIENCE seconds at most. Without it, and of tasks that do not run, only those are listed that are surely pages."""
    spec = JobSpec.from_json(job.spec)
    attempt = queries.current_attempt(job)
    placed = _placed(spec, list(Task.objects.filter(attempt=attempt, state=TaskState.RUNNING).order_by("id")))
    states = _ask({page: target for page, (_, target) in placed.items()}) if asks else {}
    rows: list[tuple[WebPage, str, State]] = []
    for page, (node, _) in placed.items():
        state = states.get(page, State("silent"))
        if page.is_sure or state.is_ == "answers":
            rows.append((page, node, state))
    running = {(page.role, page.index) for page in placed}
    rows += [(page, "", State("unplaced")) for page in _promised(spec) if (page.role, page.index) not in running]
    return _with_rights(job, viewer, url, rows[:MOST])


def _placed(spec: JobSpec, tasks: Sequence[Task]) -> dict[WebPage, tuple[str, Target]]:
    nodes = {node.name: node for node in Node.objects.filter(name__in={task.node for task in tasks})}
    placed = [
        (page, (task.node, target_of(task, page, nodes[task.node])))
        for task in tasks
        if task.node in nodes
        for page in web_pages.of_task(spec, task.role, task.index, task.ports)
    ]
    return dict(sorted(placed, key=lambda each: not each[0].is_sure)[:MOST])  # the sure ones first


def _promised(spec: JobSpec) -> list[WebPage]:
    every = (
        page
        for role in spec.task_roles
        for index in range(min(role.task_number, MOST))
        for page in web_pages.declared(role, index)
        if page.is_sure
    )
    return list(itertools.islice(every, MOST))


def _with_rights(job: Job, viewer: Viewer, url: str, rows: Sequence[tuple[WebPage, str, State]]) -> list[ListedPage]:
    shares = rights.openers({rights.key_of(job.pk, page) for page, _, _ in rows}) if rows else {}
    vcs = grants_of([viewer.username]) if viewer.is_authenticated else {}
    may_share = access.is_insider(viewer, job.username)
    pages = []
    for page, node, state in rows:
        of_page = shares[rights.key_of(job.pk, page)]
        may_open = rights.may_open(viewer, job.username, of_page, vcs)
        address = f"{url}/web/{quote(page.role)}/{page.index}/{quote(page.label)}"
        pages.append(ListedPage(page, node, state, may_open, address, of_page if may_share else ()))
    return pages


def _ask(targets: Mapping[WebPage, Target]) -> dict[WebPage, State]:
    if not targets:
        return {}
    pool = ThreadPoolExecutor(min(_AT_ONCE, len(targets)), thread_name_prefix="look")
    asked = {pool.submit(look, target): page for page, target in targets.items()}
    done, _ = wait(asked, timeout=PATIENCE)
    pool.shutdown(wait=False, cancel_futures=True)
    return {asked[answer]: answer.result() for answer in done}


def look(target: Target) -> State:
    """Asks the page for its first line. It has PATIENCE seconds in all; nothing is sent but a GET of ``/``."""
    began = time.monotonic()
    try:
        dialled = target.dial()
    except RuntimeFault as fault:
        return State("refused" if fault.reason is FaultReason.REFUSED else "away", says=fault.sentence)
    return heard(dialled, f"{target.address}:{target.port}", is_tls=target.is_tls, began=began)


def heard(dialled: socket.socket, host: str, *, is_tls: bool, began: float) -> State:
    """What answers on a connection, which is closed then. A page that sends a byte now and then has not more time than
    others: each that is asked has a thread."""
    until = began + PATIENCE
    try:
        if is_tls:
            dialled.settimeout(_left(until))
            dialled = any_certificate().wrap_socket(dialled)
        dialled.settimeout(_left(until))
        dialled.sendall(_GET.format(host=host).encode())
        line = b""
        while b"\n" not in line and len(line) < _LONGEST:
            dialled.settimeout(_left(until))
            if not (data := dialled.recv(_LONGEST)):
                break
            line += data
    except (TimeoutError, ssl.SSLError):
        return State("silent", says="It does not answer in time.")
    except OSError:
        line = b""
    finally:
        dialled.close()
    if not (status := _STATUS.match(line)):
        return State("other", says="What listens there is no web page.")
    return State("answers", int(status[1]), round((time.monotonic() - began) * 1000))


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
