"""What others learn about nodes, into the ledger."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from jobs.models import Event


def note(sender: Any, node: str, kind: str, reason: str, **_: Any) -> None:
    """Receiver of portal.core.signals.node_learnt."""
    Event.objects.create(at=timezone.now(), kind=kind, node=node, reason=reason)
