"""Chats, quiet hours, digests, what a job says itself, and what no Event tells."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from django.core.cache import cache
from django.utils import timezone

from base.core.signals import files_grew
from base.models import User
from clusters.models import VirtualCluster
from jobs import admission
from jobs.config.spec import JobSpec
from jobs.models import Event, NoticeChannel, NoticeCursor, NoticeRow, NoticeRule
from jobs.notices import conditions, services, tell
from jobs.notices.channels import chat
from jobs.notices.kinds import KINDS
from jobs.notices.message import NoticeMessage
from tests.api.test_metrics import write
from tests.builders import make_config, make_job, make_node
from tests.cluster import Cluster
from tests.integration.test_notices import of_ledger, rows
from tests.notices import channel, deliveries, make_due, send_all, told
from tests.receivers import receiver

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _to_this_machine(settings: Any) -> None:
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"),)


def message(title: str = "alice/train has failed", *lines: str) -> NoticeMessage:
    return NoticeMessage(KINDS["failed"], timezone.now(), "alice/train", title, "/jobs/alice/train", lines)


# --- chats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "written"), [("slack", chat.slack), ("teams", chat.teams)])
def test_a_chat_gets_what_it_takes(alice: User, kind: str, written: Callable[[NoticeMessage], str]) -> None:
    with receiver() as room:
        channel(alice, room.url, kind=kind)
        told(alice)
        assert send_all() == 1
        sent = json.loads(room.got[0].body)
    assert "It is so." in json.dumps(sent)
    assert set(sent) == ({"text"} if kind == "slack" else {"type", "attachments"})
    assert deliveries()[0].sent == room.got[0].body


def test_no_text_calls_everybody_or_leads_elsewhere() -> None:
    said = json.loads(chat.slack(message("a<!channel>b", "<https://evil.example.org|click> & more")))["text"]
    assert "<!channel>" not in said and "<https://evil" not in said and "&lt;!channel&gt;" in said
    card = json.loads(chat.teams(message("a", "[click](https://evil.example.org)")))["attachments"][0]["content"]
    assert card["body"][1]["text"] == "\\[click\\]\\(https://evil.example.org\\)"
    assert card["actions"][0]["url"].endswith("/jobs/alice/train")


def test_the_address_of_a_chat_is_not_shown(alice: User) -> None:
    from portal.notices.page import channel_lines

    channel(alice, "https://chat.example.org/hooks/secret-part", kind="slack")
    [line] = channel_lines(services.ChannelOwner(alice))
    assert line.target == "chat.example.org/…"
    assert "secret-part" not in str(list(NoticeChannel.objects.values()))


# --- held back -------------------------------------------------------------------------------------------------------


def now_is(cluster: Cluster, text: str) -> None:
    cluster.clock.set += datetime.fromisoformat(text).replace(tzinfo=UTC) - timezone.now()


def test_what_comes_in_quiet_hours_comes_as_one_in_the_morning(cluster: Cluster) -> None:
    alice = cluster.owner
    now_is(cluster, "2026-11-27T23:00")
    services.set_hours(alice, {"is_on": True, "begin": 22 * 60, "end": 7 * 60 + 30})
    with receiver() as room, receiver() as hook:
        channel(alice, room.url, kind="slack", name="room")
        channel(alice, hook.url)
        told(alice, 2)
        assert send_all() == 0
        now_is(cluster, "2026-11-28T07:31")
        send_all()
        assert len(room.got) == 1 and room.got[0].body.count("It is so.") == 2
        assert len(hook.got) == 2, "a webhook gets each"


def test_a_large_failure_comes_anyway(cluster: Cluster) -> None:
    now_is(cluster, "2026-11-27T23:00")
    services.set_hours(cluster.owner, {"is_on": True})
    channel(cluster.owner, "https://hooks.example.org/x")
    of_ledger()
    for gpus in (1, 8):
        job = make_job("alice", f"with-{gpus}", state="FAILED", gpus=gpus)
        Event.objects.create(at=timezone.now(), kind="job.ended", job=job, attempt=1, after="FAILED")
    of_ledger()
    assert {each.notice.about: each.is_held for each in deliveries()} == {"alice/with-1": True, "alice/with-8": False}


def test_a_digest_waits_for_its_hour(cluster: Cluster) -> None:
    now_is(cluster, "2026-11-27T12:00")
    with receiver() as room:
        row = channel(cluster.owner, room.url, kind="slack")
        NoticeRule.objects.filter(channel=row).update(is_digest=True)
        told(cluster.owner, 3)
        assert send_all() == 0
        [*_, last] = deliveries()
        assert last.due_at == datetime(2026, 11, 27, 18, tzinfo=UTC)
        now_is(cluster, "2026-11-27T18:01")
        assert send_all() == 1 and room.got[0].body.count("It is so.") == 3


def test_what_was_told_together_and_failed_is_tried_together_again(alice: User) -> None:
    from tests.receivers import says

    with receiver(says("500 No"), says()) as room:
        channel(alice, room.url, kind="slack")
        told(alice, 5)
        send_all()
        make_due()
        assert send_all() == 1
        assert room.got[0].body == room.got[1].body
    assert sorted(each.state for each in deliveries()) == ["taken", *["together"] * 5]


# --- extras.notify ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notify", "told_of"),
    [
        (["started"], {("started", "one"), ("started", "two")}),
        (["one"], {("succeeded", "one")}),
        (["one", "started"], {("started", "one")}),
        ([], set()),
        (None, {(kind, name) for kind in ("started", "succeeded") for name in ("one", "two")}),
    ],
)
def test_a_job_says_itself_what_its_owner_is_told_of(
    cluster: Cluster, notify: list[str] | None, told_of: set[tuple[str, str]]
) -> None:
    for name in ("one", "two"):
        channel(cluster.owner, f"https://hooks.example.org/{name}", name=name)
    of_ledger()
    cluster.add_node()
    job = cluster.submit(extras={} if notify is None else {"notify": notify})
    cluster.settle()
    cluster.finish(job)
    cluster.settle()
    of_ledger()
    assert {(each.notice.kind, each.channel.name) for each in deliveries()} == told_of
    assert [kind for kind, _ in rows()] == ["started", "succeeded"], "the bell has all"


def test_a_name_that_nobody_has_is_refused(alice: User, bob: User) -> None:
    channel(bob, "https://hooks.example.org/x")
    for name in ("faild", "hook", "lost"):
        spec = JobSpec.from_json(make_config(extras={"notify": ["failed", name]}))
        with pytest.raises(admission.NotGiven, match=f"notify names {name}, which is neither"):
            admission.require_may_submit(alice, spec)
        found = admission.refusal(alice, json.dumps(make_config(extras={"notify": [name]})), spec)
        assert found is not None and found.path == "/extras/notify"


def test_what_older_jobs_keep_there_is_free_storage(cluster: Cluster) -> None:
    channel(cluster.owner, "https://hooks.example.org/x")
    of_ledger()
    for stored in (5, "failed", {"a": 1}, [5, None]):
        job = make_job("alice", state="FAILED")
        job.spec["extras"] = {"notify": stored}
        job.save()
        Event.objects.create(at=timezone.now(), kind="job.ended", job=job, attempt=1, after="FAILED")
    of_ledger()
    assert len(rows()) == 4


# --- what no Event tells ---------------------------------------------------------------------------------------------


def look() -> None:
    NoticeCursor.objects.update(looked_at=timezone.now() - conditions.EVERY)
    assert conditions.look()


def test_idle_gpus_are_told_to_their_owner_once_a_day(alice: User, settings: Any, tmp_path: Path) -> None:
    settings.METRICS_DIR = tmp_path
    node = make_node(gpus=4)
    job = make_job("alice", "train", state="RUNNING", gpus=1, node=node)
    busy = make_job("alice", "busy", state="RUNNING", gpus=1, node=node)
    with tell.cursor():
        pass
    now = int(time.time()) // 10 * 10
    for each in (job, busy):
        write(each, 0, now - 3600, gpu=90)
    for at in range(now - 3500, now + 10, 100):
        write(job, 0, at, gpu=1)
    for each, gpu in ((job, 1), (busy, 90)):
        write(each, 0, now, gpu=gpu)
    look()
    look()
    assert rows() == [("idle", "alice/train")]
    assert NoticeRow.objects.get().says.startswith("1 of its 1 GPU did nothing for ")


def test_a_node_that_does_not_answer_is_told_to_admins_once(alice: User, admin: User, settings: Any) -> None:
    with tell.cursor():
        pass
    now = timezone.now()
    away = {"health": "unreachable", "health_reason": "It does not answer."}
    node = make_node("n1", **away, unreachable_since=now - timedelta(seconds=settings.NODE_LOST_AFTER + 5))
    make_node("n2", **away, unreachable_since=now)
    look()
    look()
    assert rows() == [("lost", "n1")] == rows(user=admin)
    node.unreachable_since = now - timedelta(seconds=settings.NODE_LOST_AFTER + 1)
    node.save()
    look()
    assert len(rows()) == 2, "another time"


def certificate(path: Path, days: float) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "longshore")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=99)).not_valid_after(now + timedelta(days=days))
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))


def test_a_certificate_is_told_before_its_end_and_after_it(admin: User, settings: Any, tmp_path: Path) -> None:
    with tell.cursor():
        pass
    settings.TLS_CERT = str(tmp_path / "portal.pem")
    (tmp_path / "tls").mkdir()
    make_node("n1", tls_dir=str(tmp_path / "tls"))
    (tmp_path / "tls" / "ca.pem").write_text("no certificate")
    for days, number in ((40, 0), (29, 1), (29, 1), (6, 2), (-1, 3)):
        certificate(tmp_path / "portal.pem", days)
        look()
        assert len(rows()) == number, days
    certificate(tmp_path / "tls" / "cert.pem", 3)
    look()
    titles = [row.data["title"] for row in NoticeRow.objects.order_by("id")]
    assert titles[-2:] == ["A certificate of the portal has ended", "A certificate of node n1 is about to end"]
    assert {user for (user,) in NoticeRow.objects.values_list("user")} == {admin.pk}


def test_files_that_are_nearly_at_their_quota_are_told_once_a_day(alice: User) -> None:
    cache.clear()
    for used in (89, 90, 95):
        files_grew.send(None, username="alice", used=used << 20, limit=100 << 20)
    assert rows(user=alice) == [("quota", "alice")]
    assert NoticeRow.objects.get().says == "They take 90.0 MB of the 100 MB that they may take in the store."
    cache.clear()
    files_grew.send(None, username="alice", used=99, limit=100)
    files_grew.send(None, username="nobody", used=99, limit=100)
    assert len(rows()) == 1


def test_it_is_looked_once_a_minute_in_all_processes_together(cluster: Cluster) -> None:
    with tell.cursor():
        pass
    assert [conditions.look() for _ in range(2)] == [False, False]
    cluster.ahead(conditions.EVERY.total_seconds() + 1)
    assert [conditions.look() for _ in range(2)] == [True, False]


def test_a_virtual_cluster_that_is_deleted_takes_its_channels_along(admin: User) -> None:
    VirtualCluster.objects.create(name="nlp", capacity=1, max_capacity=1)
    channel(admin, "https://hooks.example.org/x", vc="nlp")
    VirtualCluster.objects.get(name="nlp").delete()
    assert not NoticeChannel.objects.exists()
