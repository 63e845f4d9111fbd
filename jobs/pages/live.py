"""Draws the parts of a page that change while it is open: a version for each page, and its parts as HTML by element
id."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string

from jobs import access, queries, versions
from jobs.pages.home import home
from jobs.pages.listing import ListQuery, facets, newer_than, page_of, rows_by_id
from jobs.pages.nodes import wall as walls
from jobs.pages.nodes.all import nodes_page, nodes_version
from jobs.pages.nodes.check import check_page, check_version
from jobs.pages.nodes.drain import drain_page
from jobs.pages.nodes.node import node_page
from jobs.pages.nodes.node import version as node_version
from jobs.pages.tabs import context
from portal.accounts.viewer import Viewer, may_read_jobs, require_admin, require_user, viewer_of
from portal.core import words
from portal.core.errors import NoJob, NoNode, NotFound, Unauthorized

_OURS = ("page", "v", "top", "shown", "user", "name", "tab", "sel")  # the rest is the page's own query


def address(page: str, /, **params: object) -> str:
    """The address of a page's live stream. ``params`` has ``v``, the version from which the page was drawn, and the
    page's own query; a ``page`` in that query is left out."""
    given = {name: value for name, value in params.items() if name != "page" and value not in (None, "")}
    return f"/stream/page?{urlencode({'page': page, **given})}"


class LivePage(Protocol):
    """A page that somebody has open."""

    def require(self, viewer: Viewer) -> object:
        """Raises Unauthorized or Forbidden for those who may not see it. Asked again and again while the page is open,
        with the user as they are then."""
        ...

    def version(self) -> str:
        """Changes whenever a part may have changed; cheap."""
        ...

    def parts(self) -> dict[str, str]:
        """The HTML of each part by the id of its element."""
        ...


def open_page(request: HttpRequest) -> LivePage:
    """The page that the query names. Raises Unauthorized, Forbidden, NoJob, NotFound."""
    viewer = viewer_of(request)
    require_reader(viewer)
    kind = _KINDS.get(request.GET.get("page", ""))
    if kind is None:
        raise NotFound("There is no such page.")
    page = kind(request)
    page.require(viewer)
    return page


def require_reader(viewer: Viewer) -> None:
    if not may_read_jobs(viewer):
        raise Unauthorized


class _ForReaders:
    def require(self, viewer: Viewer) -> None:
        require_reader(viewer)


class _ForUsers:
    def require(self, viewer: Viewer) -> None:
        require_user(viewer)


class ForAdmins:
    def require(self, viewer: Viewer) -> None:
        require_admin(viewer)


class Home(_ForReaders):
    def __init__(self, request: HttpRequest) -> None:
        self._request = as_page(request)
        self.version = versions.of_pages

    def parts(self) -> dict[str, str]:
        page = home(viewer_of(self._request))
        return {
            "home-jobs": render_to_string("jobs/_home_jobs.html", page, self._request),
            "home-cluster": render_to_string("jobs/_home_cluster.html", page, self._request),
        }


class Jobs(_ForReaders):
    """The job list. Its lines stay where they are; how many newer jobs there are is said above them."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = as_page(request)
        self._query = ListQuery.read(self._request.GET.dict())
        rows, newer, _ = page_of(self._query, viewer_of(request))
        self._top = _number(request.GET.get("top"))
        self._ids = [row.id for row in rows if row.id <= self._top]
        self._is_first = self._query.sort == "newest" and not (newer or self._query.before or self._query.after)
        self._changed = len(self._ids) != _number(request.GET.get("shown"))
        self._selectable = bool(request.GET.get("sel"))
        self.version = versions.of_pages

    def parts(self) -> dict[str, str]:
        page: dict[str, Any] = {"facets": facets(self._query), "news": self._news(), "news_url": self._query.address()}
        drawn: dict[str, str] = {
            "jobs-facets": render_to_string("jobs/_facets.html", page, self._request),
            "jobs-news": render_to_string("jobs/_news.html", page, self._request),
        }
        for row in rows_by_id(self._ids, self._query.which, viewer_of(self._request)):
            line = {"row": row, "selectable": self._selectable}
            drawn[row.part] = render_to_string("jobs/_row.html", line)
        return drawn

    def _news(self) -> str:
        new = newer_than(self._query, self._top) if self._is_first else 0
        if new:
            return f"{words.count(new, 'new job')}{'' if new < 100 else ' or more'}."
        return "The list has changed." if self._changed else ""


class Nodes(_ForUsers):
    """The page of nodes. It is for users who are signed in."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = as_page(request)
        self.version = nodes_version

    def parts(self) -> dict[str, str]:
        return {"nodes": render_to_string("clusters/_nodes.html", nodes_page(viewer_of(self._request)), self._request)}


