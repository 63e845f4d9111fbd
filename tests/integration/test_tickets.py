"""Tickets open one address once, for a moment."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.accounts import tickets
from portal.models import Ticket

pytestmark = pytest.mark.django_db


def test_a_ticket_stands_for_its_credential_once_and_at_its_address_alone() -> None:
    ticket = tickets.issue("session:abc", "/terminal/alice/train/w/0")
    assert tickets.take(ticket, "/terminal/alice/train/w/1") == ""
    assert tickets.take(ticket, "/terminal/alice/train/w/0") == "session:abc"
    assert tickets.take(ticket, "/terminal/alice/train/w/0") == ""


def test_a_ticket_ends_by_itself_and_its_row_does_not_tell_it() -> None:
    ticket = tickets.issue("session:abc", "/a")
    assert ticket not in str(Ticket.objects.values().get())
    Ticket.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert tickets.take(ticket, "/a") == ""
