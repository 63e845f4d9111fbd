"""Three hosts on one PostgreSQL, each with a portal: any of them may die, hang or be cut off, and no job notices.

``python -m tests.chaos.hosts`` is the same at length, with figures.
"""

from __future__ import annotations

import os
import re
import signal
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.acceptance.portal import WHO, free_port, was_quick
from tests.acceptance.test_https import sign_in
from tests.bed import nginx_bed
from tests.bed.docker_bed import BedNode
from tests.bed.portal_hosts import PORT, PortalHost, has_clocks
from tests.chaos.hosts import Cluster, cluster
from tests.helpers import LIMIT, need, until

pytestmark = [pytest.mark.docker, pytest.mark.postgres]


@pytest.fixture(scope="module")
def made(docker_engine: BedNode, sample_image: str) -> Iterator[Cluster]:
    with cluster(docker_engine.bed, [docker_engine]) as made:
        yield made


def test_all_begin_at_once_and_are_one_portal(made: Cluster) -> None:
    """The first user was made once, each host takes the same session, and knows the keys of the node."""
    one, *others = made.hosts.all
    assert made.rows("SELECT count(*) FROM portal_user") == [(1,)]
    for host in others:
        answer = httpx.get(f"{host.url}/api/v1/nodes", headers=dict(one.http.headers), timeout=LIMIT)
        assert [node["name"] for node in answer.json()] == [made.nodes[0].name]
    assert made.rows("SELECT count(*) FROM portal_host") == [(3,)]


def test_a_scheduler_that_is_killed_is_followed_within_a_second(made: Cluster) -> None:
    made.submit()
    _, pid = made.wait_holder()
    acted, _ = made.measure(lambda: (os.kill(pid, signal.SIGKILL), made.submit()))
    was_quick(acted, 1.0, "another scheduler acts")


def test_one_that_hangs_is_followed_within_ten_seconds_and_writes_nothing_when_it_wakes(made: Cluster) -> None:
    host, pid = made.wait_holder()
    acted, _ = made.measure(lambda: (os.kill(pid, signal.SIGSTOP), made.submit()))
    ((epoch,),) = made.rows("SELECT epoch FROM portal_leaserow WHERE name = 'scheduler'")
    os.kill(pid, signal.SIGCONT)
    was_quick(acted, 10, "another scheduler acts")
    until(lambda: "another scheduler acts now" in host.text(), 30, 0.2, "it has noticed")
    made.submit()
    assert made.rows("SELECT epoch FROM portal_leaserow WHERE name = 'scheduler'") == [(epoch,)]


def test_a_host_that_dies_is_not_missed(made: Cluster) -> None:
    host, _ = made.wait_holder()
    made.measure(lambda: (host.kill(), made.submit()))
    host.start()
    made.measure(lambda: (made.database.restart(), made.submit()))


