"""/user as v0.9 to v0.13 had it (v1 contract, 3.5): exact statuses, words and types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from rest_framework.test import APIClient

from base.accounts import tokens
from base.models import AuditEvent, User
from clusters.models import VcGrant, VirtualCluster
from tests.builders import make_job
from tests.conftest import PASSWORD
from tests.http import Client
from tests.submitting import submitted

Api = Callable[[User | None], APIClient]
URL = "/api/v1/user"
FORM = "application/x-www-form-urlencoded"
GUEST = {"code": "UnauthorizedUserError", "message": "Guest is not allowed to do this operation."}
NON_ADMIN = {"code": "ForbiddenUserError", "message": "Non-admin is not allowed to do this operation."}


@pytest.fixture
def vision(db: None) -> VirtualCluster:
    return VirtualCluster.objects.create(name="vision", capacity=30, max_capacity=30)


def bearer(user: User) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": f"Bearer {tokens.issue(user, 600)}"}


def new(**more: Any) -> dict[str, Any]:
    return {"username": "mira", "password": "sesame", "modify": False, **more}


def both(answer: Any) -> tuple[int, Any]:
    return answer.status_code, answer.json()


@pytest.mark.parametrize("root", ["/api/v1/user", "/rest-server/api/v1/user", "/api/v1/user/"])
def test_an_admin_makes_a_user(api: Api, admin: User, root: str) -> None:
    answer = api(admin).put(root, new(admin=True), format="json")
    assert both(answer) == (201, {"message": "update successfully"})
    mira = User.objects.get(username="mira")
    assert mira.is_admin and mira.check_password("sesame")
    assert AuditEvent.objects.filter(action="user made", actor="admin", object="mira").exists()


def test_a_form_and_json_without_a_type_do_as_well(admin: User) -> None:
    form = urlencode({"username": "mira", "password": "sesame", "admin": "true", "modify": "false"})
    assert Client().put(URL, form, content_type=FORM, **bearer(admin)).status_code == 201
    text = json.dumps({"username": "bo", "password": "sesame", "modify": False})
    assert Client().put(URL, text, content_type="text/plain", **bearer(admin)).status_code == 201
    assert list(User.objects.order_by("pk").values_list("username", "is_admin"))[1:] == [("mira", True), ("bo", False)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, 'child "username" fails because ["username" is required]'),
        ([], '"value" must be an object'),
        (
            new(username="a b"),
            'child "username" fails because ["username" with value "a b" fails to match the username pattern]',
        ),
        (new(modify=None), 'child "modify" fails because ["modify" must be a boolean]'),
        ({"username": "mira", "password": "sesame"}, 'child "modify" fails because ["modify" is required]'),
        (new(admin="yes"), 'child "admin" fails because ["admin" must be a boolean]'),
        ({"username": "mira", "modify": False}, 'child "password" fails because ["password" is required]'),
        (new(password=""), 'child "password" fails because ["password" is not allowed to be empty]'),
        (
            new(password="12345"),
            'child "password" fails because ["password" length must be at least 6 characters long]',
        ),
        (
            new(password="12345", modify=True),
            'child "password" fails because ["password" length must be at least 6 characters long]',
        ),
        (
            new(password="x" * 1025),
            'child "password" fails because ["password" length must be less than or equal to 1024 characters long]',
        ),
        (new(password=None, modify=True), 'child "password" fails because ["password" must be a string]'),
        (new(admin=None), 'child "admin" fails because ["admin" must be a boolean]'),
        (new(email="x"), '"email" is not allowed'),
    ],
)
def test_it_refuses_in_v1s_words(api: Api, admin: User, data: Any, message: str) -> None:
    answer = api(admin).put(URL, data, format="json")
    assert both(answer) == (400, {"code": "InvalidParametersError", "message": message})


def test_the_token_comes_before_the_body_and_the_body_before_the_role(api: Api, alice: User) -> None:
    assert both(api(None).put(URL, {}, format="json")) == (401, GUEST)
    assert api(alice).put(URL, {}, format="json").status_code == 400
    assert both(api(alice).put(URL, new(), format="json")) == (403, NON_ADMIN)


def test_names_are_taken_once_and_found_or_not(api: Api, admin: User, alice: User) -> None:
    assert both(api(admin).put(URL, new(username="alice"), format="json")) == (
        409,
        {"code": "ConflictUserError", "message": "User name alice already exists."},
    )
    assert both(api(admin).put(URL, new(modify=True), format="json")) == (
        404,
        {"code": "NoUserError", "message": "User mira not found."},
    )


def test_an_account_of_a_deleted_users_name_is_made_as_ever_with_a_header(
    api: Api, admin: User, alice: User, settings: Any, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    make_job("alice", state="SUCCEEDED")
    assert api(admin).delete(URL, {"username": "alice"}, format="json").status_code == 200
    answer = api(admin).put(URL, new(username="alice"), format="json")
    assert both(answer) == (201, {"message": "update successfully"})
    assert answer["X-Warning"].endswith("what it left is now theirs: 1 ended job with logs.")
    assert "X-Warning" not in api(admin).put(URL, new(username="alice", modify=True), format="json")


def test_a_user_changes_his_own_password_and_no_more(api: Api, alice: User, bob: User) -> None:
    mine = {"username": "alice", "password": "a new one", "modify": True}
    for data in ({**mine, "admin": True}, {**mine, "modify": False}, {**mine, "username": "bob"}):
        assert both(api(alice).put(URL, data, format="json")) == (403, NON_ADMIN)
    before = tokens.issue(alice, 600)
    assert api(alice).put(URL, mine, format="json").status_code == 201
    alice.refresh_from_db()
    assert alice.check_password("a new one") and tokens.user_of(before) is None


def test_a_blank_password_keeps_it(api: Api, admin: User, alice: User) -> None:
    data = {"username": "alice", "password": "", "admin": True, "modify": True}
    assert api(admin).put(URL, data, format="json").status_code == 201
    alice.refresh_from_db()
    assert alice.is_admin and alice.check_password(PASSWORD)


def test_the_last_admin_keeps_his_flag(api: Api, admin: User) -> None:
    answer = api(admin).put(URL, {"username": "admin", "admin": False, "modify": True}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "RemoveAdminError")
    admin.refresh_from_db()
    assert admin.is_admin


def test_an_admin_removes_a_user(api: Api, admin: User, alice: User, bob: User) -> None:
    assert both(api(None).delete(URL, {"username": "bob"}, format="json")) == (401, GUEST)
    assert both(api(alice).delete(URL, {"username": "bob"}, format="json")) == (403, NON_ADMIN)
    token = tokens.issue(bob, 600)
    assert both(api(admin).delete(URL, {"username": "bob"}, format="json")) == (200, {"message": "remove successfully"})
    assert tokens.user_of(token) is None
    assert both(api(admin).delete(URL, {"username": "bob"}, format="json")) == (
        404,
        {"code": "NoUserError", "message": "User bob not found."},
    )
    assert both(api(admin).delete(URL, {"username": "admin"}, format="json")) == (
        403,
        {"code": "RemoveAdminError", "message": "Admin admin is not allowed to remove."},
    )


def test_a_user_with_live_jobs_stays(api: Api, admin: User, alice: User) -> None:
    submitted(alice, "train")
    assert both(api(admin).delete(URL, {"username": "alice"}, format="json")) == (
        409,
        {"code": "ConflictUserError", "message": "User alice has 1 job that has not ended. Stop them first."},
    )


def test_the_list_has_v09s_types(api: Api, admin: User, alice: User, bob: User, vision: VirtualCluster) -> None:
    api(admin).put(f"{URL}/bob/virtualClusters", {"virtualClusters": "vision"}, format="json")
    api(bob).put(f"{URL}/bob/githubPAT", {"githubPAT": "abc123"}, format="json")
    assert both(api(admin).get(URL)) == (
        200,
        [
            {"username": "admin", "admin": "true", "virtualCluster": "default,vision", "hasGithubPAT": False},
            {"username": "alice", "admin": "false", "hasGithubPAT": False},
            {"username": "bob", "admin": "false", "virtualCluster": "default,vision", "hasGithubPAT": True},
        ],
    )
    assert both(api(None).get(URL)) == (401, GUEST)
    assert both(api(alice).get(URL)) == (403, NON_ADMIN)


def test_grants_are_a_comma_string(api: Api, admin: User, alice: User, vision: VirtualCluster) -> None:
    url = f"{URL}/alice/virtualClusters"
    done = (201, {"message": "update user virtual clusters successfully"})
    assert both(api(admin).put(url, {"virtualClusters": "vision,default"}, format="json")) == done
    assert set(VcGrant.objects.values_list("vc__name", "username")) == {("default", "alice"), ("vision", "alice")}
    assert both(api(admin).put(url, {"virtualClusters": ""}, format="json")) == done
    assert list(VcGrant.objects.values_list("vc__name", flat=True)) == ["default"]
    form = urlencode({"virtualClusters": "vision"})
    assert Client().put(url, form, content_type=FORM, **bearer(admin)).status_code == 201


def test_grants_are_refused_in_v1s_words(api: Api, admin: User, alice: User) -> None:
    url = f"{URL}/alice/virtualClusters"
    assert both(api(None).put(url, {}, format="json")) == (401, GUEST)
    assert both(api(admin).put(url, {"virtualClusters": "a b"}, format="json")) == (
        400,
        {
            "code": "InvalidParametersError",
            "message": 'child "virtualClusters" fails because ["virtualClusters" with value "a b" fails to match '
            "the required pattern: /^[A-Za-z0-9_,]+$/]",
        },
    )
    assert both(api(alice).put(url, {"virtualClusters": "default"}, format="json")) == (403, NON_ADMIN)
    assert both(api(admin).put(url, {"virtualClusters": "xx"}, format="json")) == (
        400,
        {"code": "NoVirtualClusterError", "message": "Virtual cluster xx not found."},
    )
    assert both(api(admin).put(f"{URL}/nobody/virtualClusters", {"virtualClusters": ""}, format="json")) == (
        404,
        {"code": "NoUserError", "message": "User nobody not found."},
    )
    assert both(api(admin).put(f"{URL}/admin/virtualClusters", {"virtualClusters": ""}, format="json")) == (
        403,
        {"code": "ForbiddenUserError", "message": "Admin's virtual clusters cannot be updated."},
    )


def test_a_github_token_shows_as_present_in_the_list_and_in_the_token_answer(
    api: Api, admin: User, alice: User, bob: User
) -> None:
    url = f"{URL}/alice/githubPAT"
    assert both(api(alice).put(url, {"githubPAT": "abc123"}, format="json")) == (
        201,
        {"message": "update user github PAT successfully"},
    )
    login = {"username": "alice", "password": PASSWORD}
    assert api(None).post("/api/v1/token", login, format="json").json()["hasGitHubPAT"] is True
    assert api(alice).put(url, {"githubPAT": ""}, format="json").status_code == 201
    assert api(None).post("/api/v1/token", login, format="json").json()["hasGitHubPAT"] is False
    assert api(bob).put(url, {"githubPAT": "x"}, format="json").status_code == 403
    assert api(admin).put(f"{URL}/nobody/githubPAT", {"githubPAT": "x"}, format="json").status_code == 404
    assert api(alice).put(url, {"githubPAT": "a b"}, format="json").json()["message"] == (
        'child "githubPAT" fails because ["githubPAT" must only contain alpha-numeric and underscore characters]'
    )


def test_one_user_is_v014s_object_with_v013s_key(api: Api, admin: User, alice: User) -> None:
    assert both(api(alice).get(f"{URL}/alice")) == (
        200,
        {
            "username": "alice",
            "email": "",
            "grouplist": ["default"],
            "extension": {"virtualCluster": ["default"]},
            "admin": False,
            "virtualCluster": ["default"],
            "storeQuota": None,
            "priorities": {},
            "hasGithubPAT": False,
        },
    )
    assert both(api(None).get(f"{URL}/alice")) == (401, GUEST)
    assert both(api(alice).get(f"{URL}/x")) == (400, {"code": "NoUserError", "message": "User x is not found."})


@pytest.mark.parametrize("text", ['{"username":"\\ud800","modify":true}', '{"username":"a\\u0000","modify":true}'])
def test_text_that_is_none_is_refused(admin: User, text: str) -> None:
    assert Client().put(URL, text, content_type="application/json", **bearer(admin)).status_code == 400


def test_passwords_that_cannot_be_encoded_are_refused(admin: User) -> None:
    text = '{"username":"mira","password":"\\ud800sesame","modify":false}'
    assert Client().put(URL, text, content_type="application/json", **bearer(admin)).status_code == 400
    long = '{"username":"mira","password":' + "9" * 5000 + ',"modify":false}'
    assert Client().put(URL, long, content_type="application/json", **bearer(admin)).status_code == 400


def test_a_nul_in_the_path_is_a_user_that_is_not_there(api: Api, admin: User) -> None:
    assert api(admin).get(f"{URL}/a%00b").status_code == 400
    assert api(admin).put(f"{URL}/a%00b/githubPAT", {"githubPAT": ""}, format="json").status_code == 404
