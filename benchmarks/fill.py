"""``python -m benchmarks.fill <jobs> <tasks>``: ended jobs and one wide job into the database of LONGSHORE_HOME."""

from __future__ import annotations

import sys

import django

if __name__ == "__main__":
    django.setup()
    from django.db import connection

    from benchmarks import rows

    rows.add_history(int(sys.argv[1]))
    rows.add_wide_job(int(sys.argv[2]))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
