"""Rows of open terminals, and what is recorded of them: an audit row when one is opened and closed, an Event of the
job. Called in threads.

A row lives as long as its shell. It tells all web processes how many terminals a user has, and which process has which.
A process says every few seconds that it still has its own. The shell of a process that died, and one whose engine did
not answer when it was to end, belongs to nobody: whichever process comes by ends it and removes the row.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from base.accounts import audit
from base.accounts.callers import Caller
from base.core.errors import Conflict, Unauthorized
from base.models import ApiToken, Terminal, User
from base.wakes import wake
from jobs import access, queries
from jobs.models import Event, Task
from jobs.terminal.shell import Shell

LOST = timedelta(seconds=60)  # after which a process that said nothing counts as dead
GIVEN_UP = timedelta(days=1)  # in which an engine must answer, for the shell to be ended before its container ends
_NOBODY = ""  # has a shell that was closed and may still run


def open_terminals(username: str) -> QuerySet[Terminal]:
    lives = Terminal.objects.filter(username=username, seen_at__gt=timezone.now() - LOST)
    return lives.exclude(owner=_NOBODY).order_by("id")


def reserve(caller: Caller, task: Task, owner: str) -> Terminal:
    """A row for a new shell of this web process. Raises Conflict when the user has as many as they may."""
    most, now = settings.TERMINALS, timezone.now()
    with transaction.atomic():
        if not User.objects.select_for_update(no_key=True).filter(pk=caller.user.pk, is_active=True).exists():
            raise Unauthorized
        if open_terminals(caller.user.username).count() >= most:
            raise Conflict(f"You have {most} terminals open, as many as you may. Close one of them first.")
        return Terminal.objects.create(
            token=secrets.token_hex(16),
            credential=ApiToken.hash_id(caller.credential),
            username=caller.user.username,
            task=task.pk,
            where=f"{task.job.username}/{task.job.name} {task.label}",
            node=task.node,
            container=task.container_name,
            owner=owner,
            opened_at=now,
            seen_at=now,
        )


def opened(row: Terminal, task: Task, pid: int, ip: str | None) -> None:
    row.pid = pid
    with transaction.atomic():
        Terminal.objects.filter(pk=row.pk).update(pid=pid)
        data = {"attempt": task.attempt.number, "node": task.node}
        audit.record(row.username, "terminal opened", row.where, data, ip=ip, way="terminal")
        Event.objects.create(
            job=task.job,
            at=timezone.now(),
            kind="task.terminal",
            attempt=task.attempt.number,
            task=task.label,
            node=task.node,
            actor=row.username,
            reason=f"{row.username} opened a terminal in {task.label}.",
        )
        wake.notify("pages")


def closed(row: Terminal, why: str, has_ended: bool) -> bool:
    """Free the place. ``why`` is for the record; a shell that has not ended is left to ``left``. False when somebody
    else has freed it."""
    with transaction.atomic():
        was_open = Terminal.objects.filter(pk=row.pk).exclude(owner=_NOBODY).update(owner=_NOBODY)
        if has_ended or row.pid is None:
            ended(row)
        if was_open and row.pid is not None:
            seconds = round((timezone.now() - row.opened_at).total_seconds())
            about = {"seconds": seconds, "why": why}
            audit.record(row.username, "terminal closed", row.where, about, way="terminal")
    return bool(was_open)


def ended(row: Terminal) -> None:
    Terminal.objects.filter(pk=row.pk).delete()


def find(token: str, caller: Caller, task_id: int) -> Terminal | None:
    """The open terminal of this session, or of this bearer token, in that task."""
    mine = {"credential": ApiToken.hash_id(caller.credential), "username": caller.user.username}
    return Terminal.objects.filter(token=token, task=task_id, **mine).exclude(owner=_NOBODY).first()


def withdrawn(shells: Collection[Shell]) -> dict[str, str]:
    """{token: why} of the shells whose users may not have them any more."""
    users = {shell.caller.credential: shell.caller.now() for shell in shells}
    rows = Terminal.objects.filter(pk__in=[shell.row.pk for shell in shells]).exclude(owner=_NOBODY)
    there = set(rows.values_list("pk", flat=True))
    why = {}
    for shell in shells:
        row, user = shell.row, users[shell.caller.credential]
        job = queries.visible_jobs().filter(tasks=row.task).first()
        if row.pk not in there:
            why[row.token] = "It was closed from another window."
        elif user is None:
            why[row.token] = "You are not signed in any more."
        elif job is None or not access.may_enter(user, job):
            why[row.token] = "You may not enter this task any more."
    return why


def renew(tokens: Collection[str]) -> None:
    """Say that this process has these."""
    Terminal.objects.filter(token__in=tokens).update(seen_at=timezone.now())


def left() -> list[Terminal]:
    """The terminals that nobody has and whose shells may still run: those of processes that died, and those whose
    engine did not answer when they were closed."""
    now = timezone.now()
    for row in Terminal.objects.filter(seen_at__lt=now - LOST).exclude(owner=_NOBODY):
        closed(row, "The portal's process ended.", has_ended=False)
    Terminal.objects.filter(owner=_NOBODY, seen_at__lt=now - GIVEN_UP).delete()
    return list(Terminal.objects.filter(owner=_NOBODY))
