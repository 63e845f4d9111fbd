"""Rows of open terminals, and what is recorded of them: an audit row when one is opened and closed, an Event of the
job. Called in threads.

A row lives as long as its shell. It tells all web processes how many terminals a user has, and which process has which.
A process says every few seconds that it still has its own; the rows of one that died are removed by another, which then
also ends the shells.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from jobs import access, queries
from jobs.models import Event
from jobs.terminal.place import Place
from portal.accounts import audit
from portal.accounts.callers import Caller
from portal.core.errors import Conflict, Unauthorized
from portal.models import ApiToken, Terminal, User
from portal.wakes import wake

LOST = timedelta(seconds=60)  # after which a process that said nothing counts as dead


def open_terminals(username: str) -> QuerySet[Terminal]:
    return Terminal.objects.filter(username=username, seen_at__gt=timezone.now() - LOST).order_by("id")


def reserve(caller: Caller, place: Place, owner: str) -> Terminal:
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
            task=place.task.pk,
            where=f"{place.job.username}/{place.job.name} {place.label}",
            node=place.node,
            container=place.container,
            owner=owner,
            opened_at=now,
            seen_at=now,
        )


def opened(row: Terminal, place: Place, pid: int, ip: str | None) -> None:
    row.pid = pid
    with transaction.atomic():
        Terminal.objects.filter(pk=row.pk).update(pid=pid)
        data = {"attempt": place.attempt, "node": place.node}
        audit.record(row.username, "terminal opened", row.where[:200], ip, data)
        Event.objects.create(
            job=place.job,
            at=timezone.now(),
            kind="task.terminal",
            attempt=place.attempt,
            task=place.label,
            node=place.node,
            actor=row.username,
            reason=f"{row.username} opened a terminal in {place.label}.",
        )
        wake.notify("pages")


def closed(row: Terminal, why: str) -> bool:
    """Free the place. ``why`` is for the record. False when somebody else has done so."""
    with transaction.atomic():
        if not Terminal.objects.filter(pk=row.pk).delete()[0]:
            return False
        if row.pid is None:
            return True
        seconds = round((timezone.now() - row.opened_at).total_seconds())
        audit.record(row.username, "terminal closed", row.where[:200], None, {"seconds": seconds, "why": why})
    return True


def find(token: str, caller: Caller, task_id: int) -> Terminal | None:
    """The open terminal of this session, or of this bearer token, in that task."""
    mine = {"credential": ApiToken.hash_id(caller.credential), "username": caller.user.username}
    return Terminal.objects.filter(token=token, task=task_id, **mine).first()


@dataclass(frozen=True, slots=True)
class Held:
    """A shell that this process has, and who opened it."""

    row: Terminal
    caller: Caller


def withdrawn(shells: Collection[Held]) -> dict[str, str]:
    """{token: why} of the shells whose users may not have them any more."""
    users = {one.caller.credential: one.caller.now() for one in shells}
    there = set(Terminal.objects.filter(pk__in=[one.row.pk for one in shells]).values_list("pk", flat=True))
    found = {}
    for one in shells:
        user = users[one.caller.credential]
        job = queries.visible_jobs().filter(tasks=one.row.task).first()
        if one.row.pk not in there:
            found[one.row.token] = "It was closed from another window."
        elif user is None:
            found[one.row.token] = "You are not signed in any more."
        elif job is None or not access.may_enter(user, job):
            found[one.row.token] = "You may not enter this task any more."
    return found


def renew(tokens: Collection[str]) -> None:
    """Say that this process has these."""
    Terminal.objects.filter(token__in=tokens).update(seen_at=timezone.now())


def take_lost() -> list[Terminal]:
    """The terminals of processes that died; each is given to one caller, who ends its shell."""
    late = Terminal.objects.filter(seen_at__lt=timezone.now() - LOST)
    return [row for row in late if closed(row, "The portal's process ended.") and row.pid is not None]
