"""100 MB to and from HDFS: straight from the DataNode, by the store and through the portal's gateway, in turns, each on
the same file; and the gateway over a folder, beside the folder itself. With the memory that the portal takes for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from base.files.store.base import Store
from base.files.store.hdfs.store import HdfsStore
from base.files.store.local import LocalStore
from benchmarks.processes import told_of
from benchmarks.report import Report
from benchmarks.sizes import size
from jobs.containers.code import code_tar
from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode
from tests.bed.hdfs_bed import HdfsBed, missing

MB = size(100, 2)
TURNS = size(5, 1)
SMALL = size(300, 4)  # files
_BLOCK = bytes(range(256)) * 4096  # 1 MiB
_BLOCKS = MB * 1_000_000 // len(_BLOCK)
_SIZE = _BLOCKS * len(_BLOCK)

Way = tuple[Callable[[], None], Callable[[], None]]  # to write the file, and to read it


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    ways = {"LocalStore": by_store(LocalStore(portal.home / "store")), "gateway": by_http(portal)}
    tell(report, f"Files of {MB} MB on a folder ({TURNS} in turns)", ways, portal)
    if reason := missing():
        print(f"Files are measured on a folder alone: {reason}")
        return
    with tempfile.TemporaryDirectory(prefix="ls-bench-", ignore_cleanup_errors=True) as home:
        _on_hdfs(report, Path(home))


def _on_hdfs(report: Report, home: Path) -> None:
    """The gateway's portal runs no container."""
    with ExitStack() as stack:
        hdfs = stack.enter_context(closing(HdfsBed()))
        settings = {"LONGSHORE_STORE_URL": hdfs.store_url, "LONGSHORE_STORE_USER": hdfs.user}
        portal = stack.enter_context(closing(Portal(home, "unix:///nowhere.sock", **settings)))
        portal.start()
        ways = {
            "DataNode": _by_http(hdfs.url, f"user.name={hdfs.user}", {}),
            "HdfsStore": by_store(HdfsStore([hdfs.url], hdfs.user)),
            "gateway": by_http(portal),
        }
        tell(report, f"Files of {MB} MB on HDFS ({TURNS} in turns)", ways, portal)
        _small_files(report, HdfsStore([hdfs.url], hdfs.user), portal, home)


def _small_files(report: Report, store: Store, portal: Portal, home: Path) -> None:
    """As a user uploads a folder of code, as a task puts its results, and as a job's start reads code
    (jobs/containers/code/code_tar.py)."""
    folder, config, token = home / "small", home / "pai-fs.json", home / "token"
    folder.mkdir()
    for number in range(SMALL):
        (folder / f"{number}.py").write_text("x" * 8000)
    signed_in = _signed_in(portal)["Authorization"].removeprefix("Bearer ")
    where = urlsplit(portal.url)
    config.write_text(json.dumps({"host": where.hostname, "port": where.port, "user": "admin", "token": signed_in}))
    token.write_text(_delegation(portal))
    env = {
        "PAI_FS_CONFIG": str(config),
        "LONGSHORE_WEBHDFS_URL": f"{portal.url}/webhdfs/v1",
        "LONGSHORE_WEBHDFS_TOKEN_FILE": str(token),
    }
    pai_fs, by_task = ["-m", "client.pai_fs.main", "-cp", "-r"], ["docs/examples/code/store.py"]
    report.title(f"{SMALL} files of 8 kB on HDFS")
    for name, command, target in (
        ("pai-fs -cp -r, as tars", [*pai_fs, str(folder), "hdfs://shared/small"], 10),
        ("store.py put, as tars", [*by_task, "put", str(folder), "/shared/again"], 10),
        ("store.py get", [*by_task, "get", "/shared/again", str(home / "back")], 0),
        ("pai-fs -cp -r, from there", [*pai_fs, "hdfs://shared/small", str(home / "too")], 0),
    ):
        began = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True, env={**os.environ, **env})
        took = time.perf_counter() - began
        ok = took / SMALL * 300 <= target if target else None
        report.add(name, f"{took:.1f} s", f"{1000 * took / SMALL:.0f} ms each", f"<= {target} s for 300", ok)
    assert sorted(each.name for each in (home / "back").iterdir()) == sorted(each.name for each in folder.iterdir())
    began, entries = time.perf_counter(), store.list("/shared/small")
    for entry, content in code_tar.contents(store, entries):
        assert len(content.read()) == entry.size == 8000
    read = time.perf_counter() - began
    report.add("read for a job's code", f"{read:.1f} s", f"{1000 * read / SMALL:.0f} ms each")


