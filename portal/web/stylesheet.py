"""Makes css/longshore.css of its sections, a file each in static/css/longshore: pages load one file.

It is a finder, so collectstatic and the development server get the same file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

NAME = "css/longshore.css"
# In the order of the cascade: a later section may change what an earlier one says.
SECTIONS = (
    *("tokens", "base", "frame", "states", "tables", "job", "log", "code", "helpers", "editor", "narrow", "files"),
    "log_page",
    "nodes",
    "wall",
    "figures",
    "plots",
    "terminal",
)


def joined() -> str:
    """All sections, one after the other."""
    folder = settings.BASE_DIR / "static/css/longshore"
    return "\n".join((folder / f"{section}.css").read_text() for section in SECTIONS)


class Finder(BaseFinder):
    def find(self, path: str, find_all: bool = False, **old: Any) -> Any:
        found = [str(_written(joined()) / NAME)] if path == NAME else []
        return found if find_all or not found else found[0]

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        yield NAME, FileSystemStorage(location=str(_written(joined())))


@cache
def _written(text: str) -> Path:
    """A folder that holds the stylesheet for as long as this process lives."""
    _folders.append(tempfile.TemporaryDirectory(prefix="longshore-css-"))
    path = Path(_folders[-1].name) / NAME
    path.parent.mkdir()
    path.write_text(text)
    return Path(_folders[-1].name)


_folders: list[tempfile.TemporaryDirectory[str]] = []
