"""Completes addresses: what a token says of them, and paths of older releases."""

from __future__ import annotations

from dataclasses import replace

from portal.core.signals import about_jobs
from portal.files.store import delegation
from portal.files.webhdfs.messages import Request


def completed(request: Request) -> Request:
    """Add the operation that the token names: an address may have no more than a token for one operation."""
    if request.method == "GET":
        request = replace(request, path=about_jobs().moved_file(request.path))
    if request.op or not (token := request.params.get("delegation")):
        return request
    found = delegation.read(token)
    if found is None or len(found.ops) != 1:
        return request
    return replace(request, params={**request.params, "op": next(iter(found.ops))})
