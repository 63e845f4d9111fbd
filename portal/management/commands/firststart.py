"""``manage.py firststart`` lets every app do what a first start needs: register the local engine, build the sample
image."""

from __future__ import annotations

from typing import Any

import structlog
from django.core.management.base import BaseCommand

from base.core.signals import first_start

_log = structlog.get_logger("portal.firststart")


class Command(BaseCommand):
    help = "Do what a first start needs and is not there yet. Safe to repeat; `up` runs it."
    requires_system_checks = ()  # `up` has made them

    def handle(self, *args: Any, **options: Any) -> None:
        for receiver, answer in first_start.send_robust(sender=None, say=self._say):
            if isinstance(answer, Exception):
                _log.error("part of the first start failed", part=receiver.__name__, exc_info=answer)

    def _say(self, sentence: str) -> None:
        self.stdout.write(sentence)
        self.stdout.flush()
