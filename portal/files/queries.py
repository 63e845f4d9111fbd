"""What the page of a folder shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings

from base.core import words
from base.files.store import rules
from base.files.store.base import Entry, joined, names_of
from base.files.store_actor import StoreActor, address, download, parent

ROWS = 200  # of one page
_SORTS: dict[str, Callable[[Entry], Any]] = {
    "name": lambda entry: entry.name.casefold(),
    "size": lambda entry: entry.size,
    "changed": lambda entry: entry.modified_at,
    "owner": lambda entry: entry.owner.casefold(),
}
_COLUMNS = (("name", "Name", ""), ("size", "Size", "ls-num"), ("changed", "Changed", "ls-num ls-md"))
_OWNER = ("owner", "Written by", "ls-lo")
_KINDS = (  # by the end of a name: its icon
    (re.compile(r"\.(png|jpe?g|gif|webp|svg|bmp)$"), "photo"),
    (re.compile(r"\.(tar|gz|tgz|zip|bz2|xz|zst|whl)$"), "package"),
    (re.compile(r"\.(txt|log|csv|tsv|jsonl?|ya?ml|md|ini|cfg|conf|toml|xml|html|out|err)$"), "file-text"),
    (re.compile(r"\.(py|sh|js|c|h|cpp|go|rs|java|r|sql)$"), "file-text"),
)


@dataclass(frozen=True, slots=True)
class ListingOptions:
    """The order of the list (``-size`` is the largest first), its page from 1, part of a name, and whether hidden files
    are shown."""

    sort: str = "name"
    page: int = 1
    part: str = ""
    hidden: bool = False

    @property
    def column(self) -> str:
        return self.sort.removeprefix("-")

    def query(self, **changes: object) -> str:
        """``?sort=...``, without what is the default."""
        wanted = {"sort": self.sort, "page": self.page, "q": self.part, "hidden": int(self.hidden), **changes}
        usual = {"sort": "name", "page": 1, "q": "", "hidden": 0}
        unusual = {name: value for name, value in wanted.items() if value != usual[name]}
        return f"?{urlencode(unusual)}" if unusual else ""


def listing_options(sort: str, page: str, part: str, hidden: str) -> ListingOptions:
    known = sort if sort.removeprefix("-") in _SORTS else "name"
    return ListingOptions(known, words.whole(page, 6) or 1, part.strip()[:100], hidden == "1")


@dataclass(frozen=True, slots=True)
class FileRow:
    entry: Entry
    icon: str
    size: str
    url: str
    href: str  # with the order of the list
    download: str
    may_remove: bool
    selected: bool


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    title: str
    css: str
    href: str
    order: str  # for aria-sort


def listing(
    who: StoreActor, folder: str, wanted: ListingOptions, selected: str = "", *, is_made: bool = True
) -> dict[str, Any]:
    """``selected``: the path of a file; the page of the list with that file is shown. It costs one list of the folder,
    whatever its size; only the rows of one page are built."""
    entries = who.entries(folder) if is_made else []
    hidden = sum(1 for entry in entries if _is_hidden(entry.name))
    keep = wanted.hidden or bool(selected and _is_hidden(selected.rsplit("/", 1)[-1]))
    shown = [entry for entry in entries if _matches(entry, wanted, keep)]
    shown = _sorted(shown, wanted.sort)
    at = next((i for i, entry in enumerate(shown) if entry.path == selected), None)
    pages = max(1, -(-len(shown) // ROWS))
    page = min(pages, wanted.page if at is None else at // ROWS + 1)
    start = (page - 1) * ROWS
    query = wanted.query(page=1)
    rows = [_row(who, entry, query, selected) for entry in who.store.exact(shown[start : start + ROWS])]
    url = address(folder)
    return {
        "rows": rows,
        "columns": [_column(url, wanted, *column) for column in (*_COLUMNS, _OWNER)],
        "wish": wanted,
        "says": _says(shown),
        "total": len(shown),
        "first": start + 1,
        "last": start + len(rows),
        "newer": f"{url}{wanted.query(page=page - 1)}" if page > 1 else "",
        "older": f"{url}{wanted.query(page=page + 1)}" if page < pages else "",
        "hidden": hidden,
        "toggle": f"{url}{wanted.query(page=1, hidden=int(not wanted.hidden))}",
        "matching": bool(wanted.part),
    }


def crumbs(path: str) -> list[tuple[str, str]]:
    """The folders above a path: (name, address)."""
    names = names_of(path)
    above = [("Store", "/files")]
    return above + [(name, address(joined(names[: i + 1]))) for i, name in enumerate(names[:-1])]


def panel(path: str) -> dict[str, str]:
    """How a path is written elsewhere: for tools, in a job's config, and in commands, where nothing is quoted."""
    return {
        "uri": f"{settings.DEFAULT_FS_URI.rstrip('/')}{path}",
        "in_job": f"$PAI_DEFAULT_FS_URI{path}",
        "download": download(path),
        "tar": tar_of(path),
        "up": address(parent(path)),
    }


def tar_of(folder: str) -> str:
    """The address that sends the folder as a tar; empty for one that holds the folders of all users."""
    return f"{address(folder)}?do=tar" if has_tar(folder) else ""


def has_tar(folder: str) -> bool:
    return folder != "/" and not rules.holds_all_users(folder)


def icon_of(entry: Entry) -> str:
    name = entry.name.lower()
    return "folder" if entry.is_dir else next((icon for ends, icon in _KINDS if ends.search(name)), "file")


def _is_hidden(name: str) -> bool:
    """Whether it is shown only when asked for. An unfinished copy of pai-fs takes room, so it is always shown."""
    return name.startswith(".") and not name.endswith(".pai-fs-part")


def _matches(entry: Entry, wanted: ListingOptions, hidden: bool) -> bool:
    return (hidden or not _is_hidden(entry.name)) and wanted.part.casefold() in entry.name.casefold()


def _sorted(entries: list[Entry], sort: str) -> list[Entry]:
    """Folders first in every order; equal ones go by name."""
    named = sorted(entries, key=_SORTS["name"])
    ordered = sorted(named, key=_SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    return sorted(ordered, key=lambda entry: not entry.is_dir)


def _row(who: StoreActor, entry: Entry, query: str, selected: str) -> FileRow:
    url = address(entry.path)
    return FileRow(
        entry=entry,
        icon=icon_of(entry),
        size="–" if entry.is_dir else words.size(entry.size),
        url=url,
        href=url if entry.is_dir else f"{url}{query}",
        download=tar_of(entry.path) if entry.is_dir else download(entry.path),
        may_remove=who.may_remove(entry.path),
        selected=entry.path == selected,
    )


def _column(url: str, wanted: ListingOptions, name: str, title: str, css: str) -> Column:
    order = ""
    turned = name
    if wanted.column == name:
        order = "descending" if wanted.sort.startswith("-") else "ascending"
        turned = f"-{name}" if order == "ascending" else name
    return Column(name, title, css, f"{url}{wanted.query(sort=turned, page=1)}", order)


def _says(entries: list[Entry]) -> str:
    size = sum(entry.size for entry in entries)
    text = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"
    return f"{text}, {words.size(size)} in files" if size else text
