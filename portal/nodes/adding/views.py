"""Pages by which admins add, change and remove nodes and Kubernetes clusters, and take nodes out of service or back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from base.core import words
from base.core.errors import LongshoreError
from clusters.engines import own_ssh
from clusters.models import Node
from clusters.nodes import services
from clusters.nodes.kubernetes import services as clusters  # ``services`` are those of nodes
from portal.nodes.adding import checks, cluster_checks, forms
from portal.nodes.adding.checks import Tested
from portal.nodes.adding.forms import ClusterForm, EngineForm, NodeForm
from portal.shared.confirm import ask_to_confirm, question, return_url
from portal.shared.guard import own_form
from portal.shared.viewer import admin_of

F = TypeVar("F", bound=EngineForm)


@own_form
def add_node(request: HttpRequest) -> HttpResponseBase:
    """POST with ``action``: test (``stage``: one of checks.STAGES, for a script that asks for one after the other),
    add, or cordoned (add it and offer nothing of it yet)."""
    admin = admin_of(request)
    if request.method != "POST":
        return _page(request, NodeForm())

    def register(form: NodeForm) -> str:
        checks.accept_host_key(form)
        node = services.register_node(admin, form.body())
        if request.POST.get("action") == "cordoned":
            services.set_node_status(admin, node.name, {"nodeStatus": "cordoned"})
        return f"{node.name} is a node: {words.count(node.cpus, 'core')}, {_gpus(node)}."

    form = forms.read_node(request, admin.username)
    return _sent(request, form, checks.test, register, _url(form.name))


@own_form
def edit_node(request: HttpRequest, name: str) -> HttpResponseBase:
    """POST with ``action``: test as above, or save."""
    admin = admin_of(request)
    node = services.find_node(name)
    if node.cluster is not None:
        return redirect(f"/clusters/{node.cluster.name}/edit")
    before = forms.of_node(node)
    if request.method != "POST":
        return _page(request, before)

    def save(form: NodeForm) -> str:
        checks.accept_host_key(form)
        changes = forms.changes(form, before)
        if not changes:
            return f"Nothing was changed of {name}."
        services.change_node(admin, name, changes)
        return f"{name} was changed."

    return _sent(request, forms.read_node(request, admin.username, name=name), checks.test, save, _url(name))


@own_form
def add_cluster(request: HttpRequest) -> HttpResponseBase:
    """POST with ``action``: test, or add."""
    admin = admin_of(request)
    if request.method != "POST":
        return _page(request, ClusterForm())

    def register(form: ClusterForm) -> str:
        cluster, hints = clusters.register_cluster(admin, form.body())
        for hint in hints:
            messages.warning(request, hint)
        return f"{cluster.name} is added: {words.count(cluster.nodes.count(), 'node')}."

    form = forms.read_cluster(request, admin.username)
    return _sent(request, form, lambda form, _: cluster_checks.test(form), register, "/nodes")


@own_form
def edit_cluster(request: HttpRequest, name: str) -> HttpResponseBase:
    """POST with ``action``: test, or save."""
    admin = admin_of(request)
    cluster = clusters.find_cluster(name)
    if request.method != "POST":
        return _page(request, forms.of_cluster(cluster))

    def save(form: ClusterForm) -> str:
        clusters.change_cluster(admin, name, form.body())
        return f"{name} was changed."

    form = forms.read_cluster(request, admin.username, cluster)
    return _sent(request, form, lambda form, _: cluster_checks.test(form, cluster), save, "/nodes")


@own_form
def remove_node(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = admin_of(request)
    node = services.find_node(name)
    if node.cluster is not None:
        return redirect(f"/clusters/{node.cluster.name}/edit")
    if request.method == "POST":
        services.remove_node(admin, name)
        return _removed(request, name)
    lost = f"{words.count(node.cpus, 'core')} and {_gpus(node)}"
    effect = f"The cluster loses its {lost}. Docker there goes on; nothing is removed from it."
    asked = _removal_question(name, node.allocations.count(), "on it. Drain it first.", effect)
    return ask_to_confirm(request, _url(name), nav="nodes", **asked)


@own_form
def remove_cluster(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = admin_of(request)
    cluster = clusters.find_cluster(name)
    if request.method == "POST":
        clusters.remove_cluster(admin, name)
        return _removed(request, name)
    nodes = words.count(cluster.nodes.count(), "node")
    effect = f"Its {nodes} go from here. Nothing is removed from the cluster itself."
    asked = _removal_question(name, clusters.holding(cluster), "on its nodes. Drain them first.", effect)
    return ask_to_confirm(request, f"/clusters/{name}/edit", nav="nodes", **asked)


@own_form
def node_status(request: HttpRequest, name: str) -> HttpResponseBase:
    """Cordon it, or offer it again; draining has a page of its own. Field of the POST: to (active, cordoned)."""
    admin = admin_of(request)
    node = services.find_node(name)
    if request.method == "POST":
        to = request.POST.get("to", "")
        node = services.set_node_status(admin, name, {"nodeStatus": to})
        is_offered = node.status == Node.Status.ACTIVE
        messages.success(request, f"{name} {'is offered again' if is_offered else 'gets nothing new'}.")
        return redirect(return_url(request, _url(name)))
    return ask_to_confirm(request, _url(name), nav="nodes", **_status_question(node))


def _removed(request: HttpRequest, name: str) -> HttpResponseBase:
    messages.success(request, f"{name} was removed.")
    return redirect("/nodes")


def _removal_question(name: str, held: int, on: str, effect: str) -> dict[str, Any]:
    """``held``: by how many tasks; ``on`` ends the sentence that says so."""
    if held:
        return question(f"{name} is in use", f"{words.count(held, 'task holds', 'tasks hold')} something {on}")
    return question(f"Remove {name}?", effect, f"Remove {name}", keep="Keep it")


def _status_question(node: Node) -> dict[str, Any]:
    name, css = node.name, "btn-primary"
    if node.status == Node.Status.ACTIVE:
        effect = "Nothing new starts on it. What runs there goes on."
        return question(
            f"Cordon {name}?", effect, f"Cordon {name}", "circle-minus", "Keep it active", css, to="cordoned"
        )
    effect = "Waiting jobs may start on it from now on."
    return question(
        f"Offer {name} again?", effect, f"Offer {name}", "player-play", "Leave it as it is", css, to="active"
    )


def _sent(
    request: HttpRequest, sent: F, test: Callable[[F, str], Tested], save: Callable[[F], str], to: str
) -> HttpResponseBase:
    """Test the form, or save it and go on to the address ``to``. ``test`` gets the form and the stage that a script
    asks for; ``save`` returns the sentence that says what was done."""
    form = sent.checked()
    if request.POST.get("action") == "test":
        return _tested(request, form, test)
    if form.errors:
        return _page(request, form, 400)
    try:
        done = save(form)
    except LongshoreError as error:
        return _page(request, form.refused(error.message), error.status)
    messages.success(request, done)
    return redirect(to)


def _tested(request: HttpRequest, form: F, test: Callable[[F, str], Tested]) -> HttpResponse:
    """200 also when the test fails: nothing was refused, and htmx would not show a refusal. A script gets the steps of
    one stage, others all of them in the page."""
    is_script = request.headers.get("HX-Request") == "true"
    stage = request.POST.get("stage", "") if is_script else ""
    tested = None if form.errors else test(form, stage)
    if not is_script:
        return _page(request, form, tested=tested)
    goes_on = tested is not None and stage in checks.STAGES[1:]
    template = "nodes/adding/_steps.html" if goes_on else "nodes/adding/_test.html"
    return render(request, template, {"tested": tested, "form": form, "url": request.path, "script": bool(stage)})


def _page(request: HttpRequest, form: EngineForm, status: int = 200, tested: Tested | None = None) -> HttpResponse:
    known = {"nav": "nodes", "form": form, "public_key": own_ssh.public_key(), "url": request.path, "tested": tested}
    return render(request, form.TEMPLATE, known, status=status)


def _url(name: str) -> str:
    return f"/nodes/{quote(name)}"


def _gpus(node: Node) -> str:
    return words.count(len(node.gpus), "GPU") if node.gpus else "no GPUs"
