"""The WebSocket that carries a connection to a port of a task, as any client sees it: the engine is in memory, the
sockets are real."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from base.accounts import tokens
from base.accounts.scopes import Scope
from base.models import ApiToken, AuditEvent, User
from client import Client, ClientError, tunnels
from clusters.engines import schemes
from clusters.models import VcGrant, VirtualCluster
from jobs import services
from jobs.models import Job, Task
from portal.terminal import tunnel
from tests.cluster import Clock, Cluster
from tests.helpers import LIMIT, on_a_loop, until

pytestmark = pytest.mark.django_db(transaction=True)

Opens = Callable[..., ClientConnection]


class Program(socketserver.BaseRequestHandler):
    """It greets, echoes until it is told that no more comes, and says so."""

    def handle(self) -> None:
        self.request.sendall(b"hello ")
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)
        self.request.sendall(b" bye")


@pytest.fixture
def cluster(alice: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The program listens on port http of alice/train, which runs."""
    monkeypatch.setattr(tunnel, "EVERY", 0.05)
    vc = VirtualCluster.objects.create(name="nlp", capacity=10, max_capacity=100)
    VcGrant.objects.create(vc=vc, username="alice")
    cluster = Cluster(alice, Clock())
    engine = cluster.add_node()
    cluster.submit(name="train", virtualCluster="nlp")
    cluster.settle()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Program) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        engine.listening[Task.objects.get().ports["http"][0]] = server.server_address
        yield cluster
        server.shutdown()
        thread.join(LIMIT)
    schemes.set_engine_factory(None)


@pytest.fixture
def opens(site: str) -> Iterator[Opens]:
    """``opens(token)``: a WebSocket to a port of worker-0 of alice/train."""
    with ExitStack() as stack:

        def opened(token: str, port: str = "http") -> ClientConnection:
            way: Any = connect(
                f"{site.replace('http', 'ws')}/tunnel/alice/train/worker/0/{port}",
                additional_headers={"Authorization": f"Bearer {token}"},
                proxy=None,
                compression=None,
                open_timeout=LIMIT,
                ping_interval=None,
            )
            socket: ClientConnection = stack.enter_context(way)
            return socket

        yield opened


def is_closed(socket: ClientConnection) -> tuple[bytes, int, str]:
    """What still came, the code and the reason, once it is."""
    came = b""
    with pytest.raises(ConnectionClosed):
        while True:
            data = socket.recv(LIMIT)
            assert isinstance(data, bytes)
            came += data
    return came, socket.protocol.close_code or 0, socket.protocol.close_reason or ""


def test_bytes_go_both_ways_until_the_task_sends_no_more(opens: Opens, cluster: Cluster, alice: User) -> None:
    socket = opens(tokens.issue(alice, 600))
    large = bytes(range(256)) * 4096
    socket.send(large)
    socket.send('{"end": true}')
    assert is_closed(socket) == (b"hello " + large + b" bye", 1000, "")


def _revoked(cluster: Cluster, alice: User) -> None:
    tokens.revoke_all(alice)


def _expired(cluster: Cluster, alice: User) -> None:
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def _disabled(cluster: Cluster, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)


def _grant_taken(cluster: Cluster, alice: User) -> None:
    VcGrant.objects.all().delete()


def _scope_taken(cluster: Cluster, alice: User) -> None:
    ApiToken.objects.update(scopes=Scope.JOBS_READ)


def _stopped(cluster: Cluster, alice: User) -> None:
    services.stop(alice, Job.objects.get())
    cluster.settle()


@pytest.mark.parametrize(
    ("happens", "code", "says"),
    [
        (_revoked, 4003, "You are not signed in any more."),
        (_expired, 4003, "You are not signed in any more."),
        (_disabled, 4003, "You are not signed in any more."),
        (_grant_taken, 4003, "may not use virtual cluster nlp any more"),
        (_scope_taken, 4003, "lacks the scope jobs:submit"),
        (_stopped, 4004, "worker-0 does not run"),
    ],
)
def test_every_one_that_is_open_ends_with_the_right_to_it(
    opens: Opens, cluster: Cluster, alice: User, happens: Callable[..., None], code: int, says: str
) -> None:
    token = tokens.issue(alice, 600)
    first, second = opens(token), opens(token)
    for socket in (first, second):
        assert socket.recv(LIMIT) == b"hello "
    happens(cluster, alice)
    for socket in (first, second):
        _, told, reason = is_closed(socket)
        assert (told, says in reason) == (code, True), reason
    assert until(lambda: not tunnel._open), "their places are free again"


def test_the_command_says_why_it_ended(site: str, cluster: Cluster, alice: User) -> None:
    job = Client(site, tokens.issue(alice, 600)).job("train")

    async def taken_away(_: bytes) -> None:
        await sync_to_async(tokens.revoke_all)(alice)

    async def forwarded() -> None:
        async with tunnels.opened(job, "tunnel", "worker-0", "http") as socket:
            await tunnels.carry(socket, asyncio.StreamReader(), taken_away)

    with pytest.raises(ClientError, match=r"^You are not signed in any more\.$"):
        on_a_loop(forwarded())


def test_a_user_has_so_many_and_no_more(
    opens: Opens, cluster: Cluster, alice: User, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel, "MOST", 2)
    token = tokens.issue(alice, 600)
    first, _ = opens(token), opens(tokens.issue(alice, 600))
    with pytest.raises(InvalidStatus) as refused:
        opens(token)
    assert refused.value.response.status_code == 409 and b"2 connections" in (refused.value.response.body or b"")
    opens(tokens.issue(admin, 600))
    first.close()
    until(lambda: tunnel._open[alice.pk] == 1)
    opens(token)


def test_who_may_not_is_refused_with_a_sentence(
    opens: Opens, cluster: Cluster, alice: User, bob: User, admin: User
) -> None:
    mine = tokens.issue(alice, 600)
    for token, port, status, says in (
        ("none", "http", 401, "Guest"),
        (tokens.issue(bob, 600), "http", 403, "is for alice and for admins"),
        (tokens.issue(alice, 600, scopes=Scope.JOBS_READ), "http", 403, "lacks the scope jobs:submit"),
        (mine, "22", 404, "was given no port 22. It has: http ("),
        (mine, "ssh", 503, "Nothing listens on port"),
    ):
        with pytest.raises(InvalidStatus) as refused:
            opens(token, port)
        answer = refused.value.response
        assert (answer.status_code, says in (answer.body or b"").decode()) == (status, True), answer.body
    assert not tunnel._open and not AuditEvent.objects.filter(action="port opened").exists()
    opens(tokens.issue(admin, 600))
    assert AuditEvent.objects.get(action="port opened").object == "alice/train worker-0 http"
