"""/group (v1 contract, 3.10), and what belonging to one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.models import User
from clusters.models import Group, VirtualCluster

Api = Callable[[User | None], APIClient]
URL = "/api/v2/group"
USER = "/api/v2/user"
VC = {"groupType": "vc"}


@pytest.fixture
def vision(db: None) -> VirtualCluster:
    return VirtualCluster.objects.create(name="vision", capacity=30, max_capacity=30)


def both(answer: Any) -> tuple[int, Any]:
    return answer.status_code, answer.json()


def shape(name: str, extension: dict[str, Any], description: str = "", external: str = "") -> dict[str, Any]:
    return {"groupname": name, "description": description, "externalName": external, "extension": extension}


def groups_of(api: Api, viewer: User, username: str) -> list[str]:
    found: list[str] = api(viewer).get(f"{USER}/{username}").json()["grouplist"]
    return found


def test_each_virtual_cluster_is_a_group_and_so_are_the_admins(api: Api, alice: User, vision: VirtualCluster) -> None:
    assert both(api(alice).get(URL)) == (
        200,
        [shape("default", VC), shape("vision", VC), shape("admingroup", {"groupType": "admin"})],
    )
    assert both(api(alice).get(f"{URL}/vision")) == (200, shape("vision", VC))
    assert both(api(alice).get(f"{URL}/mars")) == (404, {"code": "NoGroupError", "message": "Group mars is not found."})
    assert api(None).get(URL).status_code == 401


def test_admins_make_change_and_remove_their_own_groups(api: Api, admin: User) -> None:
    data = {"groupname": "lab", "description": "us", "externalName": "LAB", "extension": {"color": "red"}}
    assert both(api(admin).post(URL, data, format="json")) == (201, {"message": "group is created successfully"})
    assert both(api(admin).post(URL, data, format="json")) == (
        409,
        {"code": "ConflictGroupError", "message": "Group name lab already exists."},
    )
    for part, body, word in (
        ("description", {"description": "all of us"}, "description"),
        ("externalname", {"externalName": "L"}, "externalNameData"),
        ("extension", {"extension": {"size": 3}}, "extension"),
    ):
        answer = api(admin).put(f"{URL}/lab/{part}", body, format="json")
        assert both(answer) == (201, {"message": f"update group {word} data successfully."})
    assert api(admin).get(f"{URL}/lab").json() == shape("lab", {"color": "red", "size": 3}, "all of us", "L")
    assert both(api(admin).delete(f"{URL}/lab")) == (200, {"message": "group is removed successfully"})
    assert api(admin).delete(f"{URL}/lab").status_code == 404


@pytest.mark.parametrize("name", ["default", "vision", "admingroup"])
def test_groups_that_mean_something_can_be_described_but_not_removed(
    api: Api, admin: User, vision: VirtualCluster, name: str
) -> None:
    assert api(admin).delete(f"{URL}/{name}").status_code == 403
    assert api(admin).post(URL, {"groupname": name}, format="json").status_code == 409
    kind = api(admin).get(f"{URL}/{name}").json()["extension"]
    api(admin).put(f"{URL}/{name}/description", {"description": "d"}, format="json")
    api(admin).put(f"{URL}/{name}/extension", {"extension": {"groupType": "vc", "x": 1}}, format="json")
    assert api(admin).get(f"{URL}/{name}").json() == shape(name, {**kind, "x": 1}, "d")


def test_a_removed_virtual_cluster_takes_its_group_along(api: Api, admin: User, vision: VirtualCluster) -> None:
    api(admin).put(f"{URL}/vision/description", {"description": "d"}, format="json")
    vision.delete()
    assert Group.objects.count() == 0
    assert api(admin).get(f"{URL}/vision").status_code == 404


def test_a_group_does_not_pretend_to_be_a_virtual_cluster(api: Api, admin: User) -> None:
    data = {"groupname": "lab", "extension": {"groupType": "vc"}}
    assert api(admin).post(URL, data, format="json").status_code == 400
    api(admin).post(URL, {"groupname": "lab"}, format="json")
    api(admin).put(f"{URL}/lab/extension", {"extension": {"groupType": "admin"}}, format="json")
    assert api(admin).get(f"{URL}/lab").json()["extension"] == {}


def test_writes_are_for_admins(api: Api, alice: User) -> None:
    refused = (403, {"code": "ForbiddenUserError", "message": "Non-admin is not allow to do this operation."})
    assert both(api(alice).post(URL, {"groupname": "lab"}, format="json")) == refused
    assert both(api(alice).put(f"{URL}/default/description", {"description": "d"}, format="json")) == refused
    assert both(api(alice).delete(f"{URL}/default")) == refused


def test_users_read_who_is_in_a_group(api: Api, admin: User, alice: User) -> None:
    members = [{"username": "admin", "clusterAdmin": True}, {"username": "alice", "clusterAdmin": False}]
    assert both(api(alice).get(f"{URL}/default/userlist")) == (200, members)
    assert api().get(f"{URL}/default/userlist").status_code == 401


def test_membership_grants_and_takes(api: Api, admin: User, alice: User, vision: VirtualCluster) -> None:
    api(admin).post(URL, {"groupname": "lab"}, format="json")
    for name in ("vision", "lab"):
        answer = api(admin).put(f"{USER}/alice/group", {"groupname": name}, format="json")
        assert both(answer) == (201, {"message": f"User alice is added into group {name}"})
    assert groups_of(api, alice, "alice") == ["default", "vision", "lab"]
    assert api(alice).get(f"{USER}/alice").json()["virtualCluster"] == ["default", "vision"]
    answer = api(admin).delete(f"{USER}/alice/group", {"groupname": "vision"}, format="json")
    assert both(answer) == (201, {"message": "User alice is removed from group vision"})
    assert groups_of(api, alice, "alice") == ["default", "lab"]
    assert api(admin).put(f"{USER}/alice/group", {"groupname": "mars"}, format="json").status_code == 404
    assert api(admin).delete(f"{USER}/alice/group", {"groupname": "default"}, format="json").status_code == 403
    assert api(admin).put(f"{USER}/admin/group", {"groupname": "lab"}, format="json").json()["message"] == (
        "Admin's grouplist cannot be updated."
    )


def test_a_grouplist_sets_grants_memberships_and_the_role(
    api: Api, admin: User, alice: User, vision: VirtualCluster
) -> None:
    api(admin).post(URL, {"groupname": "lab"}, format="json")
    url = f"{USER}/alice/grouplist"
    answer = api(admin).put(url, {"grouplist": ["vision", "lab"]}, format="json")
    assert both(answer) == (201, {"message": "update user grouplist successfully."})
    assert groups_of(api, alice, "alice") == ["default", "vision", "lab"]
    api(admin).put(url, {"grouplist": ["admingroup"]}, format="json")
    assert api(admin).get(f"{USER}/alice").json()["admin"] is True
    members = api(admin).get(f"{URL}/lab/userlist").json()
    assert members == [{"username": "admin", "clusterAdmin": True}, {"username": "alice", "clusterAdmin": True}]
    api(admin).put(url, {"grouplist": []}, format="json")
    assert (groups_of(api, alice, "alice"), User.objects.get(username="alice").is_admin) == (["default"], False)
    assert api(admin).put(url, {"grouplist": ["mars"]}, format="json").status_code == 404
    answer = api(admin).put(f"{USER}/admin/grouplist", {"grouplist": []}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "RemoveAdminError")
