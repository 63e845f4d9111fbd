"""django-q2's command, whose processes end with it even when it is killed."""

from __future__ import annotations

from typing import Any

from django_q.management.commands.qcluster import Command as Qcluster

from portal.deathsig import forks_die_with_parent


class Command(Qcluster):
    requires_system_checks = ()  # `up` has made them

    def handle(self, *args: Any, **options: Any) -> None:
        forks_die_with_parent()
        super().handle(*args, **options)
