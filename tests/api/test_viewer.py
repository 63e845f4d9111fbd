"""Who asks is always a Viewer: it has a name and says whether it is an admin, for pages and for the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest
from rest_framework.test import APIClient, APIRequestFactory
from rest_framework.views import APIView

from base.accounts.viewer import Guest, require_admin, require_self_or_admin, require_user
from base.core.errors import Forbidden, Unauthorized
from base.models import AuditEvent, User
from portal.shared.viewer import viewer_of
from tests.http import Client

pytestmark = pytest.mark.django_db


def test_a_guest_has_no_name_and_no_rights() -> None:
    for request in (HttpRequest(), APIView().initialize_request(APIRequestFactory().get("/"))):
        viewer = viewer_of(request)
        assert (viewer.is_authenticated, viewer.username, viewer.is_admin) == (False, "", False)


def test_a_page_that_a_guest_opens_has_a_guest(browse: Callable[[User | None], Client]) -> None:
    user = browse(None).get("/login").context["request"].user
    assert isinstance(user, Guest) and not user.is_admin


def test_a_page_that_a_user_opens_has_the_user(browse: Callable[[User | None], Client], admin: User) -> None:
    user = browse(admin).get("/account").context["request"].user
    assert (user.username, user.is_admin) == (admin.username, True)


def test_rights_are_asked_in_order(alice: User, admin: User) -> None:
    with pytest.raises(Unauthorized):
        require_admin(Guest())
    with pytest.raises(Forbidden, match="not today"):
        require_admin(alice, "not today")
    with pytest.raises(Forbidden):
        require_self_or_admin(alice, "bob")
    assert require_self_or_admin(alice, "alice") == require_user(alice) == alice
    assert require_self_or_admin(admin, "bob") == require_admin(admin) == admin


def test_the_audit_says_where_a_request_came_from(api: Callable[..., APIClient], admin: User) -> None:
    body = {"username": "dora", "password": "longenough", "admin": False, "modify": False}
    answer: Any = api(admin).put("/api/v1/user", body, format="json", REMOTE_ADDR="192.0.2.7")
    assert answer.status_code == 201
    assert AuditEvent.objects.get(action="user made").ip == "192.0.2.7"
