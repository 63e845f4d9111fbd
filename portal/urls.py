"""All routes: the one place that knows all apps. None carries a trailing slash; portal.web.middleware lets a request
with one find them."""

from __future__ import annotations

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView

from portal import health
from portal.web import error_pages, theme
from portal.web.api import docs, paths, root

_V1 = [
    path("", include("portal.accounts.api.urls")),
    path("", include("portal.overview.api_urls")),
    path("", include("clusters.api_urls")),
    path("", include("jobs.api.urls")),
    path("", include("jobs.reports.api_urls")),
    path("", include("jobs.policy.api_urls")),
    path("", include("jobs.plots.api_urls")),
    path("", include("jobs.web_apps.api_urls")),
    path("", include("jobs.sweeps.api_urls")),
]
_V2 = [
    path("", include("portal.accounts.api.urls")),
    path("", include("clusters.api_v2_urls")),
    path("", include("jobs.api.v2_urls")),
]

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("theme", theme.theme, name="theme"),
    path("api/v1", root.root),
    path("rest-server/api/v1", root.root),
    path("rest-server/api/v1/", include((_V1, "rest-server"))),
    path("api/v1/", include(_V1)),
    path("rest-server/api/v2/", include((_V2, "rest-server-v2"))),
    path("api/v2/", include((_V2, "v2"))),
    path("api/schema", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs", docs.docs, name="api-docs"),
    path("rest-server/api/", include(("jobs.api.early_urls", "rest-server-early"))),
    path("api/", include("jobs.api.early_urls")),
    re_path(rf"^{paths.PREFIX}", paths.other_spelling),
    path("", include("portal.accounts.views.urls")),
    path("", include("portal.files.page.urls")),
    path("", include("portal.overview.urls")),
    path("", include("portal.web.old_addresses")),
    path("", include("clusters.urls")),
    path("", include("jobs.views.urls")),
    path("", include("jobs.reports.urls")),
    path("", include("jobs.policy.urls")),
    path("", include("jobs.plots.urls")),
    path("", include("jobs.web_apps.urls")),
    path("", include("jobs.sweeps.urls")),
]
handler400 = error_pages.bad_request
handler403 = error_pages.forbidden
handler404 = error_pages.not_found
handler500 = error_pages.server_error
