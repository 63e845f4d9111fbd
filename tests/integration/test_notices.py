"""Notices are made of the ledger, once each, whoever dies in between; and sent at least once, with one id."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from base.hosts import predecessor
from base.models import User
from clusters.models import VirtualCluster
from jobs import services as job_services
from jobs.models import Attempt, Event, NoticeChannel, NoticeCursor, NoticeDelivery, NoticeRow, NoticeRule, NoticeTry
from jobs.notices import message, post, send, services, targets, tell
from jobs.notices.channels import webhook
from jobs.notices.run import NoticeWorker, purge
from jobs.notices.services import ChannelOwner
from tests.cluster import Cluster
from tests.helpers import LIMIT, until
from tests.notices import channel, deliveries, make_due, send_all, told
from tests.pages.test_diagnosis import FOUND
from tests.receivers import receiver, says

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _to_this_machine(settings: Any) -> None:
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"),)


def rows(**filters: Any) -> list[tuple[str, str]]:
    return list(NoticeRow.objects.filter(**filters).order_by("id").values_list("kind", "about"))


def of_ledger() -> None:
    while tell.of_ledger():
        pass


# --- of the ledger ---------------------------------------------------------------------------------------------------


def test_the_owner_is_told_of_a_start_and_an_end_once(cluster: Cluster) -> None:
    of_ledger()
    cluster.add_node()
    job = cluster.submit(name="train")
    cluster.settle()
    of_ledger()
    cluster.finish(job, 1)
    cluster.settle()
    for _ in range(3):
        of_ledger()
    assert rows(user=cluster.owner) == [("started", "alice/train"), ("failed", "alice/train")]
    [failed] = message.messages(NoticeRow.objects.filter(kind="failed").select_related("user"))
    assert failed.title == "alice/train has failed" and failed.path == "/jobs/alice/train"
    assert failed.data["exitCode"] == 255 and failed.lines


def test_what_was_before_the_first_look_is_old(cluster: Cluster) -> None:
    cluster.add_node()
    cluster.submit()
    cluster.settle()
    of_ledger()
    of_ledger()
    assert rows() == []


def test_who_stops_their_own_job_is_not_told_and_who_is_stopped_is(cluster: Cluster, admin: User) -> None:
    of_ledger()
    cluster.add_node()
    mine, other = (cluster.submit(name=name) for name in ("mine", "other"))
    job_services.stop(cluster.owner, mine)
    job_services.stop(admin, other)
    cluster.settle()
    of_ledger()
    assert [row for row in rows() if row[0] == "stopped"] == [("stopped", "alice/other")]


def test_an_event_that_commits_late_is_not_missed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL the row of a lower id may be seen later than that of a higher one."""
    of_ledger()
    job = cluster.submit(name="one")
    first = Event.objects.create(at=timezone.now(), kind="job.placed", job=job, attempt=1)
    Event.objects.create(at=timezone.now(), kind="job.ended", job=job, attempt=1, after="FAILED")
    Event.objects.filter(pk=first.pk).delete()  # its transaction has not committed
    running = iter([(5, 9), (5, 10), (10, 10), (10, 10)])  # the oldest one that runs, and the next
    monkeypatch.setattr(tell, "_transactions", lambda: next(running))
    of_ledger()
    assert rows() == [("failed", "alice/one")]
    first.save(force_insert=True)
    of_ledger()
    assert sorted(rows()) == [("failed", "alice/one"), ("started", "alice/one")]
    for _ in range(2):
        of_ledger()
    cursor = NoticeCursor.objects.get()
    assert len(rows()) == 2 and cursor.told == cursor.seen == Event.objects.latest("pk").pk


