"""The store is a bucket that says nothing while a log is followed, kept and read: the log of a running task comes from
its engine all the while, what must be written waits, and nothing is missing in the end."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from tests.acceptance.portal import Portal, config, container_of, docker, portal_on
from tests.acceptance.test_https import password_of, sign_in
from tests.bed.docker_bed import BedNode
from tests.bed.s3_bed import S3Bed
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker
COMMAND = "i=0; until [ -e /tmp/go ]; do i=$((i + 1)); echo line-$i.; sleep 0.1; done; echo end-$i."


@pytest.fixture
def portal(docker_engine: BedNode, s3: S3Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    s3.empty()
    folder = tmp_path_factory.mktemp("portal")
    with portal_on(folder, docker_engine, **s3.settings("logs", folder / "s3-secret")) as one:
        yield one
        s3.thaw()
        one.stop_all()
        one.wait_clean(docker_engine)


class Follower(threading.Thread):
    """A page that follows a log, and opens its stream again where it broke off."""

    def __init__(self, portal: Portal, name: str) -> None:
        super().__init__(daemon=True)
        self.lines: list[int] = []
        self.over = threading.Event()
        self._path = f"/stream/logs/admin/{name}"
        self._http = httpx.Client(base_url=portal.url, timeout=LIMIT)
        sign_in(self._http, "admin", password_of(portal))

    def run(self) -> None:
        last = ""
        while not self.over.is_set():
            head = {"Last-Event-ID": last} if last else {}
            query = {"task": "main-0", "stream": "stdout", **({} if last else {"offset": "0"})}
            with (
                suppress(httpx.TransportError),
                self._http.stream("GET", self._path, params=query, headers=head) as answer,
            ):
                for line in answer.iter_lines():
                    last = line[3:].strip() if line.startswith("id:") else last
                    self.lines += [int(number) for number in re.findall(r"line-(\d+)\.", line)]
                    if self.over.is_set():
                        return


def test_a_log_is_followed_on_and_kept_whole_though_the_bucket_is_silent(
    portal: Portal, docker_engine: BedNode, s3: S3Bed
) -> None:
    name = portal.submit(config("followed", COMMAND))
    portal.wait_running(name)
    follower = Follower(portal, name)
    follower.start()
    until(lambda: len(follower.lines) >= 20, 30, what="it is followed")
    s3.freeze()
    seen = len(follower.lines)
    until(lambda: len(follower.lines) >= seen + 50, 60, what="it goes on while the store is silent")
    docker(docker_engine, "exec", container_of(docker_engine, name), "touch", "/tmp/go")
    assert portal.wait_state(name)["state"] == "SUCCEEDED"
    # The first who asks waits until the store counts as silent: half a minute.
    assert re.search(r"end-\d+\.\n\Z", portal.log(name)), "its end is read from the container"
    s3.thaw()
    portal.wait_clean(docker_engine, timeout=90)
    follower.over.set()
    numbers = [int(number) for number in re.findall(r"line-(\d+)\.", portal.log(name))]
    assert numbers == [*range(1, len(numbers) + 1)] and portal.log(name).endswith(f"end-{len(numbers)}.\n")
    assert follower.lines == numbers[: len(follower.lines)]
