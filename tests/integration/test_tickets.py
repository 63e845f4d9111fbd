"""Tickets open one address once, for a moment."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from base.accounts import callers
from base.models import Ticket

pytestmark = pytest.mark.django_db


def test_a_ticket_stands_for_its_credential_once_and_at_its_address_alone() -> None:
    ticket = callers.issue_ticket("session:abc", "/terminal/alice/train/w/0")
    assert callers.take_ticket(ticket, "/terminal/alice/train/w/1") == ""
    assert callers.take_ticket(ticket, "/terminal/alice/train/w/0") == "session:abc"
    assert callers.take_ticket(ticket, "/terminal/alice/train/w/0") == ""


def test_a_ticket_ends_by_itself_and_its_row_does_not_tell_it() -> None:
    ticket = callers.issue_ticket("session:abc", "/a")
    assert ticket not in str(Ticket.objects.values().get())
    Ticket.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert callers.take_ticket(ticket, "/a") == ""
