"""The page on which an admin says that a node is gone for good."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from clusters.models import Node
from clusters.nodes.gone.services import confirm_gone
from clusters.nodes.services import find_node
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin
from portal.accounts.guard import signed_in
from portal.core import words
from portal.web.confirm import ask, back


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def gone(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = require_admin(request)
    node = find_node(name)
    url = f"/nodes/{quote(name)}"
    if request.method == "POST":
        confirm_gone(admin, name, ip_of(request))
        messages.success(request, f"{name} counts as gone until it is heard again. Its tasks are tried elsewhere.")
        return redirect(back(request, url))
    return ask(request, url, nav="nodes", **_question(node))


def _question(node: Node) -> dict[str, Any]:
    if node.health != Node.Health.UNREACHABLE:
        return {
            "title": f"{node.name} answers",
            "effect": "It is not gone. Cordon or drain it to take it out of service.",
            "keep": "Back",
            "sure": False,
        }
    running = node.allocations.count()
    tasks = f"{words.count(running, 'task is', 'tasks are')} lost and tried elsewhere at once. " if running else ""
    listed = "Pods that its cluster still lists there are deleted by force. " if node.cluster_id else ""
    back = "its kubelet ends it" if node.cluster_id else "it is removed before its GPUs are offered"
    return {
        "title": f"Is {node.name} gone for good?",
        "effect": "Say so only when the machine is surely off: Longshore cannot see it, and tasks that run on there"
        f" would run twice. {tasks}{listed}If something still runs there when it comes back, {back}.",
        "verb": f"{node.name} is gone",
        "verb_icon": "plug-connected-x",
        "keep": "I am not sure",
    }
