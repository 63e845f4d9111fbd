"""The database's settings."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from portal.database import configure

THREADS = 60  # of the web process, each with a connection of its own


def test_the_caches_of_all_connections_together_are_small(tmp_path: Path) -> None:
    options = configure(f"sqlite:///{tmp_path / 'a.sqlite3'}")["OPTIONS"]
    with closing(sqlite3.connect(tmp_path / "a.sqlite3")) as database:
        database.executescript(options["init_command"])
        (pages,) = database.execute("PRAGMA cache_size").fetchone()
    assert -pages * THREADS <= 150_000  # kB; what is not below 0 is a number of pages
    assert pages < 0
