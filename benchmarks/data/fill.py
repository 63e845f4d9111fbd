"""Puts ended jobs and one wide job into the database of LONGSHORE_HOME.

``python -m benchmarks.data.fill <jobs> <tasks of the wide job>``
"""

from __future__ import annotations

import sys

import django

if __name__ == "__main__":
    django.setup()
    from django.db import connection

    from benchmarks.data import rows

    with connection.cursor() as cursor:
        cursor.execute("PRAGMA cache_size = -1000000")  # 1 GB: else the pages of all indices come and go
        rows.add_history(int(sys.argv[1]))
        rows.add_wide_job(int(sys.argv[2]))
        cursor.execute("ANALYZE")
