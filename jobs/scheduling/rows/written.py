"""Says whether anything in the database was written."""

from __future__ import annotations

from django.db import connection

Version = tuple[object, ...]  # of all that is in the database; compared with others alone
_SQLITE = "SELECT data_version, total_changes() FROM pragma_data_version"
_POSTGRES = "SELECT CAST(txid_current_snapshot() AS text)"


def version() -> Version | None:
    """Return a value that differs from an earlier one if anybody has changed anything in between: another process,
    another release or a hand, as it is the database that says so. SQLite counts what this connection changed, and tells
    when others have committed; PostgreSQL's snapshot names the transactions whose changes are seen. What is read after
    this was asked is at least as new. None where it cannot be said: in a transaction of PostgreSQL, whose own changes
    are not in its snapshot."""
    is_sqlite = connection.vendor == "sqlite"
    if connection.in_atomic_block and not is_sqlite:
        return None
    with connection.cursor() as cursor:
        cursor.execute(_SQLITE if is_sqlite else _POSTGRES)
        # What SQLite counts is that of one connection, so the connection itself is a part of it.
        return (connection.connection, *cursor.fetchone())


def own_version() -> Version | None:
    """The same with what this connection itself changed as the last element; None on PostgreSQL."""
    return version() if connection.vendor == "sqlite" else None