def test_a_live_log_and_a_shell_go_through_nginx_and_on_when_their_host_dies(made: Cluster, tmp_path: Path) -> None:
    """A browser opens both again by itself: the log from where it was, the shell as a new one."""
    need("nginx")
    until(lambda: all(map(_answers, made.hosts.all)), 90, 0.5, "all hosts answer")
    name = made.submit("i=0; until [ -e /tmp/go ]; do i=$((i + 1)); echo line-$i.; sleep 0.1; done")
    runs = f"SELECT 1 FROM jobs_task t, jobs_job j WHERE j.id = t.job_id AND j.name = '{name}' AND t.state = 'RUNNING'"
    until(lambda: made.rows(runs), 60, 0.2, "it runs")
    port = free_port()
    hosts = [host.url.removeprefix("http://") for host in made.hosts.all]
    with nginx_bed.nginx(tmp_path, port, *hosts) as certificate:
        trusting = ssl.create_default_context(cafile=str(certificate))
        head = {"Authorization": made.hosts.all[0].http.headers["Authorization"]}
        with (
            httpx.Client(base_url=made.hosts.all[0].url, timeout=LIMIT) as direct,
            httpx.Client(base_url=f"https://localhost:{port}", verify=trusting, timeout=LIMIT) as http,
        ):
            sign_in(direct, "admin", made.hosts.password)
            http.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in direct.cookies.items())
            shell = partial(_shell, f"wss://localhost:{port}/terminal/admin/{name}/main/0", head, trusting)
            before = [_clients(host) for host in made.hosts.all]
            with shell() as socket:
                assert _said(socket, b"echo one-$((1 + 1))\r", "one-2")
                (serving,) = [host for host, had in zip(made.hosts.all, before, strict=True) if _clients(host) - had]
                first, last_id = _followed(http, name, "", 20)
                serving.kill()
                with pytest.raises(ConnectionClosed):
                    while True:
                        socket.recv(LIMIT)
            more, _ = _followed(http, name, last_id, len(first) + 20)
            assert [*first, *more] == [*range(1, len(first) + len(more) + 1)]
            with shell() as socket:
                assert _said(socket, b"touch /tmp/go; echo two-$((1 + 1))\r", "two-2")
    serving.start()


def _shell(address: str, head: dict[str, str], trusting: ssl.SSLContext) -> ClientConnection:
    return connect(address, additional_headers=head, ssl=trusting, proxy=None, open_timeout=LIMIT, ping_timeout=LIMIT)


def _said(socket: ClientConnection, typed: bytes, wanted: str) -> bool:
    socket.send(typed)
    seen = ""
    while f"\n{wanted}" not in seen:
        data = socket.recv(LIMIT)
        seen += data.decode(errors="replace") if isinstance(data, bytes) else ""
    return True


def _answers(host: PortalHost) -> bool:
    try:
        return httpx.get(f"{host.url}/healthz", timeout=LIMIT).status_code == 200
    except httpx.HTTPError:
        return False


def _clients(host: PortalHost) -> set[str]:
    """The connections that its web process has."""
    pid = host.running(WHO["web"])[0]
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {row[2] for row in rows if row[1].endswith(f":{PORT:04X}") and row[3] == "01"}


def _followed(http: httpx.Client, name: str, last_id: str, upto: int) -> tuple[list[int], str]:
    """The numbers of the lines until this one has come, and the id of the last event."""
    numbers: list[int] = []
    head = {"Last-Event-ID": last_id} if last_id else {}
    query = {"task": "main-0", "stream": "stdout", **({} if last_id else {"offset": "0"})}
    with http.stream("GET", f"/stream/logs/admin/{name}", params=query, headers=head) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("id:"):
                last_id = line[3:].strip()
            elif not line and numbers and numbers[-1] >= upto:  # the event is whole
                return numbers, last_id
            numbers += [int(number) for number in re.findall(r"line-(\d+)\.", line)]
    raise AssertionError(f"the stream ended after {numbers}")


def test_one_that_is_cut_off_from_the_nodes_leaves_them_to_others(made: Cluster) -> None:
    host, _ = made.wait_holder()
    try:
        host.cut(*(node.address for node in made.nodes))
        until(lambda: made.wait_holder()[0] is not host, 60, 0.5, "another host acts")
        made.measure(made.submit)
    finally:
        host.heal()


@pytest.mark.skipif(not has_clocks(), reason="a C compiler sets the clocks")
@pytest.mark.parametrize("seconds", [600, -600])
def test_a_wrong_clock_holds_nothing_up(made: Cluster, seconds: int) -> None:
    host, _ = made.wait_holder()
    try:
        host.set_clock(seconds)
        made.measure(made.submit)
        assert host.health()["status"] in ("ok", "degraded")
    finally:
        host.set_clock(0)


def test_in_the_end_nothing_was_lost_and_nothing_ran_twice(made: Cluster) -> None:
    made.wait_ended()
    assert made.verdict() == []
