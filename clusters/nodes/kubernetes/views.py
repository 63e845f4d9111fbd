"""Pages by which admins add, change and remove Kubernetes clusters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from clusters.models import Cluster, Node
from clusters.nodes.adding.checks import Tested
from clusters.nodes.adding.saving import answer
from clusters.nodes.kubernetes import checks, services
from clusters.nodes.kubernetes.form import ClusterForm, of_cluster, read
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin
from portal.accounts.guard import signed_in
from portal.core import words
from portal.web.confirm import ask


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def add(request: HttpRequest) -> HttpResponseBase:
    """POST with ``action``: test, or add."""
    admin = require_admin(request)
    if request.method != "POST":
        return _page(request, ClusterForm())
    form = read(request, admin.username)

    def save() -> str:
        cluster, hints = services.register_cluster(admin, form.body(), ip_of(request))
        for hint in hints:
            messages.warning(request, hint)
        return f"{cluster.name} is added: {words.count(Node.objects.filter(cluster=cluster).count(), 'node')}."

    return _sent(request, form, save)


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, name: str) -> HttpResponseBase:
    """POST with ``action``: test, or save."""
    admin = require_admin(request)
    cluster = services.find_cluster(name)
    if request.method != "POST":
        return _page(request, of_cluster(cluster))
    form = read(request, admin.username, cluster)

    def save() -> str:
        services.change_cluster(admin, name, form.body(), ip_of(request))
        return f"{name} was changed."

    return _sent(request, form, save, cluster)


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = require_admin(request)
    cluster = services.find_cluster(name)
    if request.method == "POST":
        services.remove_cluster(admin, name, ip_of(request))
        messages.success(request, f"{name} was removed.")
        return redirect("/nodes")
    return ask(request, f"/clusters/{name}/edit", nav="nodes", **_removal_question(cluster))


def _removal_question(cluster: Cluster) -> dict[str, Any]:
    if held := services.holding(cluster):
        return {
            "title": f"{cluster.name} is in use",
            "effect": f"{words.count(held, 'task holds', 'tasks hold')} something on its nodes. Drain them first.",
            "keep": "Back",
            "sure": False,
        }
    nodes = words.count(Node.objects.filter(cluster=cluster).count(), "node")
    return {
        "title": f"Remove {cluster.name}?",
        "effect": f"Its {nodes} go from here. Nothing is removed from the cluster itself.",
        "verb": f"Remove {cluster.name}",
        "verb_icon": "trash",
        "keep": "Keep it",
    }


def _sent(
    request: HttpRequest, sent: ClusterForm, save: Callable[[], str], cluster: Cluster | None = None
) -> HttpResponseBase:
    """Test the form, or ``save`` it, which returns the sentence that says what was done."""
    form = sent.checked()
    if request.POST.get("action") == "test":
        tested = None if form.errors else checks.test(form, cluster)
        if request.headers.get("HX-Request") == "true":
            return render(request, "clusters/_node_test.html", {"tested": tested, "form": form, "url": request.path})
        return _page(request, form, tested=tested)
    return answer(request, form, save, partial(_page, request), "/nodes")


def _page(request: HttpRequest, form: ClusterForm, status: int = 200, tested: Tested | None = None) -> HttpResponse:
    known = {"nav": "nodes", "form": form, "url": request.path, "tested": tested}
    return render(request, "clusters/cluster_form.html", known, status=status)
