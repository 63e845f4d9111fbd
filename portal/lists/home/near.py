"""Suggests what the jump box may mean: own jobs, nodes, virtual clusters, pages and guides, a few of each.

Own jobs are found by the beginning of their name, in an index, however many there are; the others are few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

from base.accounts.viewer import Viewer, reads_all
from clusters.models import Node, VirtualCluster
from jobs import queries
from portal.docs.views import titles
from portal.shared.jobs.rows import job_url, shown_state

MOST = 4  # of each kind
_LAST = "\U0010ffff"
_PAGES = (
    *(("Home", "/"), ("Jobs", "/jobs"), ("New job", "/submit"), ("Nodes", "/nodes"), ("The wall", "/wall")),
    *(("Virtual clusters", "/vcs"), ("Timeline", "/timeline"), ("API documents", "/api/docs"), ("Guides", "/guides")),
)
_OF_USERS = (("Usage", "/usage"), ("Files", "/files"), ("Account", "/account"), ("API tokens", "/account/tokens"))
_OF_READERS = (
    *(("Cluster", "/?as=cluster"), ("Users", "/users"), ("Audit", "/admin/audit"), ("Forecasts", "/forecasts")),
    *(("Hosts", "/hosts"), ("Check the cluster", "/check-cluster")),
)

Found = list[tuple[str, str, str]]  # (name, where it leads, state of a job)


def suggestions(text: str, viewer: Viewer) -> dict[str, Any]:
    """The context of lists/_near.html; three queries."""
    pages = [*_PAGES, *(_OF_USERS if viewer.is_authenticated else ()), *(_OF_READERS if reads_all(viewer) else ())]
    pages += [("Add a node", "/add-node")] if viewer.is_admin else []
    guides = [(title, f"/guides/{name}") for name, title in titles()]
    nodes = Node.objects.filter(name__icontains=text).order_by("name").values_list("name", flat=True)[:MOST]
    vcs = VirtualCluster.objects.filter(name__icontains=text).order_by("name").values_list("name", flat=True)[:MOST]
    groups: list[tuple[str, Found]] = [("My jobs", _own(text, viewer))]
    if text:
        groups += [
            ("Nodes", [(name, f"/nodes/{quote(name)}", "") for name in nodes]),
            ("Virtual clusters", [(name, f"/vcs/{quote(name)}", "") for name in vcs]),
            ("Pages", _with(text, pages)),
            ("Guides", _with(text, guides)),
        ]
    every = f"/jobs?{urlencode({'keyword': text})}" if text else ""
    return {"groups": [group for group in groups if group[1]], "text": text, "every": every}


def _own(text: str, viewer: Viewer) -> Found:
    """The user's jobs; without a text these are the newest. The names that begin with it are side by side in the index
    of the user's jobs."""
    if not viewer.is_authenticated:
        return []
    jobs = queries.visible_jobs().filter(username=viewer.username)
    if text:
        jobs = jobs.filter(name__gte=text, name__lt=text + _LAST).order_by("name")
    else:
        jobs = jobs.order_by("-created_at")
    rows = jobs.values_list("name", "state", "execution")[:MOST]
    return [(name, job_url(viewer.username, name), shown_state(state, execution)) for name, state, execution in rows]


def _with(text: str, named: Iterable[tuple[str, str]]) -> Found:
    return [(name, url, "") for name, url in named if text.lower() in name.lower()][:MOST]
