"""``manage.py prepared`` waits until this release can work on the database: what pods do before they start."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

_EVERY = 5.0  # seconds


class Command(BaseCommand):
    help = "Wait until the database answers and has been brought up to this release, then end."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        told = ""
        while sentence := lacking():
            if sentence != told:
                self.stderr.write(sentence)
                told = sentence
            time.sleep(_EVERY)


def lacking() -> str:
    """What is still to come, in a sentence; empty when nothing is."""
    try:
        executor = MigrationExecutor(connection)
        if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return ""
    except DatabaseError as error:
        connection.close()
        return f"Waiting for the database. It says: {' '.join(str(error).split())}"
    return "Waiting until manage.py up --prepare has brought the database up to this release."
