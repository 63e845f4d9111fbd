"""Who may do what in the store, by path alone. Pure.

Personal trees belong to the user whose name follows the top folder, or is the top folder: they and admins read and
write there, others do not even see that it exists. ``/shared`` and ``/tmp`` are everyone's. What the portal keeps for
itself (PORTAL) only admins see. All the rest is read by everyone and written by admins. A path is one of
base.files.store.base: absolute, ``.`` and ``..`` are no names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet  # ``Set`` beside ``set`` would be misread
from dataclasses import dataclass, replace
from typing import Protocol

from base.files.store.base import Entry, joined, names_of

PERSONAL = ("Container", "Output", "user", "users", "home")
OPEN = ("shared", "tmp")
PORTAL = ".longshore"  # what the portal keeps for itself

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")


class Accounts(Protocol):
    def among(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """Those of the names that are, or were, the name of an account."""


def owner_of(path: str, accounts: Accounts) -> str:
    """The user to whom a path belongs; empty when to nobody."""
    names = names_of(path)
    if not names or names[0] in OPEN:
        return ""
    if names[0] in PERSONAL:
        return owner_by_name(path)
    return names[0] if accounts.among({names[0]}) else ""


def trees_of(username: str) -> list[str]:
    """The roots of all trees that belong to a user."""
    own = [] if username in (*PERSONAL, *OPEN) else [f"/{username}"]
    return [*(f"/{top}/{username}" for top in PERSONAL), *own]


def is_place(path: str, username: str) -> bool:
    """Whether the user sees this folder even before anybody has made it: the roots of personal trees, and the folders
    that everyone writes."""
    names = names_of(path)
    return (len(names) == 2 and names[0] in PERSONAL and names[1] == username) or (len(names) == 1 and names[0] in OPEN)


def owner_by_name(path: str) -> str:
    """The same, as far as that is possible without asking for the accounts."""
    names = names_of(path)
    return names[1] if len(names) > 1 and names[0] in PERSONAL else ""


@dataclass(frozen=True, slots=True)
class Rights:
    """What one user may do, by these rules. ``name`` is empty for nobody's."""

    name: str
    is_admin: bool
    accounts: Accounts

    def may_read(self, path: str) -> bool:
        """Whether a file may be read, or a folder listed; ``visible`` decides which of its entries are shown."""
        return self.is_admin or (owner_of(path, self.accounts) in ("", self.name) and not _is_portals(path))

    def may_write(self, path: str) -> bool:
        """Whether it may be made, changed or deleted. Top folders that belong to no user are for admins only."""
        names = names_of(path)
        if self.is_admin:
            return bool(names)
        return _is_open(names[:-1]) or (bool(self.name) and owner_of(path, self.accounts) == self.name)

    def may_remove(self, path: str) -> bool:
        """Whether it may be deleted or moved away: not the roots of personal trees, which others rely on."""
        names = names_of(path)
        if len(names) < 2:
            return False
        is_root = names[0] in PERSONAL and len(names) == 2
        return self.may_write(path) and (self.is_admin or not is_root)

    def visible(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries of a folder that the user may see."""
        listed = list(entries)
        self.accounts.among({names_of(entry.path)[0] for entry in listed})
        return [entry for entry in listed if self.may_read(entry.path)]

    def visible_names(self, folder: str, names: Sequence[str]) -> Sequence[str]:
        """The names in a folder that the user may see, who may read the folder: below a user's own all are as it is."""
        depth = len(names_of(folder))
        if depth > 1:
            return names
        if not depth:
            self.accounts.among(set(names))
        return [name for name in names if self.may_read(f"{folder.rstrip('/')}/{name}")]


def shown(entry: Entry, accounts: Accounts) -> Entry:
    """The entry with the owner and the mode that say what these rules allow: everybody who may read there gets the read
    bits, and so on. Only the execute bit is the file's own."""
    names, owner = names_of(entry.path), owner_of(entry.path, accounts)
    mode = 0o600 if owner or _is_portals(entry.path) else 0o666 if _is_open(names) else 0o644
    if entry.is_dir or entry.mode & 0o111:
        mode |= (mode & 0o444) >> 2
    writer = entry.owner if _is_open(names) else ""
    return replace(entry, owner=owner or writer or "root", group="supergroup", mode=mode)


def is_read_by_all(path: str, accounts: Accounts) -> bool:
    return not owner_of(path, accounts) and not _is_portals(path)


def is_written_by_all(path: str) -> bool:
    return _is_open(names_of(path))


def holds_all_users(path: str) -> bool:
    """Whether the folders of all users are right below it."""
    names = names_of(path)
    return len(names) == 1 and names[0] in PERSONAL


def path_of(uri: str) -> str:
    """The path of ``hdfs://host:port/a/b``, ``webhdfs://host/a/b``, ``hdfs:///a/b`` or ``/a/b``: ``/a/b``. Whatever
    host is named, the portal has one store. Raises BadPath."""
    return joined(names_of(_SCHEME.sub("", uri.strip(), count=1)))


def hostless_path_of(uri: str) -> str:
    """What ``hdfs://a/b`` named for the first clients, which wrote no host: ``/a/b``. Empty when ``a`` has a port or a
    dot, so that it can only be a host. Raises BadPath."""
    match = _SCHEME.match(uri.strip())
    host = match[0].partition("://")[2] if match else ""
    return joined(names_of(f"/{uri.strip().partition('://')[2]}")) if re.fullmatch(r"[\w-]+", host) else ""


def _is_portals(path: str) -> bool:
    return names_of(path)[:1] == [PORTAL]


def _is_open(names: Sequence[str]) -> bool:
    return bool(names) and names[0] in OPEN
