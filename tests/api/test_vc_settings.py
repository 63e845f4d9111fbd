"""PUT /virtual-clusters/:vc with what Longshore knows beside v1: GPUs in numbers, nodes of its own, caps of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.files.quota.use import limit_of
from base.models import AuditEvent, User
from clusters.models import Node, VirtualCluster
from tests.builders import make_node

Api = Callable[[User | None], APIClient]
URL = "/api/v1/virtual-clusters"


def put(client: APIClient, name: str, **body: Any) -> tuple[int, Any]:
    answer = client.put(f"{URL}/{name}", body, format="json")
    return answer.status_code, answer.json()


def get(client: APIClient, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = client.get(f"{URL}/{name}").json()
    return answer


@pytest.fixture
def root(api: Api, admin: User) -> APIClient:
    """An admin, of a pool with two nodes of four GPUs."""
    for name in ("n1", "n2"):
        make_node(name, gpus=4)
    return api(admin)


def test_what_is_given_is_kept_until_it_is_given_again(root: APIClient) -> None:
    caps = {"gpus": 2, "jobs": 5}
    logs = {"days": 30, "gigabytes": None}
    given = {"gpuGuarantee": 3, "gpuCeiling": 6, "dedicatedNodes": ["n2"], "userCaps": caps, "logRetention": logs}
    given |= {
        "userPriority": 30,
        "shareHalfLifeHours": 0,
        "graceSeconds": 600,
        "minRunMinutes": 1440,
        "notebookMinutes": 30,
    }
    assert put(root, "vision", vcCapacity=30, **{**given, "dedicatedNodes": []})[0] == 201
    assert put(root, "vision", vcCapacity=30, dedicatedNodes=["n2"])[0] == 201
    assert put(root, "vision", vcCapacity=40) == (201, {"message": "update vc: vision to capacity: 40 successfully"})
    seen = get(root, "vision")
    assert {name: seen[name] for name in given} == given
    assert put(root, "vision", vcCapacity=40, userCaps={"gpus": None}, gpuGuarantee=None, dedicatedNodes=[])[0] == 201
    seen = get(root, "vision")
    assert (seen["userCaps"], seen["gpuGuarantee"], seen["dedicatedNodes"]) == ({"gpus": None, "jobs": 5}, None, [])
    change = AuditEvent.objects.filter(object="vision").latest("id").data
    assert change["from"]["dedicated_nodes"] == ["n2"]
    assert change["to"]["dedicated_nodes"] == []


def test_a_body_of_v1_changes_none_of_it(root: APIClient) -> None:
    put(root, "vision", vcCapacity=30, vcMaxCapacity=50)
    row = VirtualCluster.objects.get(name="vision")
    assert (row.gpu_guarantee, row.gpu_ceiling, row.user_gpus, row.user_jobs) == (None, None, None, None)


def refused(status: int, code: str, message: str) -> tuple[int, Any]:
    return status, {"code": code, "message": message}


def test_nobody_is_guaranteed_more_gpus_than_the_pool_has(root: APIClient) -> None:
    says = "The pool has 8 GPUs, of which others are guaranteed 0: 8 are left."
    assert put(root, "vision", vcCapacity=10, gpuGuarantee=9) == refused(403, "NoEnoughQuotaError", says)
    assert put(root, "vision", vcCapacity=10, gpuGuarantee=6)[0] == 201
    says = "The pool has 8 GPUs, of which others are guaranteed 6: 2 are left."
    assert put(root, "nlp", vcCapacity=50) == refused(403, "NoEnoughQuotaError", says)
    assert put(root, "nlp", vcCapacity=50, gpuGuarantee=2)[0] == 201
    assert not VirtualCluster.objects.filter(name="other").exists()


def test_a_ceiling_is_not_below_what_is_guaranteed(root: APIClient) -> None:
    says = "It may not be less than the 4 GPUs that are guaranteed."
    assert put(root, "vision", vcCapacity=50, gpuCeiling=3) == refused(403, "NoEnoughQuotaError", says)
    assert put(root, "vision", vcCapacity=50, gpuCeiling=3, gpuGuarantee=3)[0] == 201


def test_a_node_is_of_one_virtual_cluster_at_most(root: APIClient) -> None:
    put(root, "vision", vcCapacity=10, dedicatedNodes=["n1"])
    says = "Node n1 is dedicated to vision; take it from there first."
    assert put(root, "nlp", vcCapacity=10, dedicatedNodes=["n1", "n2"]) == refused(409, "ConflictVcError", says)
    assert not VirtualCluster.objects.filter(name="nlp").exists(), "the whole request is refused"
    assert Node.objects.get(name="n2").dedicated_to is None
    says = "There is no node n9."
    assert put(root, "vision", vcCapacity=10, dedicatedNodes=["n9"]) == refused(400, "InvalidParametersError", says)
    assert get(root, "vision")["dedicatedNodes"] == ["n1"]


def test_the_pool_keeps_the_gpus_that_are_guaranteed(root: APIClient) -> None:
    put(root, "vision", vcCapacity=10, gpuGuarantee=6)
    status, answer = put(root, "nlp", vcCapacity=10, dedicatedNodes=["n1"])
    assert (status, answer["message"]) == (403, "The pool has 4 GPUs, of which others are guaranteed 6: 0 are left.")


def test_nodes_of_a_deleted_one_are_of_the_pool_again(root: APIClient) -> None:
    put(root, "vision", vcCapacity=10, dedicatedNodes=["n1"])
    assert root.delete(f"{URL}/vision").status_code == 201
    assert Node.objects.get(name="n1").dedicated_to is None
    assert AuditEvent.objects.latest("id").data["nodes"] == ["n1"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"gpuGuarantee": -1}, 'child "gpuGuarantee" fails because ["gpuGuarantee" must be larger than or equal to 0]'),
        ({"gpuGuarantee": 1.5}, 'child "gpuGuarantee" fails because ["gpuGuarantee" must be an integer]'),
        ({"gpuCeiling": "x"}, 'child "gpuCeiling" fails because ["gpuCeiling" must be a number]'),
        ({"gpuCeiling": True}, 'child "gpuCeiling" fails because ["gpuCeiling" must be a number]'),
        ({"dedicatedNodes": "n1"}, 'child "dedicatedNodes" fails because ["dedicatedNodes" must be an array of names]'),
        ({"dedicatedNodes": [1]}, 'child "dedicatedNodes" fails because ["dedicatedNodes" must be an array of names]'),
        ({"userCaps": 5}, 'child "userCaps" fails because ["userCaps" must be an object]'),
        ({"userCaps": {"jobs": 0}}, 'child "jobs" fails because ["jobs" must be larger than or equal to 1]'),
        ({"userCaps": {"cpus": 1}}, '"cpus" is not allowed'),
        (
            {"userPriority": 101},
            'child "userPriority" fails because ["userPriority" must be less than or equal to 100]',
        ),
        ({"userPriority": -1}, 'child "userPriority" fails because ["userPriority" must be larger than or equal to 0]'),
        (
            {"shareHalfLifeHours": 8761},
            'child "shareHalfLifeHours" fails because ["shareHalfLifeHours" must be less than or equal to 8760]',
        ),
        (
            {"shareHalfLifeHours": -1},
            'child "shareHalfLifeHours" fails because ["shareHalfLifeHours" must be larger than or equal to 0]',
        ),
        (
            {"minRunMinutes": 1441},
            'child "minRunMinutes" fails because ["minRunMinutes" must be less than or equal to 1440]',
        ),
        ({"userPriority": None}, 'child "userPriority" fails because ["userPriority" must be a number]'),
        ({"profile": "root"}, 'child "profile" fails because ["profile" must be one of [default, pai]]'),
    ],
)
def test_a_wrong_value_is_refused_in_the_words_of_v1(root: APIClient, body: dict[str, Any], message: str) -> None:
    assert put(root, "vision", vcCapacity=10, **body) == refused(400, "InvalidParametersError", message)


def test_only_admins_change_it(root: APIClient, api: Api, alice: User) -> None:
    assert put(api(alice), "vision", vcCapacity=10, gpuGuarantee=1)[0] == 403
    assert put(api(None), "vision", vcCapacity=10, gpuGuarantee=1)[0] == 401
    assert put(api(alice), "default", storeQuota="1g")[0] == 403
    assert put(api(None), "default", storeQuota="1g")[0] == 401
    assert put(api(alice), "default", userPriority=100)[0] == 403
    assert put(api(alice), "vision", vcCapacity=10, userPriority=100)[0] == 403
    assert not VirtualCluster.objects.filter(user_priority__gt=0).exists()


def test_default_takes_a_quota_and_caps_and_nothing_else(root: APIClient, api: Api, alice: User) -> None:
    assert put(root, "default", storeQuota="1g", userCaps={"jobs": 3}, userPriority=7, shareHalfLifeHours=8760) == (
        201,
        {"message": "update vc: default successfully"},
    )
    assert limit_of("alice") == 1 << 30
    seen = get(api(alice), "default")
    assert (seen["userCaps"], seen["userPriority"]) == ({"gpus": None, "jobs": 3}, 7)
    assert seen["shareHalfLifeHours"] == 8760
    no = refused(403, "ForbiddenUserError", "Update operation to default vc isn't allowed")
    for body in (
        {},
        {"vcCapacity": 30},
        {"gpuGuarantee": 1},
        {"profile": "pai"},
        {"vcCapacity": 1, "storeQuota": "1g"},
    ):
        assert put(root, "default", **body) == no
    assert put(root, "default", storeQuota="a lot")[0] == 400


def test_guests_do_not_see_quotas_of_the_store(root: APIClient, api: Api, alice: User) -> None:
    put(root, "default", storeQuota="1g")
    assert get(api(None), "default")["storeQuota"] is None
    assert api(None).get(URL).json()["default"]["storeQuota"] is None
    assert get(api(alice), "default")["storeQuota"] == 1 << 30
