"""Django's backend for SQLite, and what Longshore needs of it: the ENGINE of base/database.py."""
