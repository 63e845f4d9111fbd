"""Shows the pages of docs/ in the portal, so that a link of any page leads to one: each as a page, with its title."""

from __future__ import annotations

import posixpath
from functools import cache, partial
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from portal.docs.markdown import html_of

READERS = {
    "use": "For people who run jobs",
    "examples": "Examples",
    "run": "For admins",
    "develop": "For developers of Longshore",
}


@require_safe
def guides(request: HttpRequest) -> HttpResponse:
    """Their titles, by reader."""
    groups = [(says, [each for each in titles() if _folder(each[0]) == folder]) for folder, says in READERS.items()]
    return render(request, "docs/guides.html", {"groups": groups})


@require_safe
def guide(request: HttpRequest, name: str) -> HttpResponse:
    """One of them, by its name without the ending: ``use/ending``, ``examples/sweep``."""
    path = _there().get(name)
    if path is None:
        return redirect(f"/guides/{_moved(name)}")
    title, text = _read(path)
    html = mark_safe(html_of(text, partial(_address, name)))  # noqa: S308 - ours, and escaped
    return render(request, "docs/guide.html", {"title": title, "text": html})


def _moved(name: str) -> str:
    """Earlier releases had no folders of readers: ``ending`` is ``use/ending`` now. Raises ``Http404``."""
    for reader in READERS:
        if (now := f"{reader}/{name}") in _there():
            return now
    raise Http404


def _address(name: str, to: str) -> str:
    """Where a link of the guide ``name`` leads: to another guide, a heading or another site; empty for other files."""
    if to.startswith("https://") or to.startswith("#"):
        return to
    path, mark, heading = to.partition("#")
    path = posixpath.normpath(posixpath.join("/docs", posixpath.dirname(name), path))
    other = path.removeprefix("/docs/").removesuffix(".md")
    return f"/guides/{other}{mark}{heading}" if path.endswith(".md") and other in _there() else ""


def titles() -> list[tuple[str, str]]:
    """Return the name and the title of each."""
    return [(name, _read(path)[0]) for name, path in _there().items()]


def _folder(name: str) -> str:
    """``examples`` is the page about those in the folder of that name."""
    return name.partition("/")[0]


@cache
def _there() -> dict[str, Path]:
    folder = Path(settings.BASE_DIR) / "docs"
    paths = sorted([*folder.glob("*.md"), *folder.glob("*/*.md")])
    return {str(path.relative_to(folder).with_suffix("")): path for path in paths}


@cache
def _read(path: Path) -> tuple[str, str]:
    """Return the title and the rest. The files are the release's own: they do not change."""
    title, _, text = path.read_text().partition("\n")
    return title.lstrip("# "), text
