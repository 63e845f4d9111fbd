"""What an address leaves unsaid, and paths of older releases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from portal.files.store import delegation
from portal.files.webhdfs.messages import Request

_path_of: Callable[[str], str] = lambda path: path  # noqa: E731 - replaced by the app of jobs


def older_paths_with(path_of: Callable[[str], str]) -> None:
    """Called once, when the app of jobs is ready: it knows where a file is now that was elsewhere in older releases."""
    global _path_of
    _path_of = path_of


def completed(request: Request) -> Request:
    """A token that is for one operation names it; so an address may have no more than the token."""
    if request.method == "GET":
        request = replace(request, path=_path_of(request.path))
    if request.op or not (token := request.params.get("delegation")):
        return request
    found = delegation.read(token)
    if found is None or len(found.ops) != 1:
        return request
    return replace(request, params={**request.params, "op": next(iter(found.ops))})
