"""``/metrics``: the portal, its queue, nodes and jobs in the text format of Prometheus, made when it is asked for.

Who reads it: admins and auditors with their token, from everywhere, and whoever asks from LONGSHORE_METRICS_FROM (this
host). For the latter no user and no job is named. A request that came through a proxy is from nowhere, unless the proxy
is one of LONGSHORE_TRUSTED_PROXIES: else the whole world would seem to be this host.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.request import Request

from base.accounts.viewer import reads_all, require
from base.roles import Permission
from portal.metrics import figures
from portal.metrics.text import Family, written
from portal.shared.api.v1 import V1View
from portal.shared.viewer import ip_of, viewer_of


class Metrics(V1View):
    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        viewer = viewer_of(request)
        if not (with_names := reads_all(viewer)) and not is_near(request._request):
            require(viewer, Permission.READ_ALL, "The metrics of the portal are for admins and auditors.")
        return HttpResponse(written(_scrape(with_names=with_names)), content_type=CONTENT_TYPE_LATEST)


def _scrape(*, with_names: bool) -> Iterator[Family]:
    """``with_names``: with the series of single jobs, which name their users."""
    began = time.monotonic()
    yield from figures.families(with_names=with_names)
    yield figures.gauge("scrape_seconds", "How long it took to collect all this", [], {(): time.monotonic() - began})


def is_near(request: HttpRequest) -> bool:
    """Whether the request comes from LONGSHORE_METRICS_FROM, and through nobody who might hide where from."""
    if any(header in request.META for header in ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_VIA")):
        return False
    try:
        address = ipaddress.ip_address(ip_of(request) or "")
    except ValueError:
        return False
    return any(address in network for network in settings.METRICS_FROM)
