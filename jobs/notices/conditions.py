"""What no Event tells: GPUs that are idle, nodes that do not answer, certificates that are about to end, and files that
are nearly at their quota. Each has a key that says which time it is, so that it is told once however often it is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from cryptography import x509
from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from base.core import words
from base.models import User
from clusters.models import Node
from jobs.metrics import idle
from jobs.models import Job, NoticeRow
from jobs.notices import tell
from jobs.notices.tell import About

EVERY = timedelta(seconds=60)
ENDS_IN = (30, 7, 1)  # days before the end of a certificate at which it is told
NEARLY = 90  # percent of a quota
_TOLD_EVERY = 3600  # seconds for which the same quota is not looked at again
_Told = tuple[NoticeRow, About]


def look() -> bool:
    """Write what is new, once a minute in all processes together. False where it was not due."""
    now = timezone.now()
    with tell.cursor() as row:
        if row.looked_at <= now < row.looked_at + EVERY:
            return False
        row.looked_at = now
        row.save(update_fields=["looked_at"])
    # All that is slow comes before the transaction.
    told = [*_idle(now), *_of_admins(now)]
    if told:
        with tell.cursor():
            tell.write(told)
    return True


def _idle(now: datetime) -> Iterator[_Told]:
    """Once a day for each attempt some of whose GPUs are idle."""
    held = sorted(idle.held_gpus(), key=lambda gpu: (gpu.username, gpu.job))
    of_jobs = [(whose, list(gpus)) for whose, gpus in groupby(held, key=lambda gpu: (gpu.username, gpu.job))]
    idling = {whose: gpus for whose, gpus in of_jobs if any(gpu.idle_since for gpu in gpus)}
    names = {username for username, _ in idling}
    users = {user.username: user for user in User.objects.filter(username__in=names)}
    live = Job.objects.filter(state="RUNNING", username__in=names, deleted_at=None).defer("config", "spec")
    for job in live:
        gpus, user = idling.get((job.username, job.name)), users.get(job.username)
        if gpus is None or user is None:
            continue
        since = [gpu.idle_since for gpu in gpus if gpu.idle_since]
        long = words.duration((now - max(since)).total_seconds())
        says = f"{len(since)} of its {words.count(len(gpus), 'GPU')} did nothing for {long} or longer."
        key = f"idle:{job.pk}:{job.attempt_number}:{now.date()}"
        row = NoticeRow(user=user, key=key, kind="idle", at=now, about=str(job), says=says)
        row.job, row.attempt, row.data = job.pk, job.attempt_number, {"vc": job.vc}
        yield row, About(job.vc, gpus=job.total_gpus)


def _of_admins(now: datetime) -> Iterator[_Told]:
    found = [*_lost(now), *_certificates(now)]
    for admin in User.objects.filter(is_admin=True, is_active=True) if found else ():
        for kind, key, about, says, data in found:
            row = NoticeRow(user=admin, key=key, kind=kind, at=now, about=about, says=says[:1000], data=data)
            yield row, About()


def _lost(now: datetime) -> Iterator[tuple[str, str, str, str, dict[str, str]]]:
    before = now - timedelta(seconds=settings.NODE_LOST_AFTER)
    for node in Node.objects.filter(health=Node.Health.UNREACHABLE, unreachable_since__lt=before):
        since = node.unreachable_since
        yield (
            *("lost", f"lost:{node.name}:{since:%Y%m%dT%H%M%S}", node.name, node.health_reason),
            {"title": f"Node {node.name} does not answer"},
        )


def _certificates(now: datetime) -> Iterator[tuple[str, str, str, str, dict[str, str]]]:
    """That of the portal, where it speaks https itself, and those by which it speaks with nodes."""
    files = {Path(settings.TLS_CERT): ("the portal", "/")} if settings.TLS_CERT else {}
    for name, folder in Node.objects.exclude(tls_dir="").values_list("name", "tls_dir"):
        for file in ("cert.pem", "ca.pem"):
            files[Path(folder, file)] = f"node {name}", f"/nodes/{name}"
    for path, (whose, page) in files.items():
        try:
            end = min(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(path.read_bytes()))
        except (OSError, ValueError):
            continue  # whoever uses it says so
        near = [days for days in ENDS_IN if end - now < timedelta(days=days)]
        if near:
            ended = end <= now
            says = f"{path.name} of {whose} {'has ended' if ended else 'ends'} on {end:%d %B %Y at %H:%M} UTC."
            title = f"A certificate of {whose} {'has ended' if ended else 'is about to end'}"
            key = f"certificate:{whose}:{path.name}:{end:%Y%m%d}:{0 if ended else min(near)}"
            yield "certificate", key, whose, says, {"title": title, "path": page}


def files_grew(username: str, used: int, limit: int, **_: object) -> None:
    """Called when a user has written: tell them, once a day, that their files are nearly at their quota."""
    if used * 100 < limit * NEARLY or not cache.add(f"quota-told:{username}", 1, _TOLD_EVERY):
        return
    user, now = User.objects.filter(username=username).first(), timezone.now()
    if user is None:
        return
    says = f"They take {words.size(used)} of the {words.size(limit)} that they may take in the store."
    row = NoticeRow(user=user, key=f"quota:{now.date()}", kind="quota", at=now, about=username, says=says)
    row.data = {"title": "Your files are nearly at their quota", "path": f"/files/users/{username}"}
    with tell.cursor():
        tell.write([(row, About())])
