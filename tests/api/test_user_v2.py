"""/user as v0.14 has it (v1 contract, 3.10), below /api/v2 and, where v0.9 had nothing of the name, /api/v1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.accounts import tokens
from base.models import User
from clusters.models import VirtualCluster
from tests.builders import make_job
from tests.conftest import PASSWORD
from tests.http import Client

Api = Callable[[User | None], APIClient]
URL = "/api/v2/user"
NON_ADMIN = {"code": "ForbiddenUserError", "message": "Non-admin is not allow to do this operation."}
WRITES = [
    ("alice/virtualcluster", {"virtualCluster": []}),
    ("alice/admin", {"admin": True}),
    ("alice/grouplist", {"grouplist": []}),
    ("alice/group", {"groupname": "default"}),
    ("alice/storequota", {"storeQuota": "none"}),
    ("bob/email", {"email": "a@x.org"}),
    ("bob/extension", {"extension": {}}),
    ("bob/password", {"oldPassword": PASSWORD, "newPassword": "sesame"}),
]


@pytest.fixture
def vision(db: None) -> VirtualCluster:
    return VirtualCluster.objects.create(name="vision", capacity=30, max_capacity=30)


def both(answer: Any) -> tuple[int, Any]:
    return answer.status_code, answer.json()


def said(message: str, status: int = 201) -> tuple[int, Any]:
    return status, {"message": message}


@pytest.mark.parametrize("root", ["/api/v2", "/rest-server/api/v2", "/api/v1"])
def test_an_admin_makes_a_user(api: Api, admin: User, vision: VirtualCluster, root: str) -> None:
    data = {"username": "mira", "password": "sesame", "email": "m@x.org", "virtualCluster": ["vision"], "extension": {}}
    assert both(api(admin).post(f"{root}/user", data, format="json")) == said("User is created successfully")
    seen = api(admin).get(f"{root}/user/mira").json()
    seen.pop("hasGithubPAT", None)
    assert seen == {
        "username": "mira",
        "email": "m@x.org",
        "grouplist": ["default", "vision"],
        "extension": {"virtualCluster": ["default", "vision"]},
        "admin": False,
        "virtualCluster": ["default", "vision"],
        "storeQuota": None,
        "priorities": {},
    }
    assert both(api(admin).post(f"{root}/user", data, format="json")) == (
        409,
        {"code": "ConflictUserError", "message": "User name mira already exists."},
    )


@pytest.mark.parametrize("root", ["/api/v1", "/api/v2"])
def test_an_account_of_a_deleted_users_name_is_made_as_ever_with_a_header_that_says_what_it_gets(
    api: Api, admin: User, alice: User, root: str, settings: Any, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    make_job("alice", state="SUCCEEDED")
    assert api(admin).delete(f"{root}/user/alice").status_code == 200
    answer = api(admin).post(f"{root}/user", {"username": "alice", "password": "sesame"}, format="json")
    assert both(answer) == said("User is created successfully")
    assert answer["X-Warning"].endswith("what it left is now theirs: 1 ended job with logs.")
    answer = api(admin).post(f"{root}/user", {"username": "bob", "password": "sesame"}, format="json")
    assert "X-Warning" not in answer


def test_the_v014_portal_sends_json_as_plain_text(admin: User) -> None:
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {tokens.issue(admin, 600)}"}
    text = json.dumps({"username": "mira.x-1", "password": "sesame"})
    assert Client().post(URL, text, content_type="text/plain;charset=UTF-8", **bearer).status_code == 201
    assert User.objects.filter(username="mira.x-1").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, 'child "username" fails because ["username" is required]'),
        ({"username": "m", "email": "x"}, 'child "email" fails because ["email" must be a valid email]'),
        (
            {"username": "m", "virtualCluster": "a"},
            'child "virtualCluster" fails because ["virtualCluster" must be an array]',
        ),
        (
            {"username": "m", "virtualCluster": [1]},
            'child "virtualCluster" fails because ["virtualCluster" at position 0 fails because '
            '["0" must be a string]]',
        ),
        ({"username": "m"}, 'child "password" fails because ["password" is required]'),
        (
            {"username": "m", "password": "sesame", "extension": []},
            'child "extension" fails because ["extension" must be an object]',
        ),
        ({"username": "m", "password": "sesame", "foo": 1}, '"foo" is not allowed'),
    ],
)
def test_it_refuses_in_v014s_words(api: Api, admin: User, data: Any, message: str) -> None:
    answer = api(admin).post(URL, data, format="json")
    assert both(answer) == (400, {"code": "InvalidParametersError", "message": message})


def test_a_new_user_with_an_unknown_virtual_cluster_is_not_made(api: Api, admin: User) -> None:
    data = {"username": "mira", "password": "sesame", "virtualCluster": ["mars"]}
    assert both(api(admin).post(URL, data, format="json")) == (
        400,
        {"code": "NoVirtualClusterError", "message": "Virtual cluster mars not found."},
    )
    assert not User.objects.filter(username="mira").exists()


@pytest.mark.parametrize(("path", "data"), WRITES)
def test_writes_are_for_admins_and_some_for_oneself(
    api: Api, alice: User, bob: User, path: str, data: dict[str, Any]
) -> None:
    assert api(None).put(f"{URL}/{path}", data, format="json").status_code == 401
    assert both(api(alice).put(f"{URL}/{path}", data, format="json")) == (403, NON_ADMIN)


def test_making_and_removing_are_for_admins(api: Api, alice: User, bob: User) -> None:
    data = {"username": "mira", "password": "sesame"}
    assert both(api(alice).post(URL, data, format="json")) == (403, NON_ADMIN)
    assert both(api(alice).delete(f"{URL}/bob")) == (403, NON_ADMIN)
    assert api(None).delete(f"{URL}/bob").status_code == 401


def test_an_admin_removes_a_user(api: Api, admin: User, bob: User) -> None:
    assert both(api(admin).delete(f"{URL}/bob")) == said("user is removed successfully", 200)
    assert both(api(admin).delete(f"{URL}/bob")) == (404, {"code": "NoUserError", "message": "User bob not found."})
    assert api(admin).delete(f"{URL}/admin").json() == {
        "code": "RemoveAdminError",
        "message": "Admin admin is not allowed to remove.",
    }


def test_users_prove_their_old_password_and_admins_need_not(api: Api, admin: User, alice: User) -> None:
    url = f"{URL}/alice/password"
    wrong = (403, {"code": "ForbiddenUserError", "message": "Pls input the correct password."})
    assert both(api(alice).put(url, {"newPassword": "sesame"}, format="json")) == wrong
    assert both(api(alice).put(url, {"oldPassword": "not this", "newPassword": "sesame"}, format="json")) == wrong
    done = said("update user password successfully.")
    assert both(api(alice).put(url, {"oldPassword": PASSWORD, "newPassword": "sesame"}, format="json")) == done
    assert both(api(admin).put(url, {"newPassword": "sesame2"}, format="json")) == done
    assert User.objects.get(username="alice").check_password("sesame2")
    assert api(admin).put(f"{URL}/nobody/password", {"newPassword": "sesame"}, format="json").status_code == 404
    assert api(admin).put(url, {"newPassword": "short"}, format="json").status_code == 400


def test_guessing_the_old_password_is_locked_out(api: Api, alice: User) -> None:
    client, guess = api(alice), {"oldPassword": "not this", "newPassword": "sesame"}
    statuses = [client.put(f"{URL}/alice/password", guess, format="json").status_code for _ in range(8)]
    assert statuses == [403] * 7 + [429]


def test_it_changes_grants_role_and_address(api: Api, admin: User, alice: User, vision: VirtualCluster) -> None:
    put = api(admin).put
    done = said("Update user virtualCluster data successfully.")
    assert both(put(f"{URL}/alice/virtualcluster", {"virtualCluster": ["vision"]}, format="json")) == done
    assert put(f"{URL}/alice/virtualcluster", {"virtualCluster": ["mars"]}, format="json").json() == {
        "code": "NoVirtualClusterError",
        "message": "Virtual cluster mars not found.",
    }
    assert api(alice).get(f"{URL}/alice").json()["virtualCluster"] == ["default", "vision"]
    assert both(put(f"{URL}/alice/email", {"email": "a@x.org"}, format="json")) == said(
        "Update user email data successfully."
    )
    assert both(put(f"{URL}/alice/admin", {"admin": True}, format="json")) == said(
        "Update user admin permission successfully."
    )
    seen = api(alice).get(f"{URL}/alice").json()
    assert (seen["email"], seen["admin"], seen["grouplist"]) == ("a@x.org", True, ["default", "vision", "admingroup"])
    assert put(f"{URL}/alice/virtualcluster", {"virtualCluster": []}, format="json").json()["message"] == (
        "Admin's virtual clusters cannot be updated."
    )


@pytest.mark.parametrize(
    ("given", "kept"), [("1.5g", 3 << 29), (4096, 4096), (0, 0), ("none", -1), (-1, -1), (None, None)]
)
def test_an_admin_limits_what_a_user_s_files_take(
    api: Api, admin: User, alice: User, bob: User, given: object, kept: int | None
) -> None:
    put = api(admin).put(f"{URL}/alice/storequota", {"storeQuota": given}, format="json")
    assert both(put) == said("Update user store quota successfully.")
    assert api(alice).get(f"{URL}/alice").json()["storeQuota"] == kept
    assert "storeQuota" not in api(bob).get(f"{URL}/alice").json()


def test_an_admin_lets_a_user_set_a_higher_priority(
    api: Api, admin: User, alice: User, bob: User, vision: VirtualCluster
) -> None:
    def put(body: dict[str, Any], user: User = admin) -> tuple[int, Any]:
        return both(api(user).put(f"{URL}/alice/virtualcluster", body, format="json"))

    done = said("Update user virtualCluster data successfully.")
    given = {"virtualCluster": ["vision"], "priorities": {"vision": 40, "default": 5}}
    assert put(given, alice) == put(given, bob) == (403, NON_ADMIN)
    assert put(given) == done and put({"virtualCluster": ["vision"]}) == done
    assert api(alice).get(f"{URL}/alice").json()["priorities"] == {"vision": 40, "default": 5}
    assert "priorities" not in api(bob).get(f"{URL}/alice").json()
    v1 = api(admin).put("/api/v1/user/alice/virtualClusters", {"virtualClusters": "vision"}, format="json")
    assert v1.status_code == 201
    assert put({"virtualCluster": ["vision"], "priorities": {"default": None}}) == done
    assert api(admin).get(f"{URL}/alice").json()["priorities"] == {"vision": 40}
    assert put({"virtualCluster": []}) == done and put({"virtualCluster": ["vision"]}) == done
    assert api(admin).get(f"{URL}/alice").json()["priorities"] == {}, "what is given again begins anew"
    for wrong in ({"vision": 101}, {"vision": -1}, {"vision": "high"}, {"mars": 1}, {"vision\0": 1}, [], 5):
        assert put({"virtualCluster": ["vision"], "priorities": wrong})[0] == 400, wrong


@pytest.mark.parametrize("given", ["much", -2, 1.5, True, [], 1 << 63])
def test_what_is_no_quota_is_refused(api: Api, admin: User, alice: User, given: object) -> None:
    answer = api(admin).put(f"{URL}/alice/storequota", {"storeQuota": given}, format="json")
    assert answer.status_code == 400
    assert '"storeQuota" must be a number of bytes' in answer.json()["message"]


def test_a_user_cannot_grant_himself_anything_through_his_extension(
    api: Api, admin: User, alice: User, vision: VirtualCluster
) -> None:
    url = f"{URL}/alice/extension"
    grab = {"extension": {"virtualCluster": ["default", "vision"]}}
    assert api(alice).put(url, grab, format="json").status_code == 403
    done = said("Update user extension data successfully.")
    assert both(api(alice).put(url, {"extension": {"theme": "dark", "githubPAT": "x"}}, format="json")) == done
    assert api(alice).get(f"{URL}/alice").json()["extension"] == {"theme": "dark", "virtualCluster": ["default"]}
    assert both(api(admin).put(url, grab, format="json")) == done
    assert api(alice).get(f"{URL}/alice").json()["virtualCluster"] == ["default", "vision"]


def test_what_clients_keep_with_a_user_is_for_him_and_admins(api: Api, admin: User, alice: User, bob: User) -> None:
    api(alice).put(f"{URL}/alice/extension", {"extension": {"key": "mine"}}, format="json")
    kept = [api(viewer).get(f"{URL}/alice").json()["extension"].get("key") for viewer in (admin, alice, bob)]
    listed = [api(viewer).get(URL).json()[1]["extension"].get("key") for viewer in (admin, alice, bob)]
    assert kept == listed == ["mine", "mine", None]


def test_users_read_the_list_and_one_another(api: Api, alice: User, bob: User) -> None:
    assert [user["username"] for user in api(alice).get(URL).json()] == ["alice", "bob"]
    assert api(alice).get(f"{URL}/bob").status_code == 200
    assert both(api(alice).get(f"{URL}/x")) == (400, {"code": "NoUserError", "message": "User x is not found."})
    assert api(None).get(URL).status_code == api(None).get(f"{URL}/bob").status_code == 401


@pytest.mark.parametrize("url", ["/api/v2/user/a/b", "/api/v2/nothing"])
def test_what_is_not_there_is_no_api(api: Api, admin: User, url: str) -> None:
    assert both(api(admin).get(url)) == (404, {"code": "NoApiError", "message": f"API {url} is not found."})
