"""Who may do what in the store, by path alone. Pure.

Personal trees belong to the user whose name follows the top folder: he and admins read and write there, others do not
even see that it exists. ``/shared`` and ``/tmp`` are everyone's. All the rest is read by everyone and written by
admins. A path is one of portal.store.base: absolute, ``.`` and ``..`` are no names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from portal.store.base import Entry, names_of

PERSONAL = ("Container", "Output", "user", "users", "home")
OPEN = ("shared", "tmp")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")


def may_read(path: str, username: str, is_admin: bool) -> bool:
    """Also whether a folder may be listed; what is in it is a question of its own (``visible``)."""
    return is_admin or not _is_foreign(path, username)


def may_write(path: str, username: str, is_admin: bool) -> bool:
    """Whether it may be made, changed or deleted. The top folders themselves are nobody's but the admins'."""
    names = names_of(path)
    if is_admin:
        return bool(names)
    if len(names) < 2:
        return False
    return names[0] in OPEN or (names[0] in PERSONAL and names[1] == username)


def may_remove(path: str, username: str, is_admin: bool) -> bool:
    """Whether it may be deleted or moved away: not the roots of personal trees, which others rely on."""
    names = names_of(path)
    if len(names) < 2:
        return False
    is_root = names[0] in PERSONAL and len(names) == 2
    return may_write(path, username, is_admin) and (is_admin or not is_root)


def visible(entries: Iterable[Entry], username: str, is_admin: bool) -> list[Entry]:
    """Those of a folder that the user may know of."""
    return [entry for entry in entries if may_read(entry.path, username, is_admin)]


def holds_all_users(path: str) -> bool:
    """Whether the folders of all users are right below it."""
    names = names_of(path)
    return len(names) == 1 and names[0] in PERSONAL


def owner_of(path: str) -> str:
    """To whom a path belongs by where it is; empty when to nobody."""
    names = names_of(path)
    return names[1] if len(names) > 1 and names[0] in PERSONAL else ""


def path_of(uri: str) -> str:
    """The path of ``hdfs://host:port/a/b``, ``webhdfs://host/a/b``, ``hdfs:///a/b`` or ``/a/b``: ``/a/b``. Whatever
    host is named, the portal has one store. Raises BadPath."""
    return "/" + "/".join(names_of(_SCHEME.sub("", uri.strip(), count=1)))


def hostless_path_of(uri: str) -> str:
    """What ``hdfs://a/b`` named for the first clients, which wrote no host: ``/a/b``. Empty when ``a`` has a port or a
    dot, so that it can only be a host. Raises BadPath."""
    match = _SCHEME.match(uri.strip())
    host = match[0].partition("://")[2] if match else ""
    return "/" + "/".join(names_of(f"/{uri.strip().partition('://')[2]}")) if re.fullmatch(r"[\w-]+", host) else ""


def _is_foreign(path: str, username: str) -> bool:
    names = names_of(path)
    return len(names) > 1 and names[0] in PERSONAL and names[1] != username
