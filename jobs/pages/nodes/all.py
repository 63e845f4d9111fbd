"""Shows all nodes, which GPUs of them are the viewer's, and what is kept for whom."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max

from clusters.nodes import pages
from jobs import queries
from jobs.models import Job
from jobs.pages.nodes.reserved import reserved
from jobs.planning.lifecycle import JobState
from portal.accounts.viewer import Viewer


def nodes_page(viewer: Viewer) -> dict[str, Any]:
    """The context of clusters/_nodes.html; its queries grow neither with the nodes nor with what runs and waits."""
    return {**pages.nodes_page(queries.gpus_of(viewer.username)), "reserved": reserved(viewer)}


def nodes_version() -> str:
    """Changes whenever the page may look different."""
    waiting = Job.objects.filter(state=JobState.WAITING).aggregate(n=Count("id"), last=Max("id"))
    return f"{pages.nodes_version()}.{waiting['n']}.{waiting['last']}"
