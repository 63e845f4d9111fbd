"""The record of who did what to accounts, nodes and virtual clusters. What jobs and nodes go through is in
jobs.Event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request

from portal.models import AuditEvent


def record(
    actor: str, action: str, target: str = "", ip: str | None = None, data: Mapping[str, Any] | None = None
) -> None:
    """Write one row. ``ip`` is where the request came from, see ``ip_of``. Never put a password or a token in
    ``data``."""
    AuditEvent.objects.create(actor=actor, action=action, object=target, ip=ip, data=dict(data or {}))


def ip_of(request: HttpRequest | Request | None) -> str | None:
    """The address of the client; None when it is not known."""
    return (request.META.get("REMOTE_ADDR") or None) if request is not None else None
