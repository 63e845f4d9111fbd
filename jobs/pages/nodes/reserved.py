"""Shows the room that is kept for waiting jobs: on the page of all nodes and on that of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.utils import timezone

from jobs import access
from jobs.models import Job
from jobs.pages.rows import job_url
from jobs.planning.forecast.words import briefly, current
from jobs.planning.queue.reservations import Reservation
from jobs.scheduling.queue import Queued, reservations
from portal.accounts.viewer import Viewer
from portal.core import words


@dataclass(frozen=True, slots=True)
class Kept:
    """A reservation. ``job`` and ``url`` are empty where the viewer may not read why that job waits; ``when`` is a time
    with its spread."""

    job: str
    url: str
    vc: str
    nodes: tuple[tuple[str, str], ...]  # name, what is kept there
    when: str


def reserved(viewer: Viewer, node: str = "") -> list[Kept]:
    """The reservations, or those on one node; two queries beside those for the turns, one where nobody waits."""
    found = [one for one in reservations() if not node or node in one.nodes]
    forecasts = dict(Job.objects.filter(id__in=[one.job.id for one in found]).values_list("id", "forecast"))
    return [_kept(one, forecasts.get(one.job.id), viewer, node) for one in found]


def _kept(one: Reservation[Queued], forecast: dict[str, int] | None, viewer: Viewer, only: str) -> Kept:
    now, job = timezone.localtime(), one.job
    likely = current(forecast, now)
    is_open = access.may_read_story(viewer, job.username)
    return Kept(
        job=job.title if is_open else "",
        url=job_url(job.username, job.name) if is_open else "",
        vc=job.vc,
        nodes=tuple((name, what) for name, what in _shares(one) if only in ("", name)),
        when=briefly(likely, now) if likely else "",
    )


def _shares(one: Reservation[Queued]) -> list[tuple[str, str]]:
    tasks, gpus = Counter(one.nodes), Counter[str]()
    for demand, node in zip(one.demands, one.nodes, strict=True):
        gpus[node] += demand.gpus
    return [
        (name, words.count(gpus[name], "GPU") if gpus[name] else words.count(tasks[name], "task"))
        for name in sorted(tasks)
    ]