def test_many_events_are_taken_in_pieces(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    of_ledger()
    monkeypatch.setattr(tell, "AT_ONCE", 3)
    job = cluster.submit(name="one")
    for _ in range(7):
        Event.objects.create(at=timezone.now(), kind="job.evicted", job=job, attempt=1)
    of_ledger()
    assert len(rows()) == 7


def test_a_rule_asks_how_long_it_ran_and_how_large_it_is(cluster: Cluster) -> None:
    row = channel(cluster.owner, "https://hooks.example.org/x")
    NoticeRule.objects.filter(channel=row, kind="succeeded").update(minutes=10)
    NoticeRule.objects.filter(channel=row, kind="started").update(gpus=1)
    of_ledger()
    cluster.add_node()
    for name, seconds in (("short", 60), ("long", 900)):
        job = cluster.submit(name=name)
        cluster.settle()
        cluster.ahead(seconds)
        cluster.finish(job)
        cluster.settle()
    of_ledger()
    assert [(each.notice.kind, each.notice.about) for each in deliveries()] == [("succeeded", "alice/long")]
    assert len(rows()) == 4, "all stand on the page"


# --- who may be told -------------------------------------------------------------------------------------------------


def failed_job(cluster: Cluster, **config: Any) -> None:
    cluster.add_node()
    job = cluster.submit(name="train", **config)
    cluster.settle()
    cluster.finish(job, 1)
    cluster.settle()
    Attempt.objects.filter(job=job).update(diagnosis=FOUND, diagnosis_due=None)
    of_ledger()


def test_the_cause_and_the_fix_go_out_and_no_line_of_the_log(cluster: Cluster) -> None:
    of_ledger()
    with receiver() as hook:
        channel(cluster.owner, hook.url)
        failed_job(cluster)
        send_all()
        sent = [json.loads(each.body) for each in hook.got]
    [failed] = [each for each in sent if each["type"] == "job.failed"]
    assert failed["data"]["job"] == "alice/train" and failed["data"]["cause"] and failed["data"]["exitCode"] == 255
    texts = [line["text"] for line in FOUND["lines"]]
    assert texts and not any(text in json.dumps(sent) for text in texts) and FOUND["says"] not in json.dumps(sent)


@pytest.mark.parametrize(("privacy", "knows"), [("open", True), ("owner", False)])
def test_a_virtual_cluster_is_told_what_all_in_it_may_read(
    cluster: Cluster, admin: User, settings: Any, privacy: str, knows: bool
) -> None:
    settings.JOB_PRIVACY = privacy
    of_ledger()
    with receiver() as hook:
        channel(admin, hook.url, vc="default")
        failed_job(cluster)
        send_all()
        [_, failed] = [json.loads(each.body) for each in hook.got]
    assert failed["data"]["job"] == "alice/train" and failed["data"]["state"] == "FAILED"
    assert [name in failed["data"] for name in ("exitCode", "cause")] == [knows, knows]
    assert bool(failed["data"]["lines"]) is knows
    assert not NoticeRow.objects.filter(user=admin).exists()


def test_rights_count_when_it_is_sent(admin: User, alice: User) -> None:
    with receiver() as hook:
        for user in (admin, alice):
            channel(user, hook.url)
        told(admin, kind="lost")
        told(alice)
        User.objects.filter(pk=admin.pk).update(is_admin=False)
        User.objects.filter(pk=alice.pk).update(is_active=False)
        send_all()
        assert hook.got == []
    assert {each.state for each in deliveries()} == {"given up"}


def test_it_waits_for_the_diagnosis_but_not_for_long(cluster: Cluster) -> None:
    of_ledger()
    with receiver() as hook:
        channel(cluster.owner, hook.url)
        failed_job(cluster)
        Attempt.objects.update(diagnosis=None, diagnosis_due=timezone.now())
        send_all()
        assert [json.loads(each.body)["type"] for each in hook.got] == ["job.started"]
        cluster.ahead(60)
        send_all()
        assert json.loads(hook.got[-1].body)["type"] == "job.failed"
    assert [each.tries for each in deliveries()] == [1, 1]


# --- sending ---------------------------------------------------------------------------------------------------------


def test_it_is_signed_as_standard_webhooks_are(alice: User) -> None:
    with receiver(says("204 No Content")) as hook:
        row = channel(alice, hook.url)
        told(alice)
        assert send_all() == 1
        [got] = hook.got
    uid, at = got.headers["webhook-id"], int(got.headers["webhook-timestamp"])
    assert got.headers["webhook-signature"] == webhook.signature(targets.opened(row, "secret"), uid, at, got.body)
    [delivery] = deliveries()
    assert (delivery.state, delivery.status, delivery.uid, delivery.sent) == ("taken", 204, uid, got.body)


def test_the_signature_is_that_of_the_standard() -> None:
    """Its own example: github.com/standard-webhooks, the vector that its libraries are tested with."""
    secret, uid, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", '{"test": 2432232314}'
    assert webhook.signature(secret, uid, 1614265330, body) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_fails_is_tried_again_with_one_id_and_growing_pauses_and_then_given_up(alice: User) -> None:
    with receiver(says("502 Bad Gateway", "<h1>no</h1>")) as hook:
        channel(alice, hook.url)
        told(alice)
        pauses = []
        for number in range(send.MOST_TRIES):
            before = timezone.now()
            assert send_all() == 1
            [delivery] = deliveries()
            pauses.append(round((delivery.due_at - before).total_seconds() / 60))
            assert (delivery.tries, delivery.status, delivery.body) == (number + 1, 502, "<h1>no</h1>")
            assert len(delivery.earlier) == number
            make_due()
        assert send_all() == 0
        assert {each.headers["webhook-id"] for each in hook.got} == {delivery.uid}
    assert tuple(pauses[:-1]) == send.PAUSES and delivery.state == "given up"
    assert sum(send.PAUSES) < 24 * 60
    assert rows(kind="unreachable") == [("unreachable", "hook")]


@pytest.mark.parametrize(
    ("answer", "state", "answered"),
    [
        (says("410 Gone"), "given up", "410 Gone"),
        (says("302 Found", Location="http://127.0.0.1:1/"), "given up", "leads elsewhere"),
        (says("429 Slow Down", Retry_After="600"), "waiting", "429 Slow Down"),
        (b"220 mail.example.org ESMTP\r\n", "waiting", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", "taken", "200 OK"),
        (b"HTTP/1.1 \xff\xfe\r\n\r\n", "waiting", ""),
        (says("200 OK", "x" * 100_000), "taken", "200 OK"),
    ],
)
def test_each_answer_has_its_meaning(alice: User, answer: bytes, state: str, answered: str) -> None:
    with receiver(answer) as hook:
        channel(alice, hook.url)
        told(alice)
        send_all()
        assert len(hook.got) == 1
    [delivery] = deliveries()
    assert delivery.state == state and answered in delivery.answer and len(delivery.body) <= post.LONGEST_ANSWER
    if "429" in answered:
        assert delivery.due_at - timezone.now() > timedelta(minutes=9)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 2"])
def test_one_that_hangs_or_drips_is_cut_off_and_rests(
    alice: User, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with receiver(answer) as hook:

        class Timer(threading.Timer):
            """Its time is over once the receiver holds the connection."""

            def __init__(self, _: float, *does: Any) -> None:
                super().__init__(0, *does)

            def run(self) -> None:
                hook.holds.wait(LIMIT)
                super().run()

        monkeypatch.setattr(threading, "Timer", Timer)
        channel(alice, hook.url)
        told(alice, 5)
        assert send_all() == 0 and len(hook.got) == 1
        assert send_all() == 0 and len(hook.got) == 1, "it rests, with all that waits for it"
    assert [each.tries for each in deliveries()] == [1, 0, 0, 0, 0]
    assert "no answer" in deliveries()[0].answer
    assert NoticeChannel.objects.get().failing_since is not None


def test_one_that_is_connected_when_its_time_is_over_is_asked_nothing(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Timer, "start", lambda over: over.function(*over.args))
    with receiver() as hook:
        channel(alice, hook.url)
        told(alice)
        assert send_all() == 0 and not hook.got
    assert "no answer" in deliveries()[0].answer


def test_a_user_has_so_many_in_a_minute_and_is_told(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "MOST_A_MINUTE", 3)
    with receiver() as hook:
        channel(alice, hook.url)
        told(alice, 5)
        send_all()
        assert len(hook.got) == 3
    assert [each.answer for each in deliveries(state="waiting")] == ["held back: 3 were sent within a minute"] * 2


def test_one_that_is_sent_again_and_again_counts_each_time(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "MOST_A_MINUTE", 4)
    with receiver() as hook:
        channel(alice, hook.url)
        told(alice)
        for _ in range(6):
            send_all()
            services.send_again(ChannelOwner(alice), deliveries()[0].uid)
        assert len(hook.got) == 4


def test_a_channel_that_is_deleted_and_made_again_has_sent_what_it_has_sent(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "MOST_A_MINUTE", 3)
    with receiver() as hook:
        for _ in range(3):
            channel(alice, hook.url)
            told(alice, 2)
            send_all()
            services.delete_channel(ChannelOwner(alice), "hook")
        assert len(hook.got) == 3
        NoticeTry.objects.update(at=timezone.now() - send._MINUTE)
        channel(alice, hook.url)
        told(alice, 1)
        send_all()
        assert len(hook.got) == 4
    purge()
    assert NoticeTry.objects.count() == 1


def test_of_two_workers_one_sends(alice: User) -> None:
    with receiver() as hook:
        row = channel(alice, hook.url)
        told(alice)
        NoticeChannel.objects.update(claim="of another", claimed_until=timezone.now() + send.LEASE)
        assert send_all() == send.send_due(row.pk) == 0
        NoticeChannel.objects.update(claimed_until=timezone.now())
        assert send_all() == 1 and len(hook.got) == 1


@pytest.fixture
def workers() -> Iterator[list[int]]:
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.waitpid(pid, 0)


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_killed_in_the_middle_loses_nothing_and_keeps_the_id(alice: User, workers: list[int]) -> None:
    with receiver(b"", says()) as hook:
        row = channel(alice, hook.url)
        told(alice, 2)
        pid = os.fork()
        if not pid:  # a worker, which has no connection of its parent's
            for each in connections.all(initialized_only=True):
                each.connection = None
            send.send_due(row.pk)
            os._exit(0)
        workers.append(pid)
        hook.wait(1)
        os.kill(pid, signal.SIGKILL)
        assert [each.tries for each in deliveries()] == [0, 0] and send_all() == 0, "its claim lasts"
        NoticeChannel.objects.update(claimed_until=timezone.now())
        assert send_all() == 2
        first, again, other = (each.headers["webhook-id"] for each in hook.got)
    assert first == again != other and [each.state for each in deliveries()] == ["taken", "taken"]


@pytest.mark.django_db(transaction=True)
def test_a_dead_receiver_delays_nobody_else(alice: User, bob: User) -> None:
    with receiver(b"") as dead, receiver() as well:
        for at in range(3):
            channel(alice, dead.url, name=f"dead-{at}")
        channel(bob, well.url)
        told(alice, 10)
        told(bob, 3)
        worker = NoticeWorker()
        worker.step()
        well.wait(3)
        until(lambda: len(dead.got) == 2, what="two that hang")
        worker.step()
        assert len(dead.got) == 2, "one user holds two threads at most"
    until(lambda: not worker._sending, what="its threads to end")
    worker.stop()
    until(lambda: NoticeDelivery.objects.filter(state="taken").count() == 3)


def test_a_copy_of_an_installation_that_may_still_run_sends_nothing(alice: User) -> None:
    with receiver() as hook:
        channel(alice, hook.url)
        told(alice)
        predecessor.remember("2026-11-27")
        worker = NoticeWorker()
        worker._restraint.learn()
        worker.step()
        worker.stop()
        assert hook.got == [] and [each.tries for each in deliveries()] == [0]


def test_what_is_old_is_deleted(alice: User, settings: Any) -> None:
    channel(alice, "https://hooks.example.org/x")
    told(alice, 3)
    NoticeRow.objects.filter(key="idle:0").update(at=timezone.now() - timedelta(days=settings.NOTICE_DAYS, minutes=1))
    purge()
    assert len(rows()) == len(deliveries()) == 2


# --- where it may be sent to -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "may"),
    [
        ("93.184.216.34", True),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("168.63.129.16", False),
        ("100.100.100.200", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00:ec2::254", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("::10.0.0.1", False),
        ("::ffff:0:a00:1", False),
        ("fec0::1", False),
        ("192.0.0.192", False),
        ("2002:a00:1::", False),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
    ],
)
def test_a_name_leads_to_public_addresses_alone(
    found: str, may: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.NOTICE_NETWORKS = ()
    monkeypatch.setattr(post.socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (found, 443))])
    if may:
        assert post._resolved("hooks.example.org", 443, is_tls=True) == found
    else:
        with pytest.raises(post.SendError, match="private network") as refused:
            post._resolved("hooks.example.org", 443, is_tls=True)
        assert refused.value.permanent
        settings.NOTICE_HOSTS = frozenset({"hooks.example.org"})
        assert post._resolved("hooks.example.org", 443, is_tls=True) == str(ip_address(found.partition("%")[0]))


def test_a_name_that_leads_elsewhere_the_second_time_is_asked_once(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked at is connected to, whatever the name leads to a moment later."""
    asked: list[str] = []
    known = post.socket.getaddrinfo

    def resolve(host: str, port: int, *more: Any, **how: Any) -> Any:
        asked.append(host)
        is_first = asked.count("rebound.example.org") < 2
        return known(host if host != "rebound.example.org" else f"127.0.0.{1 if is_first else 99}", port, *more, **how)

    with receiver() as hook:
        channel(alice, f"http://rebound.example.org:{hook.port}/in")
        told(alice)
        monkeypatch.setattr(post.socket, "getaddrinfo", resolve)
        assert send_all() == 1
        assert hook.got[0].headers["host"] == f"rebound.example.org:{hook.port}"
    assert asked.count("rebound.example.org") == 1


def test_the_channels_of_a_virtual_cluster_are_its_own(admin: User, alice: User) -> None:
    VirtualCluster.objects.create(name="nlp", capacity=1, max_capacity=1)
    channel(admin, "https://hooks.example.org/x", vc="nlp")
    channel(admin, "https://hooks.example.org/x")
    told(admin)
    assert [each.channel.vc for each in deliveries()] == [""] and connection.vendor