class OneJob:
    def __init__(self, request: HttpRequest) -> None:
        self._username, self._name = request.GET.get("user", ""), request.GET.get("name", "")
        self._tab = request.GET.get("tab", "")
        self._request = as_page(request)
        self._job = queries.get_job(self._username, self._name)

    def require(self, viewer: Viewer) -> None:
        require_reader(viewer)
        if self._tab != "tasks":
            access.require_story(viewer, self._job)

    def version(self) -> str:
        try:
            return versions.of_job_page(queries.get_job(self._username, self._name))
        except NoJob:
            return "gone"

    def parts(self) -> dict[str, str]:
        try:
            job = queries.get_job(self._username, self._name)
        except NoJob:
            return {"job-top": render_to_string("jobs/_gone.html", {"name": self._name})}
        page = context(job, viewer_of(self._request), self._tab, self._request.GET.dict())
        templates: dict[str, str] = {
            "job-head": "jobs/_head.html",
            "job-top": "jobs/_top.html",
            "job-tabs": "jobs/_tabs.html",
        }
        if self._tab in ("tasks", "events", "attempts"):
            templates["job-tab"] = str(page["tab_template"])
        if self._tab == "terminal" and page.get("chosen"):
            templates["job-terminals"] = "jobs/_terminals.html"
        return {part: render_to_string(template, page, self._request) for part, template in templates.items()}


class OneNode:
    """The page of one node, or of draining it. It is for users who are signed in."""

    def __init__(self, request: HttpRequest) -> None:
        self._request, self._name = as_page(request), request.GET.get("name", "")
        self._is_drain = request.GET.get("page") == "drain"

    def require(self, viewer: Viewer) -> None:
        require_admin(viewer) if self._is_drain else require_user(viewer)

    def version(self) -> str:
        return node_version(self._name)

    def parts(self) -> dict[str, str]:
        part, page = ("drain", drain_page) if self._is_drain else ("node", node_page)
        try:
            context = page(self._name, viewer_of(self._request))
        except NoNode:
            return {}
        return {part: render_to_string(f"jobs/_{part}.html", context, self._request)}


class Check(ForAdmins):
    """What the last check of the cluster found. It is for admins."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = as_page(request)
        self.version = check_version

    def parts(self) -> dict[str, str]:
        return {"check": render_to_string("jobs/_check.html", check_page(), self._request)}


class Wall(_ForReaders):
    """The whole cluster on one screen."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = as_page(request)
        self.version = walls.version

    def parts(self) -> dict[str, str]:
        page = walls.wall(viewer_of(self._request))
        names = {f"wall-{part}": f"jobs/_wall_{part}.html" for part in ("top", "side", "alerts")}
        drawn: dict[str, str] = {
            part: render_to_string(template, page, self._request) for part, template in names.items()
        }
        for number, nodes in enumerate(page["blocks"]):
            block = {"nodes": nodes, "number": number}
            drawn[f"wall-nodes-{number}"] = render_to_string("jobs/_wall_nodes.html", block, self._request)
        return drawn


_KINDS: dict[str, Callable[[HttpRequest], LivePage]] = {
    "home": Home,
    "jobs": Jobs,
    "job": OneJob,
    "nodes": Nodes,
    "node": OneNode,
    "drain": OneNode,
    "wall": Wall,
    "check": Check,
}


def register(kind: str, page: Callable[[HttpRequest], LivePage]) -> None:
    """Add a page of a room above this one. It says itself who may open it."""
    _KINDS[kind] = page


def as_page(request: HttpRequest) -> HttpRequest:
    """The request with the query of the page itself, for templates that build links from it."""
    own = copy.copy(request)
    query = QueryDict(mutable=True)
    for name, value in request.GET.items():
        if name not in _OURS:
            query[name] = str(value)
    own.GET = query  # type: ignore[assignment]
    return own


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else 0
