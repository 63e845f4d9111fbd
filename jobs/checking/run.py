"""Checks every node with real jobs, and deletes them afterwards, with those of an earlier check that was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict

from django.db.models import QuerySet
from django.utils import timezone
from django_q.tasks import async_task

from base.accounts import audit
from base.accounts.viewer import Viewer, require_admin
from base.core.errors import LongshoreError
from base.core.threads import run_beside
from base.models import AuditEvent, User
from base.wakes import wake
from clusters.engines.sample_image import SAMPLE_IMAGE
from clusters.nodes.queries import load_nodes
from clusters.placement.fit import NodeView
from jobs import queries, services
from jobs.checking import plan
from jobs.checking.plan import PREFIX, JobAddress, NodeCheck, SecondJob
from jobs.logs.read import find_task, tail
from jobs.models import Attempt, Job, Task
from jobs.planning.lifecycle import TASK_LIVE_STATES, JobState, TaskState
from jobs.waiting.why import turn_of, waiting_reason

CHECK_LIMIT = 120  # seconds of a whole check
LEFT_OVER = 600  # seconds after which a job of a check that was killed ends by itself
BEGUN, ENDED = "cluster check begun", "cluster check ended"
MOST_ROWS = 200  # of nodes with something to say that are kept for the page
_EVERY = 0.5
_pause = time.sleep


def check(
    admin: Viewer,
    *,
    only: Collection[str] = (),
    seconds: int = CHECK_LIMIT,
    image: str = SAMPLE_IMAGE,
    say: Callable[[str], None] = lambda _: None,
) -> list[NodeCheck]:
    """Return a row for each node, or for those in ``only``. It takes ``seconds`` and a little at most. Raises Forbidden
    for others than admins."""
    user = require_admin(admin)
    is_alone = not last_check()[1]
    audit.record(user.username, BEGUN, data={"seconds": seconds})
    wake.notify("pages")
    if is_alone:
        _delete(user, plan.NAMES)
    nodes = [node for node in load_nodes() if not only or node.name in only]
    made = _Check(user, nodes, seconds, image, say)
    try:
        rows = made.rows()
    finally:
        _delete(user, f"^{PREFIX}{made.stamp}-")
    shown = [asdict(row) for row in rows if not row.works][:MOST_ROWS]
    audit.record(
        user.username, ENDED, data={"rows": shown, "nodes": len(rows), "works": sum(row.works for row in rows)}
    )
    wake.notify("pages")
    return rows


def order_check(admin: Viewer) -> None:
    """Let a worker check the cluster; the page shows how far it is. Raises Forbidden."""
    async_task("jobs.checking.run.in_worker", require_admin(admin).username)


def in_worker(username: str) -> None:
    """Called by django-q; it checks in a thread and returns at once."""
    run_beside("check", lambda: check(User.objects.get(username=username)))


def last_check() -> tuple[AuditEvent | None, bool]:
    """The end of the last check, and whether one is under way."""
    ended = AuditEvent.objects.filter(action=ENDED).order_by("-id").first()
    begun = AuditEvent.objects.filter(action=BEGUN).order_by("-id").first()
    if begun is None or (ended is not None and ended.pk > begun.pk):
        return ended, False
    longest = int(begun.data.get("seconds", CHECK_LIMIT)) + 30
    return ended, (timezone.now() - begun.at).total_seconds() < longest


class _Check:
    def __init__(
        self, user: User, nodes: Sequence[NodeView], seconds: int, image: str, say: Callable[[str], None]
    ) -> None:
        self._user, self._image, self._say = user, image, say
        self._nodes = {node.name: node for node in nodes}
        self.stamp = f"{timezone.now():%H%M%S}"
        self._ends = time.monotonic() + seconds
        self._half = time.monotonic() + seconds / 2

    def rows(self) -> list[NodeCheck]:
        skipped = {name: reason for name, node in self._nodes.items() if (reason := plan.why_not(node))}
        able = [node for name, node in self._nodes.items() if name not in skipped]
        self._say(f"{len(able)} of {len(self._nodes)} nodes can be checked now. Starting a job on each of them.")
        first, refused = self._submit(
            {node.name: plan.serving(node, self.stamp, self._image, LEFT_OVER) for node in able}
        )
        served = self._served(first)
        self._say(f"{len(served)} run. Each now looks at up to {plan.PEERS} others.")
        asked = {peer.node: plan.peers_of(peer.node, served) for peer in served}
        second, _ = self._submit(
            {
                name: plan.looking(self._nodes[name], self.stamp, self._image, LEFT_OVER, peers)
                for name, peers in asked.items()
            }
        )
        seen = self._seen(second)
        why = self._why_not(first, {peer.node for peer in served}) | refused
        return [
            plan.judge(name, why.get(name, ""), asked.get(name, ()), seen, served)
            if name not in skipped
            else NodeCheck(name, skipped=skipped[name])
            for name in self._nodes
        ]

    def _submit(self, configs: dict[str, dict[str, object]]) -> tuple[dict[str, int], dict[str, str]]:
        """{node: job}, and why others were refused."""
        jobs, refused = {}, {}
        for name, config in configs.items():
            try:
                jobs[name] = services.submit(self._user, config).pk
            except LongshoreError as error:
                refused[name] = error.message
        return jobs, refused

    def _served(self, jobs: dict[str, int]) -> list[JobAddress]:
        """Where the first jobs can be reached: of those that run when all run, or the first half of the time is
        over."""

        def running() -> dict[int, Task]:
            return {task.job_id: task for task in _tasks(jobs).filter(state=TaskState.RUNNING)}

        _wait(lambda: len(running()) + _ended(jobs) >= len(jobs), self._half)
        tasks = running()
        return [
            JobAddress(name, task.address, task.ports["web"][0], next(iter(task.ports.get("ssh", ())), 0))
            for name, id in jobs.items()
            if (task := tasks.get(id))
        ]

    def _seen(self, jobs: dict[str, int]) -> dict[str, SecondJob]:
        _wait(lambda: _ended(jobs) == len(jobs) and not _tasks(jobs).filter(collected=False).exists(), self._ends)
        second_jobs = {}
        for name, id in jobs.items():
            job = Job.objects.get(pk=id)
            exit = _tasks({name: id}).order_by("-id").values_list("exit", flat=True).first() or {}
            code = exit.get("raw_code")
            second_jobs[name] = SecondJob(_log(job), job.attempt_number, code, plan.gpus_of(self._nodes[name]))
        return second_jobs

    def _why_not(self, jobs: dict[str, int], running: Collection[str]) -> dict[str, str]:
        left = {id: name for name, id in jobs.items() if name not in running}
        reasons = {}
        for job in Job.objects.filter(id__in=left):
            task = Task.objects.filter(job=job).order_by("-id").first()
            attempt = Attempt.objects.filter(job=job).order_by("-number").first()
            if task is not None and task.state in TASK_LIVE_STATES:
                doing = task.progress or "it is starting"
                reasons[left[job.pk]] = f"Its container did not run in time: {doing}."
            elif job.state == JobState.WAITING:
                fault = (task.fault or {}).get("sentence", "") if task else ""
                reasons[left[job.pk]] = fault or f"Its job still waits: {_waits_for(job)}"
            else:
                reasons[left[job.pk]] = str((attempt.exit if attempt else {}).get("reason") or "Its job has ended.")
        return reasons


def _delete(user: User, names: str) -> None:
    """Deletes the user's jobs of checks with such names; what runs of them is stopped."""
    for job in queries.visible_jobs().filter(username=user.username, name__startswith=PREFIX, name__regex=names):
        with suppress(LongshoreError):
            services.delete(user, job)


def _tasks(jobs: dict[str, int]) -> QuerySet[Task]:
    return Task.objects.filter(job__in=jobs.values())


def _ended(jobs: dict[str, int]) -> int:
    return Job.objects.filter(id__in=jobs.values()).exclude(state__in=queries.LIVE).count()


def _log(job: Job) -> str | None:
    try:
        return tail(find_task(job, "check", 0), "stdout", lines=1000).decode(errors="replace")
    except (LongshoreError, OSError):
        return None


def _wait(until: Callable[[], bool], deadline: float) -> None:
    while not until() and time.monotonic() < deadline:
        _pause(_EVERY)


def _waits_for(job: Job) -> str:
    reason: str = waiting_reason(job, turn_of(job))["summary"]
    return job.never or reason
