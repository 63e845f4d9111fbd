"""Pages by which admins add, change and remove nodes, and take them out of service or back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from clusters.nodes.adding.checks import Tested
from clusters.nodes.adding.form import NodeForm
from clusters.nodes.adding.saving import answer
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin
from portal.accounts.guard import signed_in
from portal.core import words
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

    def register(form: NodeForm) -> str:
        node = services.register_node(admin, form.body(), ip_of(request))
        if request.POST.get("action") == "cordoned":
            services.set_node_status(admin, node.name, {"nodeStatus": "cordoned"}, ip_of(request))
        return f"{node.name} is a node: {words.count(node.cpus, 'core')}, {_gpus(node)}."

    return _sent(request, forms.read(request, admin.username), register)


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, name: str) -> HttpResponseBase:
    """POST with ``action``: test as above, or save."""
    admin = require_admin(request)
    node = services.find_node(name)
    if node.cluster is not None:
        return redirect(f"/clusters/{node.cluster.name}/edit")
    before = forms.of_node(node)
    if request.method != "POST":
        return _page(request, before)

    def save(form: NodeForm) -> str:
        changes = forms.changes(form, before)
        if not changes:
            return f"Nothing was changed of {name}."
        services.change_node(admin, name, changes, ip_of(request))
        return f"{name} was changed."

    return _sent(request, forms.read(request, admin.username, name=name), save)


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = require_admin(request)
    node = services.find_node(name)
    if node.cluster is not None:
        return redirect(f"/clusters/{node.cluster.name}/edit")
    if request.method == "POST":
        services.remove_node(admin, name, ip_of(request))
        messages.success(request, f"{name} was removed.")
        return redirect("/nodes")
    return ask(request, _url(name), nav="nodes", **_removal_question(node))


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


def _removal_question(node: Node) -> dict[str, Any]:
    if running := node.allocations.count():
        return {
            "title": f"{node.name} is in use",
            "effect": f"{words.count(running, 'task holds', 'tasks hold')} something on it. Drain it first.",
            "keep": "Back",
            "sure": False,
        }
    lost = f"{words.count(node.cpus, 'core')} and {_gpus(node)}"
    return {
        "title": f"Remove {node.name}?",
        "effect": f"The cluster loses its {lost}. Docker there goes on; nothing is removed from it.",
        "verb": f"Remove {node.name}",
        "verb_icon": "trash",
        "keep": "Keep it",
    }


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


def _sent(request: HttpRequest, sent: NodeForm, save: Callable[[NodeForm], str]) -> HttpResponseBase:
    """Test the form, or ``save`` it, which returns the sentence that says what was done."""
    form = sent.checked()
    if request.POST.get("action") == "test":
        return _tested(request, form)

    def accept_and_save() -> str:
        checks.accept_host_key(form)
        return save(form)

    return answer(request, form, accept_and_save, partial(_page, request), _url(form.name))


def _tested(request: HttpRequest, form: NodeForm) -> HttpResponse:
    """200 also when the test fails: nothing was refused, and htmx would not show a refusal. A script gets the steps of
    one stage, others all of them in the page."""
    stage = request.POST.get("stage", "")
    is_script = request.headers.get("HX-Request") == "true"
    tested = None if form.errors else checks.test(form, stage if is_script else "")
    if not is_script:
        return _page(request, form, tested=tested)
    goes_on = tested is not None and stage != checks.STAGES[0]
    template = "clusters/_node_steps.html" if goes_on else "clusters/_node_test.html"
    return render(request, template, {"tested": tested, "form": form, "url": request.path, "script": True})


def _page(request: HttpRequest, form: NodeForm, status: int = 200, tested: Tested | None = None) -> HttpResponse:
    known = {"nav": "nodes", "form": form, "public_key": own_ssh.public_key(), "url": request.path, "tested": tested}
    return render(request, "clusters/node_form.html", known, status=status)


def _url(name: str) -> str:
    return f"/nodes/{quote(name)}"


def _gpus(node: Node) -> str:
    return words.count(len(node.gpus), "GPU") if node.gpus else "no GPUs"
