"""Two hosts of a portal share a database and a bucket, nothing else: files, logs and metrics are the same on both, and
stay when one of them dies."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.acceptance.portal import Portal, config, container_of, docker, portal_on
from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import Postgres
from tests.bed.s3_bed import S3Bed
from tests.helpers import until

pytestmark = [pytest.mark.docker, pytest.mark.postgres]
WRITES = "cat code/hello.txt; n=0; until [ -e /tmp/go ]; do n=$((n+1)); echo needle $n; sleep 0.1; done; echo done"


@pytest.fixture
def hosts(docker_engine: BedNode, s3: S3Bed) -> Iterator[tuple[Portal, Portal]]:
    """Their folders are short: sockets for wake-ups lie inside."""
    with TemporaryDirectory(prefix="ls-", dir="/tmp") as folder:
        first, second = Path(folder, "a"), Path(folder, "b")
        first.mkdir()
        second.mkdir()
        postgres = Postgres()
        settings = {"DATABASE_URL": postgres.url, **s3.settings("hosts", Path(folder, "secret"))}
        try:
            with portal_on(first, docker_engine, **settings) as one:
                shutil.copytree(first / "secrets", second / "secrets")
                two = Portal(second, docker_engine.unix, **settings)
                try:
                    two.start()
                    yield one, two
                finally:
                    two.close()
        finally:
            postgres.close()


def test_what_one_host_follows_another_shows_searches_and_keeps(
    hosts: tuple[Portal, Portal], docker_engine: BedNode, s3: S3Bed
) -> None:
    one, two = hosts
    one.write("/users/admin/code/hello.txt", b"the code\n")
    assert two.read("/users/admin/code/hello.txt") == b"the code\n"
    name = one.submit(config("shared", WRITES, codeDir="$PAI_DEFAULT_FS_URI/users/admin/code"))
    one.wait_running(name)
    until(lambda: "needle 3\n" in one.log(name), what="host one follows it")
    until(lambda: "needle 6\n" in two.log(name), what="host two follows it")
    before = len(two.log(name))
    until(lambda: len(two.log(name)) > before, what="it grows there")
    found = two.get(f"/user/admin/jobs/{name}/logs", grep="needle [12]$")["lines"]
    assert [line["text"] for line in found] == ["needle 1", "needle 2"]
    until(lambda: any("/live/stdout.state" in key for key in keys(s3)), 20, 0.2, what="its copy is in the store")

    for pid in one.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    docker(docker_engine, "exec", container_of(docker_engine, name), "touch", "/tmp/go")
    assert two.wait_state(name, timeout=90)["state"] == "SUCCEEDED"
    two.wait_clean(docker_engine, timeout=60)
    lines = two.log(name).splitlines()
    assert lines == ["the code", *(f"needle {n}" for n in range(1, len(lines) - 1)), "done"]
    until(lambda: not any("/live/" in key for key in keys(s3)), what="the archive is all that is left")


def keys(s3: S3Bed) -> list[str]:
    pages = s3.client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket)
    return [each["Key"] for page in pages for each in page.get("Contents", ())]
