"""Notices, channels, rules and deliveries by the API: one's own alone, and those of virtual clusters for admins."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from base.models import AuditEvent, User
from jobs.models import NoticeChannel, NoticeDelivery, NoticeRow
from jobs.notices import services
from tests.http import ApiClient
from tests.notices import channel, deliveries, make_due, send_all, told
from tests.receivers import receiver, says

pytestmark = pytest.mark.django_db

Api = Callable[[User | None], ApiClient]
URL = "/api/v1/notices"
HOOK = {"name": "hook", "kind": "webhook", "target": "https://hooks.example.org/x"}


def test_it_lists_what_i_was_told_newest_first_and_marks_it_as_read(api: Api, alice: User, bob: User) -> None:
    first, *_, last = told(alice, 3)
    told(bob)
    client = api(alice)
    page = client.get(f"{URL}?limit=2").json()
    assert (len(page["notices"]), page["unread"], page["older"]) == (2, 3, page["notices"][1]["id"])
    assert page["notices"][0]["lines"] == ["It is so."] and page["notices"][0]["readTime"] is None
    [rest] = client.get(f"{URL}?before={page['older']}").json()["notices"]
    assert rest["id"] == first.pk
    assert client.put(f"{URL}/read", {"upTo": first.pk}, format="json").json()["message"].startswith("1 ")
    assert client.put(f"{URL}/read", {"upTo": last.pk}, format="json").status_code == 200
    assert client.get(URL).json()["unread"] == 0 and NoticeRow.objects.filter(user=bob, read_at=None).count() == 1


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "before=x", "before=-1"])
def test_a_bad_query_is_refused(api: Api, alice: User, query: str) -> None:
    for path in ("", "/deliveries"):
        answer = api(alice).get(f"{URL}{path}?{query}")
        assert answer.status_code == 400 and query.partition("=")[0] in answer.json()["message"]


def test_a_channel_is_made_with_a_secret_that_is_shown_once(api: Api, alice: User) -> None:
    client = api(alice)
    made = client.post(f"{URL}/channels", HOOK, format="json")
    assert made.status_code == 201 and made.json()["secret"].startswith("whsec_")
    [shown] = client.get(f"{URL}/channels").json()
    assert (shown["name"], shown["target"], shown["failingSince"]) == ("hook", "hooks.example.org/x", None)
    assert {rule["kind"] for rule in shown["rules"]} == set(services.FIRST_KINDS)
    kept = str(list(NoticeChannel.objects.values()) + list(AuditEvent.objects.values()))
    assert made.json()["secret"] not in kept and "hooks.example.org" not in kept
    assert client.post(f"{URL}/channels", HOOK, format="json").status_code == 409
    assert client.delete(f"{URL}/channels/hook").status_code == 200
    assert client.delete(f"{URL}/channels/hook").status_code == 404


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"target": "http://hooks.example.org/x"}, "https://"),
        ({"target": "ftp://hooks.example.org/x"}, "https://"),
        ({"target": "https://u:p@hooks.example.org/x"}, "no user and no password"),
        ({"target": "https:///x"}, "address such as"),
        ({"target": "https://[::1/"}, "address such as"),
        ({"target": "https://hooks.example.org:99999/"}, "address such as"),
        ({"target": "https://hooks.example.org/ x"}, "address such as"),
        ({"target": "https://127.0.0.1/"}, "private network"),
        ({"target": "https://[::ffff:169.254.169.254]/"}, "private network"),
        ({"target": "https://hooks.example.org/" + "x" * 1000}, "length"),
        ({"name": "x" * 41}, "length"),
        ({"name": "failed"}, "word for a kind"),
        ({"name": " "}, "name of 1 to 40"),
        ({"name": "a\u202eb"}, "nobody sees"),
        ({"name": "a/b"}, "a part of its address"),
        ({"name": ".."}, "a part of its address"),
        ({"kind": "pigeon"}, "kind"),
        ({"more": 1}, "more"),
    ],
)
def test_a_bad_channel_is_refused_with_a_sentence(api: Api, alice: User, change: dict[str, Any], says: str) -> None:
    answer = api(alice).post(f"{URL}/channels", {**HOOK, **change}, format="json")
    assert answer.status_code == 400 and says in answer.json()["message"]
    assert not NoticeChannel.objects.exists()


def test_there_are_so_many_channels(api: Api, alice: User) -> None:
    for at in range(services.MOST_CHANNELS):
        assert api(alice).post(f"{URL}/channels", {**HOOK, "name": f"n{at}"}, format="json").status_code == 201
    answer = api(alice).post(f"{URL}/channels", HOOK, format="json")
    assert answer.status_code == 400 and f"There are {services.MOST_CHANNELS} channels" in answer.json()["message"]


def test_a_rule_is_set_changed_and_deleted(api: Api, alice: User, admin: User) -> None:
    client = api(alice)
    client.post(f"{URL}/channels", HOOK, format="json")
    rule = f"{URL}/channels/hook/rules"
    assert client.put(f"{rule}/started", {"minutes": 10, "gpus": 8}, format="json").json() == {
        **{"kind": "started", "minutes": 10, "gpus": 8, "digest": False, "on": True},
    }
    assert client.put(f"{rule}/started", {"on": False}, format="json").json()["on"] is False
    for kind, body in (("nothing", {}), ("lost", {}), ("started", {"minutes": -1}), ("started", {"minutes": "many"})):
        assert client.put(f"{rule}/{kind}", body, format="json").status_code == 400, (kind, body)
    assert client.delete(f"{rule}/started").status_code == 200
    assert client.delete(f"{rule}/started").status_code == 404
    assert client.put(f"{URL}/channels/no/rules/failed", {}, format="json").status_code == 404
    api(admin).post(f"{URL}/channels", HOOK, format="json")
    assert api(admin).put(f"{rule}/lost", {}, format="json").status_code == 200


def test_quiet_hours_are_read_and_set(api: Api, alice: User, bob: User) -> None:
    client = api(alice)
    usual = client.get(f"{URL}/hours").json()
    assert (usual["on"], usual["begin"], usual["timeZone"]) == (False, 22 * 60, "UTC")
    changed = client.put(f"{URL}/hours", {"on": True, "end": 480, "timeZone": "Asia/Tokyo"}, format="json").json()
    assert changed == {**usual, "on": True, "end": 480, "timeZone": "Asia/Tokyo"} == client.get(f"{URL}/hours").json()
    for bad in ({"end": 1440}, {"begin": -1}, {"timeZone": "Mars/Olympus"}, {"timeZone": "../x"}, {"butGpus": "x"}):
        answer = client.put(f"{URL}/hours", bad, format="json")
        assert answer.status_code == 400 and next(iter(bad)) in answer.json()["message"], bad
    assert api(bob).get(f"{URL}/hours").json() == usual and api(None).get(f"{URL}/hours").status_code == 401


def test_calls_show_what_was_sent_and_answered_and_are_sent_again(api: Api, alice: User, settings: Any) -> None:
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"),)
    client = api(alice)
    with receiver(says("500 No", "<b>no</b>"), says()) as hook:
        channel(alice, hook.url)
        sent = client.post(f"{URL}/channels/hook/test").json()["id"]
        send_all()
        [item] = client.get(f"{URL}/deliveries?channel=hook&state=waiting").json()["deliveries"]
        assert (item["id"], item["status"], item["tries"], item["kind"]) == (sent, 500, 1, "test")
        detail = client.get(f"{URL}/deliveries/{sent}").json()
        assert detail["body"] == hook.got[0].body and detail["answerBody"] == "<b>no</b>"
        assert client.post(f"{URL}/deliveries/{sent}/again").status_code == 202
        send_all()
        assert client.post(f"{URL}/deliveries/{sent}/again").status_code == 202, "one that was taken, too"
        send_all()
        assert [each.headers["webhook-id"] for each in hook.got] == [sent] * 3
    assert client.get(f"{URL}/deliveries?state=taken").json()["deliveries"][0]["tries"] == 3
    assert client.get(f"{URL}/deliveries?state=odd").status_code == 400
    for _ in range(5):
        client.post(f"{URL}/channels/hook/test")
    assert client.post(f"{URL}/channels/hook/test").status_code == 409
    make_due()


def test_nobody_reads_or_changes_what_is_another_s(api: Api, alice: User, bob: User) -> None:
    channel(alice, "https://hooks.example.org/x")
    told(alice)
    [delivery] = deliveries()
    client = api(bob)
    assert client.get(URL).json()["notices"] == client.get(f"{URL}/channels").json() == []
    assert client.get(f"{URL}/deliveries").json()["deliveries"] == []
    for method, path in (
        ("delete", "channels/hook"),
        ("post", "channels/hook/test"),
        ("put", "channels/hook/rules/failed"),
        ("delete", "channels/hook/rules/failed"),
        ("get", f"deliveries/{delivery.uid}"),
        ("post", f"deliveries/{delivery.uid}/again"),
    ):
        answer = getattr(client, method)(f"{URL}/{path}")
        assert answer.status_code == 404, (method, path)
        assert getattr(api(None), method)(f"{URL}/{path}").status_code == 401
    assert NoticeDelivery.objects.get().due_at == delivery.due_at


def test_those_of_a_virtual_cluster_are_for_admins(api: Api, alice: User, admin: User) -> None:
    of = "?virtualCluster=default"
    assert api(admin).post(f"{URL}/channels{of}", HOOK, format="json").status_code == 201
    [row] = NoticeChannel.objects.all()
    assert (row.user, row.vc, row.made_by) == (None, "default", "admin")
    assert api(admin).put(f"{URL}/channels/hook/rules/started{of}", {}, format="json").status_code == 200
    assert api(admin).put(f"{URL}/channels/hook/rules/lost{of}", {}, format="json").status_code == 400
    for path in ("channels", "deliveries"):
        assert api(alice).get(f"{URL}/{path}{of}").status_code == 403
        assert api(admin).get(f"{URL}/{path}?virtualCluster=none").status_code == 404
    assert api(alice).post(f"{URL}/channels{of}", HOOK, format="json").status_code == 403
    assert api(admin).get(f"{URL}/channels").json() == []
