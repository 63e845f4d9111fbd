"""``manage.py runsampler``: any number may run, one acts, the others wait for its end."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from base.hosts.joining import refuse_other_keys
from jobs.metrics.sampler import Sampler


class Command(BaseCommand):
    help = "Samples what running tasks use"
    requires_system_checks = ()  # `up` has made them

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_other_keys()
        Sampler().run()
