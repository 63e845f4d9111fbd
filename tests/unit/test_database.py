"""The database's settings."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from base.database import configure

THREADS = 60  # of the web process, each with a connection of its own


def test_the_caches_of_all_connections_together_are_small(tmp_path: Path) -> None:
    options = configure(f"sqlite:///{tmp_path / 'a.sqlite3'}")["OPTIONS"]
    with closing(sqlite3.connect(tmp_path / "a.sqlite3")) as database:
        database.executescript(options["init_command"])
        (pages,) = database.execute("PRAGMA cache_size").fetchone()
    assert -pages * THREADS <= 150_000  # kB; what is not below 0 is a number of pages
    assert pages < 0


@pytest.mark.parametrize(
    ("url", "want"),
    [
        ("postgres://u:p%40%2F@h:6543/n", ("u", "p@/", "h", "6543", "n")),
        ("postgresql://u@[::1]:5/n", ("u", "", "::1", "5", "n")),
        ("postgres://u@a:1,b:2/n", ("u", "", "a:1,b:2", "", "n")),
        ("postgres:///n", ("", "", "", "", "n")),
        ("postgres://u@//var/run/pg/n", ("u", "", "/var/run/pg", "", "n")),
        ("postgres://u@/var/run/pg/n", ("u", "", "/var/run/pg", "", "n")),
        ("postgres://u@%2Fvar%2Frun/n", ("u", "", "/var/run", "", "n")),
    ],
)
def test_an_address_of_postgresql_is_read(url: str, want: tuple[str, ...]) -> None:
    settings = configure(url)
    assert tuple(settings[key] for key in ("USER", "PASSWORD", "HOST", "PORT", "NAME")) == want


def test_options_in_the_address_win() -> None:
    options = configure("postgres://u@h/n?sslmode=require&connect_timeout=3")["OPTIONS"]
    assert (options["sslmode"], options["connect_timeout"], options["keepalives_idle"]) == ("require", "3", 10)


def test_a_file_of_sqlite_may_have_any_name(tmp_path: Path) -> None:
    assert configure(f"sqlite:///{tmp_path}/a%20b.sqlite3")["NAME"] == f"{tmp_path}/a b.sqlite3"


@pytest.mark.parametrize(
    "url", ["", "secret", "mysql://u:secret@h/n", "postgres://u:secret@h:port/n", "postgres://u:secret@h", "sqlite://"]
)
def test_what_is_no_address_is_refused_without_telling_it(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="^DATABASE_URL") as refused:
        configure(url)
    assert "secret" not in str(refused.value)
