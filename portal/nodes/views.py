"""Pages of all nodes, of one, of draining it or counting it as gone, of the last check of the cluster, and of the whole
cluster on a wall; and what is drawn again of them while they are open."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from base.accounts.viewer import Viewer, require, require_admin, require_user
from base.core import words
from base.core.errors import NoNode
from base.roles import Permission
from clusters.models import Node
from clusters.nodes import services
from clusters.nodes.gone import confirm_gone
from jobs.checking.plan import PARTS, NodeCheck
from jobs.checking.run import CHECK_LIMIT, last_check, order_check
from portal.nodes.drain import DONE, drain_page
from portal.nodes.listing import NodesQuery, nodes_page
from portal.nodes.node import node_page, node_version
from portal.nodes.rows import nodes_version
from portal.nodes.wall import wall_page, wall_version
from portal.shared.confirm import ask_to_confirm, question, return_url
from portal.shared.guard import own_form, own_page, reading
from portal.shared.live.page import LivePage, address
from portal.shared.viewer import admin_of, all_reader_of, viewer_of


@own_page
def all_nodes(request: HttpRequest) -> HttpResponse:
    asked = request.GET.dict()
    stream = address("nodes", **{**asked, "v": nodes_version()})  # before the reads
    page = nodes_page(NodesQuery(asked), viewer_of(request))
    return render(request, "nodes/nodes.html", {"stream": stream, **page})


@own_page
def node(request: HttpRequest, name: str) -> HttpResponse:
    stream = address("node", name=name, v=node_version(name))  # before the reads
    return render(request, "nodes/node.html", {"stream": stream, **node_page(name, viewer_of(request))})


@reading
def wall(request: HttpRequest) -> HttpResponse:
    stream = address("wall", v=wall_version())
    return render(request, "nodes/wall.html", {"stream": stream, **wall_page(viewer_of(request))})


@own_form
def cluster_check(request: HttpRequest) -> HttpResponseBase:
    """What the last check of the cluster found; POST begins another one."""
    reader = all_reader_of(request)
    if request.method == "POST":
        if not last_check()[1]:
            order_check(reader)
            messages.success(request, "The check begins in a moment. This page shows what it finds.")
        return redirect(request.path)
    stream = address("check", v=_check_version())
    return render(request, "nodes/check.html", {"stream": stream, **_check_page()})


@own_form
def drain_node(request: HttpRequest, name: str) -> HttpResponseBase:
    """Field of the POST: to (draining, cordoned, active)."""
    admin = admin_of(request)
    if request.method == "POST":
        to = request.POST.get("to", "")
        services.set_node_status(admin, name, {"nodeStatus": to})
        messages.success(request, DONE[to].format(name=name))
        return redirect(request.path)
    stream = address("drain", name=name, v=node_version(name))
    return render(request, "nodes/drain.html", {"stream": stream, **drain_page(name, viewer_of(request))})


@own_form
def node_gone(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = admin_of(request)
    node = services.find_node(name)
    url = f"/nodes/{quote(name)}"
    if request.method == "POST":
        confirm_gone(admin, name)
        messages.success(request, f"{name} counts as gone until it is heard again. Its tasks are tried elsewhere.")
        return redirect(return_url(request, url))
    return ask_to_confirm(request, url, nav="nodes", **_gone_question(node))


class LiveNodes(LivePage):
    """The page of nodes. It is for users who are signed in."""

    def require(self, viewer: Viewer) -> object:
        return require_user(viewer)

    def version(self) -> str:
        return nodes_version()

    def parts(self) -> dict[str, str]:
        page = nodes_page(NodesQuery(self.request.GET.dict()), self.viewer)
        parts = {"nodes": "nodes/_nodes.html", "nodes-facets": "nodes/_nodes_facets.html"}
        return {part: self.drawn(template, page) for part, template in parts.items()}


class LiveNode(LivePage):
    """The page of one node, or of draining it. It is for users who are signed in, or for admins."""

    def require(self, viewer: Viewer) -> object:
        return require_admin(viewer) if self._is_drain else require_user(viewer)

    def version(self) -> str:
        return node_version(self._name)

    def parts(self) -> dict[str, str]:
        part, page = ("drain", drain_page) if self._is_drain else ("node", node_page)
        try:
            return {part: self.drawn(f"nodes/_{part}.html", page(self._name, self.viewer))}
        except NoNode:
            return {}

    @property
    def _name(self) -> str:
        return self.asked.get("name", "")

    @property
    def _is_drain(self) -> bool:
        return self.asked.get("page") == "drain"


class LiveCheck(LivePage):
    """What the last check of the cluster found. It is for admins and auditors."""

    def require(self, viewer: Viewer) -> object:
        return require(viewer, Permission.READ_ALL)

    def version(self) -> str:
        return _check_version()

    def parts(self) -> dict[str, str]:
        return {"check": self.drawn("nodes/_check.html", _check_page())}


class LiveWall(LivePage):
    """The whole cluster on one screen."""

    def version(self) -> str:
        return wall_version()

    def parts(self) -> dict[str, str]:
        page = wall_page(self.viewer)
        drawn = {f"wall-{part}": self.drawn(f"nodes/_wall_{part}.html", page) for part in ("top", "side", "alerts")}
        for number, block in enumerate(page["blocks"]):
            shown = {"nodes": block, "number": number}
            drawn[f"wall-nodes-{number}"] = self.drawn("nodes/_wall_nodes.html", shown)
        return drawn


def _check_page() -> dict[str, Any]:
    """The context of nodes/check.html; two queries."""
    ended, runs = last_check()
    data = ended.data if ended else {}
    rows = [NodeCheck(**row) for row in data.get("rows", ())]
    return {
        "nav": "nodes",
        "parts": PARTS,
        "runs": runs,
        "ended": ended,
        "rows": rows,
        "skipped": sum(bool(row.skipped) for row in rows),
        "nodes": data.get("nodes", 0),
        "works": data.get("works", 0),
        "limit": CHECK_LIMIT,
    }


def _check_version() -> str:
    ended, runs = last_check()
    return f"{ended.pk if ended else 0}.{runs}"


def _gone_question(node: Node) -> dict[str, Any]:
    if node.health != Node.Health.UNREACHABLE:
        says = "It is not gone. Cordon or drain it to take it out of service."
        return question(f"{node.name} answers", says)
    running = node.allocations.count()
    tasks = f"{words.count(running, 'task is', 'tasks are')} lost and tried elsewhere at once. " if running else ""
    listed = "Pods that its cluster still lists there are deleted by force. " if node.cluster_id else ""
    then = "its kubelet ends it" if node.cluster_id else "it is removed before its GPUs are offered"
    effect = (
        "Say so only when the machine is surely off: Longshore cannot see it, and tasks that run on there would run"
        f" twice. {tasks}{listed}If something still runs there when it comes back, {then}."
    )
    title, verb = f"Is {node.name} gone for good?", f"{node.name} is gone"
    return question(title, effect, verb, "plug-connected-x", "I am not sure")
