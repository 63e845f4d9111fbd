"""Pages that change while they are open: a version for each page, and its parts as HTML by element id. Which there
are is in portal/page_urls.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string

from base.accounts.viewer import Viewer, require_reader
from base.core.errors import NotFound
from portal.shared.viewer import reader_of, viewer_of

_OURS = ("page", "v", "top", "shown", "user", "name", "tab", "sel")  # the rest is the page's own query


def address(page: str, /, **params: object) -> str:
    """The address of a page's live stream. ``params`` has ``v``, the version from which the page was drawn, and the
    page's own query; a ``page`` in that query is left out."""
    query = {name: value for name, value in params.items() if name != "page" and value not in (None, "")}
    return f"/stream/page?{urlencode({'page': page, **query})}"


class LivePage:
    """A page that somebody has open, for those who may read jobs; ``asked`` is the query of its stream, ``request`` has
    the page's own. Making one raises NoJob or NotFound where there is no such page."""

    def __init__(self, request: HttpRequest) -> None:
        self.asked, self.request = request.GET, page_request(request)

    @property
    def viewer(self) -> Viewer:
        return viewer_of(self.request)

    def require(self, viewer: Viewer) -> Any:
        """Raises Unauthorized or Forbidden for those who may not see it. Asked again and again while the page is open,
        with the user as they are then."""
        require_reader(viewer)

    def version(self) -> str:
        """Changes whenever a part may have changed; cheap."""
        raise NotImplementedError

    def parts(self) -> dict[str, str]:
        """The HTML of each part by the id of its element."""
        raise NotImplementedError

    def drawn(self, template: str, page: Mapping[str, Any]) -> str:
        return render_to_string(template, {**page}, self.request)


Pages = Mapping[str, Callable[[HttpRequest], LivePage]]


def open_page(request: HttpRequest, pages: Pages) -> LivePage:
    """The page that the query names. Raises Unauthorized, Forbidden, NoJob, NotFound."""
    viewer = reader_of(request)  # reads the session from the database, so this is called in a thread
    kind = pages.get(request.GET.get("page", ""))
    if kind is None:
        raise NotFound("There is no such page.")
    page = kind(request)
    page.require(viewer)
    return page


def page_request(request: HttpRequest) -> HttpRequest:
    """The request with the query of the page itself, for templates that build links from it."""
    own = copy.copy(request)
    query = QueryDict(mutable=True)
    for name, value in request.GET.items():
        if name not in _OURS:
            query[name] = str(value)
    own.GET = query  # type: ignore[assignment]
    return own
