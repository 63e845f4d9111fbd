"""Pages by which admins add, change and remove nodes, and take them out of service or back."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from clusters.engines import own_ssh
from clusters.models import Node
from clusters.nodes import services
from clusters.nodes.adding import checks
from clusters.nodes.adding import form as forms
from clusters.nodes.adding.form import NodeForm
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin
from portal.accounts.guard import signed_in
from portal.core import words
from portal.core.errors import LongshoreError
from portal.web.confirm import ask, back


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def add(request: HttpRequest) -> HttpResponseBase:
    """POST with ``action``: test (``stage``: one of checks.STAGES, for a script that asks for one after the other),
    add, or cordoned (add it and offer nothing of it yet)."""
    admin = require_admin(request)
    if request.method != "POST":
        return _page(request, NodeForm())
    form = forms.read(request, admin.username).checked()
    if request.POST.get("action") == "test":
        return _tested(request, form)
    if form.errors:
        return _page(request, form, status=400)
    try:
        checks.accept_host_key(form)
        node = services.register_node(admin, form.body(), ip_of(request))
        if request.POST.get("action") == "cordoned":
            services.set_node_status(admin, node.name, {"nodeStatus": "cordoned"}, ip_of(request))
    except LongshoreError as error:
        return _page(request, form.refused(error.message), status=error.status)
    messages.success(request, f"{node.name} is a node: {words.count(node.cpus, 'core')}, {_gpus(node)}.")
    return redirect(_url(node.name))


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, name: str) -> HttpResponseBase:
    """POST with ``action``: test as above, or save."""
    admin = require_admin(request)
    before = forms.of_node(services.find_node(name))
    if request.method != "POST":
        return _page(request, before)
    form = forms.read(request, admin.username, name=name).checked()
    if request.POST.get("action") == "test":
        return _tested(request, form)
    if form.errors:
        return _page(request, form, status=400)
    try:
        checks.accept_host_key(form)
        if changes := forms.changes(form, before):
            services.change_node(admin, name, changes, ip_of(request))
    except LongshoreError as error:
        return _page(request, form.refused(error.message), status=error.status)
    messages.success(request, f"{name} was changed." if changes else f"Nothing was changed of {name}.")
    return redirect(_url(name))


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = require_admin(request)
    node = services.find_node(name)
    if request.method == "POST":
        services.remove_node(admin, name, ip_of(request))
        messages.success(request, f"{name} was removed.")
        return redirect("/nodes")
    if running := node.allocations.count():
        return ask(
            request,
            _url(name),
            nav="nodes",
            title=f"{name} is in use",
            effect=f"{words.count(running, 'task holds', 'tasks hold')} something on it. Drain it first.",
            keep="Back",
            sure=False,
        )
    lost = f"{words.count(node.cpus, 'core')} and {_gpus(node)}"
    effect = f"The cluster loses its {lost}. Docker there goes on; nothing is removed from it."
    return ask(
        request,
        _url(name),
        nav="nodes",
        title=f"Remove {name}?",
        effect=effect,
        verb=f"Remove {name}",
        verb_icon="trash",
        keep="Keep it",
    )


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def status(request: HttpRequest, name: str) -> HttpResponseBase:
    """Cordon it, or offer it again; draining has a page of its own. Field of the POST: to (active, cordoned)."""
    admin = require_admin(request)
    node = services.find_node(name)
    if request.method == "POST":
        to = request.POST.get("to", "")
        node = services.set_node_status(admin, name, {"nodeStatus": to}, ip_of(request))
        is_offered = node.status == Node.Status.ACTIVE
        messages.success(request, f"{name} {'is offered again' if is_offered else 'gets nothing new'}.")
        return redirect(back(request, _url(name)))
    return ask(request, _url(name), nav="nodes", **_status_question(node))


def _status_question(node: Node) -> dict[str, Any]:
    if node.status == Node.Status.ACTIVE:
        return {
            "title": f"Cordon {node.name}?",
            "effect": "Nothing new starts on it. What runs there goes on.",
            "fields": {"to": "cordoned"},
            "verb": f"Cordon {node.name}",
            "verb_icon": "circle-minus",
            "verb_class": "btn-primary",
            "keep": "Keep it active",
        }
    return {
        "title": f"Offer {node.name} again?",
        "effect": "Waiting jobs may start on it from now on.",
        "fields": {"to": "active"},
        "verb": f"Offer {node.name}",
        "verb_icon": "player-play",
        "verb_class": "btn-primary",
        "keep": "Leave it as it is",
    }


def _tested(request: HttpRequest, form: NodeForm) -> HttpResponse:
    """200 also when the test fails: nothing was refused, and htmx would not show a refusal. A script gets the steps of
    one stage, others all of them in the page."""
    stage = request.POST.get("stage", "")
    is_script = request.headers.get("HX-Request") == "true"
    if not form.errors:
        found = checks.test(form, stage if is_script else "")
    if not is_script:
        return _page(request, form, {} if form.errors else {"tested": found})
    if form.errors:
        return render(request, "clusters/_node_test.html", {"form": form, "url": request.path, "script": True})
    before = {"tested": found, "form": form, "url": request.path, "script": True}
    template = "clusters/_node_test.html" if stage == checks.STAGES[0] else "clusters/_node_steps.html"
    return render(request, template, before)


def _page(request: HttpRequest, form: NodeForm, more: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    known = {"nav": "nodes", "form": form, "public_key": own_ssh.public_key(), "url": request.path}
    return render(request, "clusters/node_form.html", {**known, **(more or {})}, status=status)


def _url(name: str) -> str:
    return f"/nodes/{quote(name)}"


def _gpus(node: Node) -> str:
    return words.count(len(node.gpus), "GPU") if node.gpus else "no GPUs"