def _delegation(portal: Portal) -> str:
    told = portal.http.get(f"{portal.url}/webhdfs/v1/?op=GETDELEGATIONTOKEN").json()
    return str(told["Token"]["urlString"])


def tell(report: Report, title: str, ways: Mapping[str, Way], portal: Portal) -> None:
    """The first way is what the others stand beside."""
    web = portal.running("web")[0]
    Path(f"/proc/{web}/clear_refs").write_text("5")  # its peak counts from now
    before = told_of(web, "VmRSS")
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ways}
    for turn in range(TURNS + 1):
        names = list(ways)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:  # nobody is always the first
            for act, rates in zip(ways[name], found[name], strict=True):
                began = time.perf_counter()
                act()
                if turn:  # the first of each fills caches
                    rates.append(_SIZE / 1e6 / (time.perf_counter() - began))
    grown = (told_of(web, "VmHWM") - before) / 1000
    report.title(title)
    first = next(iter(ways))
    for at, verb in enumerate(("write", "read")):
        for name, both in found.items():
            rates = both[at]
            ratio = "" if name == first else f"{median(rates) / median(found[first][at]):.2f} x {first}"
            report.add(f"{name}: {verb}", f"{median(rates):.0f} MB/s", f"{ratio:<18} {min(rates):.0f}-{max(rates):.0f}")
    report.add("web process: memory more at its peak", f"{grown:.0f} MB", "", "<= 50 MB", grown <= 50)


def by_store(store: Store) -> Way:
    def write() -> None:
        assert store.write("/shared/bench", (_BLOCK for _ in range(_BLOCKS))) == _SIZE

    def read() -> None:
        with store.open_read("/shared/bench") as file:
            drained(file)

    return write, read


def by_http(portal: Portal) -> Way:
    """Through the portal's gateway."""
    return _by_http(portal.url, "", _signed_in(portal))


def _by_http(url: str, who: str, headers: Mapping[str, str]) -> Way:
    """WebHDFS in two steps, as its clients do it."""
    address = f"{url}/webhdfs/v1/shared/bench-http?{who}&op="

    def write() -> None:
        status, target = _ask("PUT", f"{address}CREATE&overwrite=true", headers)
        assert status == 307, status
        whole = {**headers, "Content-Length": str(_SIZE), "Content-Type": "application/octet-stream"}
        status, _ = _ask("PUT", target, whole, (_BLOCK for _ in range(_BLOCKS)))
        assert status == 201, status

    def read() -> None:
        status, target = _ask("GET", f"{address}OPEN", headers, into=drained)
        if status == 307:
            status, _ = _ask("GET", target, headers, into=drained)
        assert status == 200, status

    return write, read


def _ask(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: Iterator[bytes] | None = None,
    into: Callable[[Any], None] = lambda answer: answer.read(),
) -> tuple[int, str]:
    """Status and where it points to. ``into`` takes the body of an answer that is one."""
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=60)) as connection:
        connection.request(method, f"{parts.path}?{parts.query}", body, dict(headers))
        answer = connection.getresponse()
        if answer.status == 200:
            into(answer)
        return answer.status, answer.headers.get("Location", "")


@contextmanager
def contents_of_a_file() -> Iterator[Any]:
    """What the others write too, as a file."""
    with tempfile.TemporaryFile() as file:
        for _ in range(_BLOCKS):
            file.write(_BLOCK)
        file.seek(0)
        yield file


def drained(file: Any) -> None:
    buffer, size = memoryview(bytearray(len(_BLOCK))), 0
    while got := file.readinto(buffer):
        size += got
    assert size == _SIZE, size


def _signed_in(portal: Portal) -> dict[str, str]:
    return {"Authorization": portal.http.headers["Authorization"]}
