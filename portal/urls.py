"""All addresses: pages, and the API below ``/api/`` and, as in the older system, below ``/rest-server/api/``. None
carries a trailing slash; portal.shared.middleware lets a request with one find them."""

from __future__ import annotations

from django.urls import include, path, re_path

from portal import health, page_urls
from portal.api_urls import first_release, v1, v2
from portal.docs.api import DocumentView, docs
from portal.shared import error_pages
from portal.shared.api import paths

urlpatterns = [
    path("healthz", health.healthz),
    path("api/v1", paths.root),
    path("rest-server/api/v1", paths.root),
    path("api/v1/", include(v1)),
    path("rest-server/api/v1/", include((v1, "rest-server"))),
    path("rest-server/api/v2/", include((v2, "rest-server-v2"))),
    path("api/v2/", include((v2, "v2"))),
    path("api/schema", DocumentView.as_view()),
    path("api/docs", docs),
    path("rest-server/api/", include((first_release, "rest-server-early"))),
    path("api/", include(first_release)),
    re_path(rf"^{paths.PREFIX}", paths.other_spelling),
    *page_urls.urlpatterns,
]
handler400 = error_pages.bad_request
handler403 = error_pages.forbidden
handler404 = error_pages.not_found
handler500 = error_pages.server_error
