"""ETags: 304 answers for clients that have the same answer already, and for others the answer that was made before."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts.scopes import Scope
from base.accounts.viewer import Viewer, require_scope
from portal.shared.api import repeated
from portal.shared.api.repeated import Version
from portal.shared.api.scopes import needed
from portal.shared.viewer import viewer_of


def of(*versions: object) -> str:
    """The ETag of an answer that depends on these; weak, since the same answer may come compressed or not."""
    text = "\n".join(map(str, (settings.VERSION, *versions)))
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def answer(request: Request, version: Version, *, keep: bool = True) -> HttpResponseBase:
    """304 when the client says that it has the answer with this ETag; else what the version makes. ``keep``: the answer
    depends on nothing but the address and the version, so it may be sent again to anybody with the same."""
    viewer = viewer_of(request)
    etag = version.etag(viewer, version.text())
    made = repeated.unchanged(request._request, etag) or _response(version.make(viewer))
    made["Cache-Control"] = "no-cache"
    if etag:
        made["ETag"] = etag
    if keep:
        repeated.as_long_as(request._request, scoped(needed(request), version))
    return made


def _response(values: Any) -> HttpResponseBase:
    return values if isinstance(values, HttpResponseBase) else Response(values)


def scoped(scope: Scope | None, version: Version) -> Version:
    """The version, which raises Forbidden for a token without the scope."""

    def checked(viewer: Viewer, text: str) -> str:
        if scope is not None:
            require_scope(viewer, scope)
        return version.etag(viewer, text)

    return replace(version, etag=checked)
