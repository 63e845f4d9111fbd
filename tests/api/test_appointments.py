"""/api/v1/appointments: admins make, change and delete them; users read what concerns them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from base.core.values import milliseconds
from base.models import AuditEvent, User
from clusters.appointments import rules
from clusters.appointments.queries import load_appointments
from clusters.models import Appointment, Node, VcGrant, VirtualCluster
from clusters.nodes import services as nodes
from clusters.users.services import delete_user
from clusters.vcs.services import delete_vc
from tests.builders import make_node

Api = Callable[[User | None], APIClient]
URL = "/api/v1/appointments"
pytestmark = pytest.mark.django_db


def at(hours: float) -> int:
    return milliseconds(timezone.now() + timedelta(hours=hours))


def body(**values: Any) -> dict[str, Any]:
    return {"title": "firmware", "nodes": ["n1"], "begin": at(1), "end": at(3), **values}


def post(client: APIClient, **values: Any) -> tuple[int, Any]:
    answer = client.post(URL, body(**values), format="json")
    return answer.status_code, answer.json()


@pytest.fixture
def root(api: Api, admin: User) -> APIClient:
    """An admin, of three nodes with four GPUs and two teams."""
    for name in ("n1", "n2", "n3"):
        make_node(name, gpus=4)
    for name in ("nlp", "vision"):
        VirtualCluster.objects.create(name=name)
    return api(admin)


def test_it_is_made_changed_and_deleted(root: APIClient) -> None:
    status, made = post(root, virtualCluster="nlp", weekly=True, timeZone="Europe/Berlin")
    assert (status, made["nodes"], made["virtualCluster"], made["weekly"]) == (201, ["n1"], "nlp", True)
    assert made["nextBegin"] == made["begin"] and made["madeBy"] == "admin"
    assert root.get(URL).json() == [made]
    one = f"{URL}/{made['id']}"
    changed = root.put(one, {"title": "paper week", "nodes": ["n1", "n2"]}, format="json")
    assert changed.status_code == 200
    assert changed.json() == {**made, "title": "paper week", "nodes": ["n1", "n2"]}
    assert root.delete(one).status_code == 200
    assert root.get(URL).json() == [] and root.delete(one).status_code == 404
    did = AuditEvent.objects.filter(action__startswith="appointment").order_by("id").values_list("action", flat=True)
    assert list(did) == ["appointment made", "appointment changed", "appointment deleted"]


@pytest.mark.parametrize("who", ["guest", "alice"])
def test_only_an_admin_writes(root: APIClient, api: Api, alice: User, who: str) -> None:
    _, made = post(root)
    client, one = api(None if who == "guest" else alice), f"{URL}/{made['id']}"
    refused = 401 if who == "guest" else 403
    assert post(client)[0] == refused
    assert client.put(one, {"title": "mine", "username": "alice"}, format="json").status_code == refused
    assert client.delete(one).status_code == refused
    assert Appointment.objects.get().title == "firmware"


def test_a_user_reads_maintenance_and_what_is_theirs(root: APIClient, api: Api, alice: User, bob: User) -> None:
    VcGrant.objects.create(vc=VirtualCluster.objects.get(name="nlp"), username="alice")
    given = [{}, {"virtualCluster": "nlp"}, {"virtualCluster": "vision"}, {"username": "bob"}, {"job": "alice~bert"}]
    for hours, holder in enumerate(given, 1):
        assert post(root, **holder, title=str(hours), begin=at(10 * hours), end=at(10 * hours + 1))[0] == 201
    assert [each["title"] for each in api(alice).get(URL).json()] == ["1", "2", "5"]
    assert [each["title"] for each in api(bob).get(URL).json()] == ["1", "4"]
    assert api(None).get(URL).status_code == 401


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"nodes": ["n9"]}, "There is no node n9."),
        ({"username": "nobody"}, "There is no user nobody."),
        ({"virtualCluster": "none"}, "There is no virtual cluster none."),
        ({"job": "bert"}, "job: name it user~job."),
        ({"timeZone": "Mars/North"}, "There is no time zone Mars/North; an example is Europe/Berlin."),
        ({"nodes": []}, "It must name a node, or an amount of GPUs."),
    ],
)
def test_what_is_wrong_is_said(root: APIClient, values: dict[str, Any], said: str) -> None:
    status, answer = post(root, **values)
    assert (status, answer["message"]) == (400, said)
    assert not Appointment.objects.exists()


def test_one_in_the_past_or_too_long_is_refused(root: APIClient) -> None:
    assert post(root, begin=at(-1))[1]["message"] == "It begins in the past; let it begin now or later."
    assert post(root, end=at(0.5))[1]["message"] == "It must end after it begins."
    assert post(root, end=at(24 * 40))[1]["message"] == "It may last 31 days at most."
    assert post(root, begin=0, end=0)[1]["message"] == "It must end after it begins."
    assert post(root, begin=1 << 60)[0] == 400


def test_a_node_is_not_promised_twice(root: APIClient) -> None:
    post(root, virtualCluster="nlp", title="paper week", nodes=["n1", "n2"])
    status, answer = post(root, virtualCluster="vision", begin=at(2), end=at(5))
    assert (status, answer["code"]) == (409, "ConflictError")
    assert answer["message"].startswith("It meets another appointment. n1: kept for VC nlp from ")
    assert "“paper week”" in answer["message"]
    assert post(root, virtualCluster="nlp", begin=at(2), end=at(5))[0] == 201
    assert post(root, virtualCluster="vision", nodes=["n3"], begin=at(2), end=at(5))[0] == 201


def test_an_amount_of_gpus_takes_whole_nodes_that_nobody_was_promised(root: APIClient) -> None:
    kind = Node.objects.get(name="n1").gpus[0]["type"]
    post(root)
    status, made = post(root, nodes=[], gpus=5, gpuType=kind, virtualCluster="nlp")
    assert (status, made["nodes"]) == (201, ["n2", "n3"])
    status, answer = post(root, nodes=[], gpus=1, gpuType=kind, virtualCluster="vision")
    assert (status, answer["message"]) == (
        409,
        f"There are not 1 {kind} GPUs then on nodes without another appointment.",
    )
    fewer = root.put(f"{URL}/{made['id']}", {"gpus": 4, "gpuType": kind}, format="json").json()
    assert fewer["nodes"] == ["n2"]


def test_an_amount_of_gpus_takes_no_node_that_hands_none_out(root: APIClient) -> None:
    kind = Node.objects.get(name="n1").gpus[0]["type"]
    refuses = {"sentence": "Node n1 cannot hand out GPUs.", "since": "2026-11-20T10:00:00+00:00", "until": ""}
    Node.objects.filter(name="n1").update(marks={"gpus": refuses})
    Node.objects.filter(name="n2").update(health="unreachable")
    assert post(root, nodes=[], gpus=4, gpuType=kind, virtualCluster="nlp")[1]["nodes"] == ["n3"]
    assert post(root, nodes=[], gpus=4, gpuType=kind, virtualCluster="vision")[0] == 409


def test_a_title_has_no_sign_that_nobody_sees(root: APIClient) -> None:
    status, answer = post(root, title="paper\u202eweek")
    assert status == 400 and "has U+202E at position 6, a sign that nobody sees" in answer["message"]
    assert post(root, title="论文 \U0001f600")[0] == 201


def test_there_are_so_many_at_most(root: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST", 1)
    assert post(root)[0] == 201
    assert post(root)[1]["message"] == "There are 1 appointments, which is the most; delete one first."


def test_one_that_runs_is_made_longer_and_keeps_a_node_that_is_gone(root: APIClient, admin: User) -> None:
    _, made = post(root, begin=at(0), nodes=["n1", "n2"])
    nodes.remove_node(admin, "n2")
    one = f"{URL}/{made['id']}"
    changed = root.put(one, {"end": at(9), "nodes": ["n1", "n2"]}, format="json")
    assert (changed.status_code, changed.json()["nodes"]) == (200, ["n1", "n2"])


def test_it_goes_with_its_virtual_cluster_and_with_its_user(root: APIClient, admin: User, alice: User) -> None:
    post(root, virtualCluster="nlp")
    post(root, username="alice", begin=at(10), end=at(11))
    post(root, job="alice~bert", begin=at(20), end=at(21))
    delete_vc(admin, "nlp")
    delete_user(admin, "alice")
    assert load_appointments(timezone.now()) == []
