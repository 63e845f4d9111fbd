"""Answers what lower rooms ask about jobs (base.core.signals.AboutJobs), and writes what they report to the
ledger."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from django.db.models import Count, Q, Sum
from django.utils import timezone

from base.core.signals import LiveJobs
from base.models import User
from jobs import queries
from jobs.models import Attempt, Event, NoticeChannel, PastUse, UserRest
from jobs.planning.lifecycle import JobState

_FEW = 100  # names; for more it is cheaper to count for all, and databases limit the length of a list


class JobAnswers:
    """base.core.signals.AboutJobs"""

    def live(self, by: Literal["vc", "username"], names: Collection[str] | None = None) -> dict[str, LiveJobs]:
        jobs = queries.live_jobs()
        if names is not None and len(names) <= _FEW:
            jobs = jobs.filter(**{f"{by}__in": names})
        return _counted(jobs, by)

    def users_of(self, vc: str) -> dict[str, LiveJobs]:
        return _counted(queries.live_jobs().filter(vc=vc), "username")

    def count_ended(self, username: str) -> int:
        return queries.visible_jobs().filter(username=username).exclude(state__in=queries.LIVE).count()

    def count_users_running(self) -> int:
        running = queries.live_jobs().filter(state=JobState.RUNNING)
        return running.values("username").distinct().count()

    def is_attempt_live(self, app_id: str) -> bool:
        live = Attempt.objects.filter(app_id=app_id, completed_at=None, job__state__in=queries.LIVE)
        return live.filter(job__deleted_at=None).exists()

    def moved_file(self, path: str) -> str:
        from jobs.containers import ssh  # what it loads most processes do not need

        return ssh.key_path_of(path)


def note(sender: Any, node: str, kind: str, reason: str, **_: Any) -> None:
    """Write an Event about a node; the receiver of base.core.signals.node_learnt."""
    Event.objects.create(at=timezone.now(), kind=kind, node=node, reason=reason)


def forget(sender: Any, instance: Any, **_: Any) -> None:
    """Nobody rests, has used or is told anything for a user or a virtual cluster that is deleted: another one may get
    the name."""
    of = {"username": instance.username} if isinstance(instance, User) else {"vc": instance.name}
    PastUse.objects.filter(**of).delete()
    if isinstance(instance, User):
        UserRest.objects.filter(**of).delete()
    else:
        NoticeChannel.objects.filter(**of).delete()


def _counted(jobs: Any, by: str) -> dict[str, LiveJobs]:
    runs = Q(state=JobState.RUNNING)
    rows = jobs.values(by).annotate(
        waiting=Count("id", filter=~runs),
        running=Count("id", filter=runs),
        gpus=Sum("total_gpus", filter=runs, default=0),
    )
    return {row.pop(by): LiveJobs(**row) for row in rows}
