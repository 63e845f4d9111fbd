"""``manage.py newkeys``: the keys of the other hosts are lost, and those of this one are right from now on."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from base.hosts import joining
from jobs.logs import places


class Command(BaseCommand):
    help = (
        "Make this host's keys those of the portal. What was sealed with others (secrets of jobs) does not open again."
    )
    requires_system_checks = ("longshore",)

    def handle(self, *args: Any, **options: Any) -> None:
        joining.take_keys()
        places.sign_from_now_on()
        self.stdout.write("The keys of this host are those of the portal now. Copy them to all other hosts.")
