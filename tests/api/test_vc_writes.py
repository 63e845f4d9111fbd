"""PUT, DELETE and PUT status of /virtual-clusters/:vc, with v1's words and its order of checks (3.11, 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.core.bulk import insert_row
from base.models import AuditEvent, User
from clusters.models import Group, VcGrant, VirtualCluster
from jobs import services
from jobs.models import Job
from tests.submitting import config, submitted

Api = Callable[[User | None], APIClient]
URL = "/api/v1/virtual-clusters"
GUEST = (401, {"code": "UnauthorizedUserError", "message": "Guest is not allowed to do this operation."})
NO_ADMIN = (403, {"code": "ForbiddenUserError", "message": "Non-admin is not allowed to do this operation."})
DEFAULT = (403, {"code": "ForbiddenUserError", "message": "Update operation to default vc isn't allowed"})
BAD_NAME = (
    400,
    {
        "code": "InvalidParametersError",
        "message": "VC name should only contain alpha-numeric and underscore characters",
    },
)


def put(client: APIClient, path: str, body: Any = None) -> tuple[int, Any]:
    answer = client.put(f"{URL}/{path}", {"vcCapacity": 30} if body is None else body, format="json")
    return answer.status_code, answer.json()


def delete(client: APIClient, name: str) -> tuple[int, Any]:
    answer = client.delete(f"{URL}/{name}")
    return answer.status_code, answer.json()


def capacities() -> dict[str, tuple[float, float]]:
    return {vc.name: (vc.capacity, vc.max_capacity) for vc in VirtualCluster.objects.all()}


def bad(message: str) -> tuple[int, Any]:
    return 400, {"code": "InvalidParametersError", "message": message}


def test_an_admin_gives_its_containers_more_rights(api: Api, admin: User, alice: User) -> None:
    more = {"vcCapacity": 30, "profile": "pai", "rdma": True}
    assert put(api(alice), "vision", more) == NO_ADMIN
    assert put(api(admin), "vision", more)[0] == 201
    assert put(api(admin), "vision")[0] == 201, "what is not named stays"
    seen = api(None).get(f"{URL}/vision").json()
    assert (seen["profile"], seen["rdma"]) == ("pai", True)
    assert AuditEvent.objects.filter(object="vision").first().data["to"]["profile"] == "pai"  # type: ignore[union-attr]
    assert put(api(admin), "vision", {"vcCapacity": 30, "profile": "default", "rdma": False})[0] == 201
    seen = api(None).get(f"{URL}/vision").json()
    assert (seen["profile"], seen["rdma"]) == ("default", False)
    for name, value, what in (("profile", "root", "must be one of [default, pai]"), ("rdma", 1, "must be a boolean")):
        said = put(api(admin), "vision", {"vcCapacity": 30, name: value})
        assert said == bad(f'child "{name}" fails because ["{name}" {what}]')


def test_it_goes_through_the_life_of_a_virtual_cluster(api: Api, admin: User, alice: User) -> None:
    client = api(admin)
    assert put(client, "vision") == (201, {"message": "create vc: vision to capacity: 30 successfully"})
    assert capacities() == {"default": (70, 100), "vision": (30, 30)}
    assert put(client, "vision", {"vcCapacity": "40", "vcMaxCapacity": 100}) == (
        201,
        {"message": "update vc: vision to capacity: 40 successfully"},
    )
    assert capacities() == {"default": (60, 100), "vision": (40, 100)}
    assert api(None).get(f"{URL}/default").json()["capacity"] == 60
    stopped = put(client, "vision/status", {"vcStatus": "stopped"})
    assert stopped == (201, {"message": "stop vc vision successfully"})
    assert api(None).get(f"{URL}/vision").json()["status"] == "STOPPED"
    active = put(client, "vision/status", {"vcStatus": "running"})
    assert active == (201, {"message": "active vc vision successfully"})
    VcGrant.objects.create(vc=VirtualCluster.objects.get(name="vision"), username=alice.username)
    assert delete(client, "vision") == (201, {"message": "Remove vc: vision successfully"})
    assert capacities() == {"default": (100, 100)}
    assert not VcGrant.objects.exists()
    actions = list(AuditEvent.objects.filter(object="vision").order_by("id").values_list("actor", "action"))
    assert actions == [
        ("admin", "virtual cluster created"),
        ("admin", "virtual cluster resized"),
        ("admin", "virtual cluster status set"),
        ("admin", "virtual cluster status set"),
        ("admin", "virtual cluster deleted"),
    ]


def test_it_gives_no_more_than_there_is(api: Api, admin: User) -> None:
    client = api(admin)
    put(client, "a", {"vcCapacity": 60})
    no = (403, {"code": "NoEnoughQuotaError", "message": "No enough quota"})
    assert put(client, "b", {"vcCapacity": 41}) == no
    assert put(client, "b", {"vcCapacity": 40})[0] == 201
    assert put(client, "a", {"vcCapacity": 61}) == no
    assert put(client, "a", {"vcCapacity": 12.5})[1]["message"] == "update vc: a to capacity: 12.5 successfully"
    assert capacities() == {"default": (47.5, 100), "a": (12.5, 12.5), "b": (40, 40)}
    assert api(None).get(f"{URL}/a").json()["capacity"] == 12.5


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'child "vcCapacity" fails because ["vcCapacity" is required]'),
        ({"vcCapacity": "x"}, 'child "vcCapacity" fails because ["vcCapacity" must be a number]'),
        ({"vcCapacity": -1}, 'child "vcCapacity" fails because ["vcCapacity" must be larger than or equal to 0]'),
        ({"vcCapacity": 101}, 'child "vcCapacity" fails because ["vcCapacity" must be less than or equal to 100]'),
        (
            {"vcCapacity": 30, "vcMaxCapacity": 20},
            'child "vcMaxCapacity" fails because ["vcMaxCapacity" must be larger than or equal to 30]',
        ),
        (
            {"vcCapacity": 30, "description": "x" * 256},
            'child "description" fails because ["description" length must be less than or equal to 255 characters '
            "long]",
        ),
        (
            {"vcCapacity": 30, "profile": None},
            'child "profile" fails because ["profile" must be one of [default, pai]]',
        ),
        ({"vcCapacity": 30, "color": "red"}, '"color" is not allowed'),
        ([], '"value" must be an object'),
    ],
)
def test_it_refuses_a_bad_body_in_the_words_of_v1(api: Api, admin: User, body: Any, message: str) -> None:
    assert put(api(admin), "vision", body) == bad(message)


def test_it_refuses_a_bad_status_in_the_words_of_v1(api: Api, admin: User) -> None:
    VirtualCluster.objects.create(name="vision")
    message = 'child "vcStatus" fails because ["vcStatus" must be one of [stopped, running]]'
    assert put(api(admin), "vision/status", {"vcStatus": "paused"}) == bad(message)
    missing = 'child "vcStatus" fails because ["vcStatus" is required]'
    assert put(api(admin), "vision/status", {}) == bad(missing)


def test_it_asks_for_the_name_then_the_token_then_the_body_then_the_right(api: Api, alice: User) -> None:
    assert put(api(None), "a-b") == delete(api(None), "a-b") == put(api(None), "a-b/status") == BAD_NAME
    assert put(api(None), "default") == delete(api(None), "default") == put(api(None), "default/status") == DEFAULT
    assert put(api(None), "vision", {}) == delete(api(None), "vision") == GUEST
    assert put(api(alice), "vision", {})[0] == 400
    assert put(api(alice), "vision") == delete(api(alice), "vision") == NO_ADMIN
    assert put(api(alice), "vision/status", {"vcStatus": "stopped"}) == NO_ADMIN


def test_it_says_which_one_is_missing(api: Api, admin: User) -> None:
    def missing(message: str) -> tuple[int, Any]:
        return 404, {"code": "NoVirtualClusterError", "message": message}

    assert delete(api(admin), "xx") == missing("Can't delete a nonexistent vc xx")
    assert put(api(admin), "xx/status", {"vcStatus": "stopped"}) == missing("Vc xx not found, can't stop")
    assert put(api(admin), "xx/status", {"vcStatus": "running"}) == missing("Vc xx not found, can't active")


def test_it_keeps_one_that_has_jobs(api: Api, admin: User) -> None:
    put(api(admin), "vision")
    for number in range(3):
        submitted(admin, f"job{number}", virtualCluster="vision")
    Job.objects.filter(name="job0").update(state="RUNNING")
    for alive in ("1 job is running and 2 jobs are waiting", "3 jobs are running"):
        message = f"Can't delete vc vision, {alive}, stop them before delete vc"
        assert delete(api(admin), "vision") == (403, {"code": "RemoveRunningVcError", "message": message})
        Job.objects.update(state="RUNNING")
    assert "vision" in capacities()
    Job.objects.update(state="SUCCEEDED")
    assert delete(api(admin), "vision")[0] == 201


def test_it_refuses_a_job_whose_virtual_cluster_goes_while_it_comes(
    api: Api, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(api(admin), "vision")

    def delete_first(job: Job) -> None:
        VirtualCluster.objects.filter(name="vision").delete()
        insert_row(job)

    monkeypatch.setattr(services, "insert_row", delete_first)
    answer = api(admin).post("/api/v1/user/admin/jobs", config("one", virtualCluster="vision"), format="json")
    missing = {"code": "NoVirtualClusterError", "message": "Virtual cluster vision is not found."}
    assert (answer.status_code, answer.json()) == (404, missing)
    assert not Job.objects.exists()


def test_it_takes_a_job_for_a_stopped_one_and_lets_it_wait(api: Api, admin: User) -> None:
    put(api(admin), "vision")
    put(api(admin), "vision/status", {"vcStatus": "stopped"})
    assert submitted(admin, "job", virtualCluster="vision").state == "WAITING"
    detail = api(admin).get("/api/v1/jobs/admin~job").json()
    assert "VC vision is stopped" in detail["jobStatus"]["waitingReason"]["blockers"][0]["sentence"]


def test_it_leaves_the_names_of_groups_alone(api: Api, admin: User) -> None:
    Group.objects.create(name="staff")
    for name in ("staff", "admingroup"):
        taken = {"code": "ConflictVcError", "message": f"Group name {name} already exists."}
        assert put(api(admin), name) == (409, taken)
    put(api(admin), "vision", {"vcCapacity": 1, "description": "cameras", "externalName": "V"})
    assert Group.objects.get(vc__name="vision").description == "cameras"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"vcCapacity": 30}', "text/plain"),
        ('{"vcCapacity": 30}', "application/json"),
        ("vcCapacity=30", "application/x-www-form-urlencoded"),
    ],
)
def test_it_reads_the_three_kinds_of_bodies(api: Api, admin: User, text: str, kind: str) -> None:
    assert api(admin).put(f"{URL}/vision", text, content_type=kind).status_code == 201
    assert capacities()["vision"] == (30, 30)


def test_an_admin_limits_what_the_files_of_its_users_take(api: Api, admin: User) -> None:
    put(api(admin), "vision", {"vcCapacity": 30, "storeQuota": "2g"})
    put(api(admin), "vision", {"vcCapacity": 40})
    assert api(admin).get(f"{URL}/vision").json()["storeQuota"] == 2 << 30
    put(api(admin), "vision", {"vcCapacity": 40, "storeQuota": None})
    assert api(admin).get(f"{URL}/vision").json()["storeQuota"] is None
    assert put(api(admin), "vision", {"vcCapacity": 40, "storeQuota": "a lot"})[0] == 400


@pytest.mark.parametrize("name", ["vcCapacity", "vcMaxCapacity"])
def test_a_number_that_is_larger_than_any_double_is_refused(api: Api, admin: User, name: str) -> None:
    for number, limit in ((10**400, "less than or equal to 100"), (-(10**400), "larger than or equal to 0")):
        said = put(api(admin), "vision", {"vcCapacity": 30, name: number})
        assert said == bad(f'child "{name}" fails because ["{name}" must be {limit}]')
