"""Why several jobs wait, in one sentence each, for lists. jobs.scheduling.explain says it in full for one job."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.nodes.queries import load_nodes
from clusters.placement.blockers import blockers, never_fits
from clusters.placement.fit import Demand, NodeView
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.models import Job
from portal.core import words

_MOST_AHEAD = 1000  # beyond this a place in the queue says nothing anyway
_MOST_LOOKS = 5000  # nodes x different jobs looked at for one list: a page must stay quick


def waiting_reasons(ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """{job id: ("1st in default", "No node has 4 free A100.")} in a constant number of queries."""
    if not ids:
        return {}
    jobs = Job.objects.filter(id__in=ids).only("id", "vc", "spec")
    nodes = load_nodes()
    places = _places(ids)
    known: dict[tuple[Demand, ...], str] = {}
    reasons = {}
    for job in jobs:
        wanted = demands(JobSpec.from_json(job.spec))
        if wanted not in known and (len(known) + 1) * len(nodes) <= _MOST_LOOKS:
            known[wanted] = _first(nodes, wanted)
        place = places.get(job.pk)
        said = f"{words.ordinal(place)} in {job.vc}" if place else ""
        reasons[job.pk] = (said, known.get(wanted, ""))
    return reasons


def _first(nodes: Sequence[NodeView], wanted: Sequence[Demand]) -> str:
    never = never_fits(nodes, wanted)
    found = [never] if never else blockers(nodes, wanted)
    return found[0].sentence if found else ""


def _places(ids: Sequence[int]) -> dict[int, int]:
    """The place of each in the queue of its virtual cluster; 1 is next."""
    queue = Job.objects.filter(state="WAITING", execution="START", deleted_at__isnull=True, never="", id__lte=max(ids))
    ahead: dict[str, int] = {}
    places = {}
    for vc, pk in queue.order_by("id").values_list("vc", "id")[:_MOST_AHEAD]:
        ahead[vc] = ahead.get(vc, 0) + 1
        if pk in ids:
            places[pk] = ahead[vc]
    return places
