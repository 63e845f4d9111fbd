"""``manage.py runscheduler``: any number may run, one acts, the others wait for its end."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from base.hosts.joining import refuse_other_keys
from jobs.scheduling.loop import Scheduler


class Command(BaseCommand):
    help = "Plans and applies: the one process that changes the states of jobs"
    requires_system_checks = ("longshore",)  # portal/checks.py

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_other_keys()
        Scheduler().run()
