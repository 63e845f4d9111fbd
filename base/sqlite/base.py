"""A connection notices that another file has taken the place of its database.

A restore puts a new file there (portal/backup/load.py). It is refused while a process runs; but one that stood still
then, or started meanwhile, would go on with the old file, which has no name any more: it would know no token of after,
take jobs that nobody sees, and hold a lease that nobody can take from it. So it goes on with the new file, as a
connection to PostgreSQL does with new tables.
"""

from __future__ import annotations

import os
from typing import Any

from django.db.backends.sqlite3 import base


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        self._path: str = conn_params["database"]
        before = _file_at(self._path)  # what takes its place while it is opened counts as another one
        made = super().get_new_connection(conn_params)
        self._file = before or _file_at(self._path)
        return made

    def close_if_health_check_failed(self) -> None:
        """Django calls it before each cursor, and then opens a new connection. A transaction ends where it began, as
        if it had been before the restore."""
        if self.connection is None or self.in_atomic_block:
            return
        if _file_at(self._path) not in (None, self._file):
            self.close()


def _file_at(path: str) -> tuple[int, int] | None:
    """Which file that is; None without one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
