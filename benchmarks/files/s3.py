"""A bucket as the file store: 100 MB by bare boto3, by the store and through the gateway, in turns, each on the same
server; and how far the log of a running task is behind, on the host that follows it and on another."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.files.hdfs import (
    TURNS,
    Way,
    by_http,
    by_store,
    contents_of_a_file,
    drained,
    portal_without_engine,
    tell,
)
from benchmarks.report import Report
from tests.acceptance.portal import Portal, config, portal_on
from tests.bed import docker_bed, postgres_bed
from tests.bed.docker_bed import Bed
from tests.bed.postgres_bed import Postgres
from tests.bed.s3_bed import S3Bed
from tests.helpers import until

LOOKS = 40
WRITES = "while true; do cut -d' ' -f1 /proc/uptime; sleep 0.05; done"  # all hosts have one kernel here


def measure(report: Report) -> None:
    folder = Path(tempfile.mkdtemp(prefix="ls-"))
    try:
        with closing(S3Bed()) as s3:
            _files(report, s3, folder)
            if reason := docker_bed.missing() or postgres_bed.missing():
                print(f"\nLogs of two hosts are not measured: {reason}")
            else:
                _logs(report, s3, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _files(report: Report, s3: S3Bed, folder: Path) -> None:
    with closing(portal_without_engine(folder / "files", s3.settings("bench", folder / "secret"))) as portal:
        portal.start()
        ways = {
            "boto3": _by_boto3(s3),
            "S3Store": by_store(s3.store("bench")),
            "gateway": by_http(portal),
        }
        tell(report, f"Files of 100 MB in a bucket of moto's server ({TURNS} in turns)", ways, portal)


def _by_boto3(s3: S3Bed) -> Way:
    """In parts of 8 MiB, one after the other, as the store sends them."""
    from boto3.s3.transfer import TransferConfig

    plan = TransferConfig(multipart_chunksize=8 << 20, use_threads=False)

    def write() -> None:
        with contents_of_a_file() as file:
            s3.client.upload_fileobj(file, s3.bucket, "bare", Config=plan)

    def read() -> None:
        drained(s3.client.get_object(Bucket=s3.bucket, Key="bare")["Body"])

    return write, read


def _logs(report: Report, s3: S3Bed, folder: Path) -> None:
    bed = Bed()
    try:
        with _hosts(bed, s3, folder) as (one, two):
            name = one.submit(config("clock", WRITES))
            one.wait_running(name)
            for portal in (one, two):
                until(lambda portal=portal: portal.log(name))  # type: ignore[misc]
            behind: dict[str, list[float]] = {"the first host": [], "another host": []}
            for _ in range(LOOKS):
                for who, portal in zip(behind, (one, two), strict=True):
                    lines = portal.log(name, tail=2).splitlines()
                    behind[who].append(time.clock_gettime(time.CLOCK_BOOTTIME) - float(lines[-1]))
            report.title(f"A log that grows every 50 ms, by the API: how old its last line is ({LOOKS} looks)")
            for who, ages in behind.items():
                spread = f"{1000 * min(ages):.0f}-{1000 * max(ages):.0f}"
                report.add(who, f"{1000 * statistics.median(ages):.0f} ms", spread)
            one.stop_all()
    finally:
        bed.down()


@contextmanager
def _hosts(bed: Bed, s3: S3Bed, folder: Path) -> Iterator[tuple[Portal, Portal]]:
    """Each with a LONGSHORE_HOME of its own; they share a database, a bucket and secrets."""
    first, second, node = folder / "a", folder / "b", bed.up(1)[0]
    first.mkdir()
    second.mkdir()
    with closing(Postgres()) as postgres:
        settings = {"DATABASE_URL": postgres.url, **s3.settings("hosts", folder / "secret")}
        with portal_on(first, node, **settings) as one:
            shutil.copytree(first / "secrets", second / "secrets")
            with closing(Portal(second, node.unix, **settings)) as two:
                two.start()
                yield one, two
