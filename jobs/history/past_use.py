"""What users used lately, as rows; the rule is that of jobs/planning/queue/users/used_lately.py.

There is one row for a user and a virtual cluster, brought up to date where what they hold is given back: neither that
nor what is read depends on how many jobs have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce

from base.core.bulk import chunks, with_ids
from base.core.values import milliseconds
from clusters.models import VirtualCluster
from clusters.placement.shares import HALF_LIFE, Amount
from clusters.vcs.rules import MOST_HALF_LIFE
from jobs.models import Holding, PastUse
from jobs.planning.queue.scene import SchedulableJob
from jobs.planning.queue.users.used_lately import UsedLately, UsesLately, after_use

_KEY, _VALUES = ("username", "vc"), ("cpu", "memory", "gpu", "at")
_HALF_LIFE = Subquery(VirtualCluster.objects.filter(name=OuterRef("vc")).values("share_half_life")[:1])
_OLD = timedelta(hours=MOST_HALF_LIFE)  # after which a row goes


def load(waiting: Sequence[SchedulableJob]) -> UsesLately:
    """Of the users of these jobs, in virtual clusters where several of them wait. Nothing is read where none is."""
    users: dict[str, set[str]] = defaultdict(set)
    for job in waiting:
        users[job.vc].add(job.share_of)
    contested = {vc: names for vc, names in users.items() if len(names) > 1}
    return _load(set().union(*contested.values()), contested)


def _load(usernames: Iterable[str], vcs: Iterable[str]) -> dict[tuple[str, str], UsedLately]:
    found: dict[tuple[str, str], UsedLately] = {}
    for some in chunks(sorted(usernames)):
        rows = PastUse.objects.filter(username__in=some, vc__in=sorted(vcs)).values_list(*_KEY, *_VALUES)
        found |= {(username, vc): UsedLately(*values) for username, vc, *values in rows}
    return found


def count(tasks: Sequence[int], now: datetime) -> list[int]:
    """Add what these tasks hold, those of them that still do, in the transaction that gives it back; their ids."""
    uses: dict[tuple[str, str], list[tuple[Amount, float]]] = defaultdict(list)
    half_lives: dict[str, int] = {}
    open_: list[int] = []
    for some in chunks(tasks):
        rows = with_ids(Holding.objects.filter(ended=None), some).annotate(hours=Coalesce(_HALF_LIFE, HALF_LIFE))
        for id, username, vc, hours, began, *amount in rows.values_list("id", *_KEY, "hours", "began", *_AMOUNT):
            open_.append(id)
            half_lives[vc] = hours
            seconds = (milliseconds(now) - began) / 1000
            uses[username, vc].append((dict(zip(_WHAT, amount, strict=True)), seconds))
    before = _load({username for username, _ in uses}, half_lives)
    after = {key: after_use(before.get(key), uses[key], now, half_lives[key[1]]) for key in sorted(uses)}
    rows_ = [PastUse(username=key[0], vc=key[1], **used._asdict()) for key, used in after.items()]
    PastUse.objects.bulk_create(rows_, update_conflicts=True, unique_fields=_KEY, update_fields=_VALUES)
    return open_


_AMOUNT, _WHAT = ("cpus", "memory_mb", "gpus"), ("cpu", "memory", "gpu")


def clean_up(now: datetime) -> None:
    """Delete what has hardly any effect any more."""
    PastUse.objects.filter(at__lt=now - _OLD).delete()
