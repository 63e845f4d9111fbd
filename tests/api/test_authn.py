"""/authn/info and /authn/basic/login (v1 contract, 3.10)."""

from __future__ import annotations

import json

import pytest

from base.models import User
from tests.conftest import PASSWORD
from tests.http import Client

ROOTS = ["/api/v1", "/rest-server/api/v1", "/api/v2", "/rest-server/api/v2"]


@pytest.mark.parametrize("root", ROOTS)
def test_it_tells_how_to_sign_in(root: str) -> None:
    answer = Client().get(f"{root}/authn/info", HTTP_AUTHORIZATION="Bearer nonsense")
    assert answer.status_code == 200
    assert answer.json() == {
        "authn_type": "basic",
        "loginURI": "/api/v1/authn/basic/login",
        "loginURIMethod": "post",
    }


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("kind", ["application/json", "text/plain;charset=UTF-8"])
def test_the_basic_login_is_the_token_route(alice: User, root: str, kind: str) -> None:
    text = json.dumps({"username": "alice", "password": PASSWORD, "expiration": 604_800})
    for path in ("authn/basic/login", "token"):
        answer = Client().post(f"{root}/{path}", text, content_type=kind)
        assert answer.status_code == 200
        assert {key: answer.json()[key] for key in ("user", "admin", "hasGitHubPAT")} == {
            "user": "alice",
            "admin": False,
            "hasGitHubPAT": False,
        }
