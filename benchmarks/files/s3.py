"""A bucket as the file store: 100 MB by bare boto3, by the store and through the gateway, in turns, each on the same
server; and how far the log of a running task is behind, on the host that follows it and on another."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from benchmarks.files.hdfs import MB, TURNS, Way, by_http, by_store, contents_of_a_file, drained, tell
from benchmarks.report import Report
from benchmarks.sizes import size
from tests.acceptance.portal import Portal, config, portal_on
from tests.bed.docker_bed import Bed
from tests.bed.postgres_bed import postgres
from tests.bed.s3_bed import S3Bed
from tests.helpers import until

LOOKS = size(40, 2)
WRITES = "while true; do cut -d' ' -f1 /proc/uptime; sleep 0.05; done"  # all hosts have one kernel here


def measure(report: Report) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ls-", ignore_cleanup_errors=True) as folder,
        closing(S3Bed()) as s3,
        _hosts(s3, Path(folder)) as (one, two),
    ):
        ways = {"boto3": _by_boto3(s3), "S3Store": by_store(s3.store("bench")), "gateway": by_http(one)}
        tell(report, f"Files of {MB} MB in a bucket of moto's server ({TURNS} in turns)", ways, one)
        _logs(report, one, two)


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


def _logs(report: Report, one: Portal, two: Portal) -> None:
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


@contextmanager
def _hosts(s3: S3Bed, folder: Path) -> Iterator[tuple[Portal, Portal]]:
    """Each with a LONGSHORE_HOME of its own; they share a node, a database, a bucket and secrets."""
    first, second = folder / "a", folder / "b"
    first.mkdir()
    second.mkdir()
    with ExitStack() as stack:
        bed = Bed()
        stack.callback(bed.down)
        node, url = bed.up(1)[0], stack.enter_context(postgres())
        settings = {"DATABASE_URL": url, **s3.settings("bench", folder / "secret")}
        one = stack.enter_context(portal_on(first, node, **settings))
        shutil.copytree(first / "secrets", second / "secrets")
        two = stack.enter_context(closing(Portal(second, node.unix, **settings)))
        two.start()
        yield one, two
