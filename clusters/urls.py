"""Pages below ``/``. Routes have no trailing slash; requests with one reach them too."""

from __future__ import annotations

from django.urls import URLPattern, path

from clusters.nodes.adding import views as adding
from clusters.nodes.gone import views as gone
from clusters.nodes.kubernetes import paths as _paths  # noqa: F401 - makes <node:name> known
from clusters.nodes.kubernetes import views as kubernetes
from clusters.users import views as users
from clusters.vcs import views as vcs

urlpatterns: list[URLPattern] = [
    path("add-node", adding.add, name="node-add"),
    path("nodes/<node:name>/edit", adding.edit, name="node-edit"),
    path("nodes/<node:name>/remove", adding.remove, name="node-remove"),
    path("nodes/<node:name>/status", adding.status, name="node-status"),
    path("nodes/<node:name>/gone", gone.gone, name="node-gone"),
    path("add-cluster", kubernetes.add, name="cluster-add"),
    path("clusters/<str:name>/edit", kubernetes.edit, name="cluster-edit"),
    path("clusters/<str:name>/remove", kubernetes.remove, name="cluster-remove"),
    path("users", users.users, name="users"),
    path("users/<str:username>", users.user, name="user"),
    path("users/<str:username>/delete", users.delete, name="user-delete"),
    path("vcs", vcs.vcs, name="vcs"),
    path("vcs/<str:name>", vcs.vc, name="vc"),
    path("vcs/<str:name>/settings", vcs.settings, name="vc-settings"),
    path("vcs/<str:name>/status", vcs.status, name="vc-status"),
    path("vcs/<str:name>/delete", vcs.delete, name="vc-delete"),
]
