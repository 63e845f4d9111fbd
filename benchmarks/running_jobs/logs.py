"""Measures logs, against a portal on engines in memory (benchmarks/running_jobs/logs_served.py) and in this process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import httpx

from benchmarks.portal import pages
from benchmarks.processes import cpu_of, told_of
from benchmarks.report import Report, ms, percentile, spread
from benchmarks.running_jobs.logs_served import LINE, NODES, TASKS
from benchmarks.sizes import size
from tests.acceptance.portal import ROOT, Portal, config
from tests.bed.docker_bed import BedNode

INGESTED = size(200_000_000, 200_000)  # bytes
SEARCHED = size(1_000, 10)  # MB
LONG = size(10_000, 10)  # MB
VIEWERS = size(1_000, 4)
SETTLE, SECONDS = size((8.0, 20.0), (1.0, 2.0))  # until the viewers are served; that they watch
EXPRESSION = r"NCCL (error|warn)|Kill|out of memory"
# For what is measured in this process: it opens no database.
_SETTINGS = {"DJANGO_SETTINGS_MODULE": "portal.settings", "LONGSHORE_HOME": "{}", "LONGSHORE_LOG_LEVEL": "ERROR"}


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    """All figures of logs. It takes some 12 GB of disk for a while."""
    report.title("Logs: taken in, shown, searched, watched")
    asyncio.run(_from_an_engine(report, portal))
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value.format(folder))
    django.setup()
    try:
        _ingest(report, folder)
        with _portal(folder / "search", SEARCHED) as served:
            _search(report, Path(served["task"]))
            asyncio.run(_follow(report, served))
        shutil.rmtree(folder / "search", ignore_errors=True)
        with _portal(folder / "long", LONG) as served:
            _first_screen(report, served)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _from_an_engine(report: Report, portal: Portal) -> None:
    """A real container's lines, each with the time at which it was written."""
    portal.submit(config("lines", "n=0; while true; do n=$((n + 1)); echo $n $(date +%s%N); sleep 0.1; done"))
    portal.wait_running("lines")
    with closing(pages.signed_in(portal)) as browser:
        told = {
            "port": urlsplit(portal.url).port,
            "cookie": browser.cookies["longshore"],
            "pid": portal.running("web")[0],
        }
        got = await _watch(told, ["admin/lines?task=main-0"])
    portal.stop("lines")
    _tell_lag(report, "line to browser, real engine", got)


def _tell_lag(report: Report, name: str, got: dict[str, Any]) -> None:
    wait = [percentile(got["lags"], 50), percentile(got["lags"], 95)]
    met = wait[0] <= 0.1 and wait[1] <= 0.25
    report.add(name, f"p50 {ms(wait[0])}, p95 {ms(wait[1])}", f"{len(got['lags'])} lines", "100 / 250 ms", met)


def _ingest(report: Report, folder: Path) -> None:
    """What a worker does with an engine's bytes: takes frames apart, counts lines, writes text and stamps to files."""
    from clusters.engines.docker.logs import Frames
    from clusters.engines.logs.stamps import stamp
    from jobs.logs.spool import Spool

    began = time.time_ns()
    lines = [f"{stamp(began + n * 10_000)} ".encode() + LINE % n for n in range(INGESTED // len(LINE) // 20)]
    frames = b"".join(b"\1\0\0\0" + len(line).to_bytes(4, "big") + line for line in lines)
    text = sum(len(line) - 31 for line in lines) * 20
    spool, rates, wall = Spool(folder / "spool"), list[float](), time.monotonic()
    assert spool.acquire()
    for _ in range(20):
        cpu, reader = time.thread_time(), Frames()
        for start in range(0, len(frames), 65536):
            for chunk in reader.feed(frames[start : start + 65536]):
                spool.append(chunk)
        for chunk in reader.flush():
            spool.append(chunk)
        rates.append(text / 20 / (time.thread_time() - cpu) / 1e6)
    wall = time.monotonic() - wall
    assert spool.view().size == text and spool.view().line_count() == len(lines) * 20
    spool.close()
    rate = max(rates)
    beside = f"median {percentile(rates, 50):.0f}; {text / wall / 1e6:.0f} MB/s here; lines of {len(LINE)} bytes"
    report.add("ingest in one worker", f"{rate:.0f} MB/s of CPU time", beside, ">= 100 MB/s", rate >= 100)


def _search(report: Report, path: Path) -> None:
    from jobs.logs.lines import LineIndex, view_of
    from jobs.logs.together.expression import Expression
    from jobs.logs.together.search import matching_lines, pieces

    index = LineIndex()
    with path.open("rb") as file:
        while data := file.read(1 << 22):
            index.extend(data)
        view = view_of(index, lambda offset, limit: os.pread(file.fileno(), limit, offset))
        expression = Expression(EXPRESSION)
        with ThreadPoolExecutor(2) as pool:

            def found_in(piece: tuple[int, int]) -> int:
                return sum(1 for _ in matching_lines(view, expression, *piece))

            def ours() -> int:
                return sum(pool.map(found_in, pieces(view, 0, view.size)))

            wall, cpu, found = _best(ours, resource.RUSAGE_SELF)
    told = f"{found:,} lines in {index.newlines:,}; {cpu:.2f} s of CPU"
    grep_wall, grep_cpu, _ = _best(lambda: _run(["grep", "-c", "-E", EXPRESSION, str(path)]), resource.RUSAGE_CHILDREN)
    alone = min(wall, cpu / 2)  # as long as two cores that nobody else uses take
    report.add("regex over 1 GB, two threads", f"{alone:.2f} s", f"{told}, {wall:.2f} s here", "< 1.5 s", alone < 1.5)
    report.add("  beside grep -E", f"{grep_wall:.2f} s", f"{grep_cpu:.2f} s of CPU; ours is {cpu / grep_cpu:.1f} x")
    if ripgrep := shutil.which("rg"):
        rg_wall, rg_cpu, _ = _best(lambda: _run([ripgrep, "-c", EXPRESSION, str(path)]), resource.RUSAGE_CHILDREN)
        report.add("  beside ripgrep", f"{rg_wall:.2f} s", f"{rg_cpu:.2f} s of CPU; ours is {cpu / rg_cpu:.1f} x")


def _run(command: list[str]) -> int:
    return int(subprocess.run(command, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout)


def _best(work: Callable[[], int], who: int) -> tuple[float, float, int]:
    """Wall and CPU seconds of the quickest of three."""
    took = []
    for _ in range(3):
        before, wall = resource.getrusage(who), time.monotonic()
        answer = work()
        wall, after = time.monotonic() - wall, resource.getrusage(who)
        took.append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, answer))
    return min(took)


def _first_screen(report: Report, portal: dict[str, Any]) -> None:
    url, cookies = f"http://127.0.0.1:{portal['port']}/jobs/alice/long/logs", {"longshore": portal["cookie"]}
    with httpx.Client(cookies=cookies, timeout=60) as client:
        lines = client.get(f"{url}/rows?count=1").json()["total"]
        for name, asked in (("page, its end", ""), ("rows in the middle", f"/rows?from={lines // 2}&count=200")):
            took = []
            for _ in range(15):
                begun = time.monotonic()
                client.get(f"{url}{asked}").raise_for_status()
                took.append(time.monotonic() - begun)
            half = percentile(took, 50)
            beside = f"{spread(took, 95)}; {lines:,} lines"
            report.add(f"first screen of 10 GB: {name}", ms(half), beside, "< 100 ms", half < 0.1)


async def _follow(report: Report, portal: dict[str, Any]) -> None:
    many = NODES * TASKS
    _tell_lag(report, "line to browser, engine in memory", await _watch(portal, ["alice/one?task=worker-0"]))
    for name, which in (
        (f"{VIEWERS:,} followers of one log", ["alice/one?task=worker-0"] * VIEWERS),
        (f"{VIEWERS:,} followers of {many} logs", [f"alice/many?task=worker-{n % many}" for n in range(VIEWERS)]),
    ):
        got = await _watch(portal, which)
        p95 = percentile(got["lags"], 95)
        beside = f"{got['cpu']:.0f} % of a core, {got['memory']:.0f} MB more, {got['threads']} threads more"
        lag = f"lag p50 {ms(percentile(got['lags'], 50))}, p95 {ms(p95)}"
        report.add(name, lag, f"{beside}; {got['lines']:,} lines", "p95 <= 1 s", p95 <= 1 and got["missing"] == 0)


async def _watch(portal: dict[str, Any], which: list[str]) -> dict[str, Any]:
    """What these viewers see in SECONDS, from when all are connected."""
    before = _process(portal["pid"])
    lags: list[float] = []
    seen: list[set[bytes]] = [set() for _ in which]
    began: list[float] = [0.0]

    async def view(number: int, job: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", portal["port"], limit=1 << 20)
        path = f"/stream/logs/{job}&from=1"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nCookie: longshore={portal['cookie']}\r\n\r\n"
        writer.write(head.encode())
        connected.release()
        try:
            while line := await reader.readline():
                if not line.startswith(b"data: ["):
                    continue
                now = time.time_ns()
                for written in re.findall(rb'"text":"(\d+ \d+)"', line):
                    stamp = int(written.split()[1])
                    if began[0] and stamp > began[0]:
                        lags.append((now - stamp) / 1e9)
                        seen[number].add(written)
        finally:
            writer.close()

    connected = asyncio.Semaphore(0)
    viewers = []
    for number, job in enumerate(which):
        viewers.append(asyncio.create_task(view(number, job)))
        if number % 20 == 19:
            await asyncio.sleep(0.1)
    for _ in which:
        await connected.acquire()
    await asyncio.sleep(SETTLE)
    begun = _process(portal["pid"])
    began[0] = time.time_ns()
    await asyncio.sleep(SECONDS)
    after = _process(portal["pid"])
    for viewer in viewers:
        viewer.cancel()
    await asyncio.gather(*viewers, return_exceptions=True)
    most = max(map(len, seen))
    return {
        "lags": lags or [99.0],
        "lines": len(lags),
        "missing": sum(not one for one in seen),
        "cpu": 100 * (after["cpu"] - begun["cpu"]) / SECONDS,
        "memory": after["memory"] - before["memory"],
        "threads": after["threads"] - before["threads"],
        "most": most,
    }


def _process(pid: int) -> dict[str, Any]:
    return {"cpu": cpu_of(pid), "memory": told_of(pid, "VmRSS") / 1024, "threads": told_of(pid, "Threads")}


@contextmanager
def _portal(home: Path, megabytes: int) -> Iterator[dict[str, Any]]:
    home.mkdir(mode=0o700, parents=True)
    settings = {
        **os.environ,
        "LONGSHORE_HOME": str(home),
        "LONGSHORE_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "LONGSHORE_CONNECTIONS_PER_ADDRESS": "5000",
    }
    command = [sys.executable, "-m", "benchmarks.running_jobs.logs_served", str(megabytes)]
    with subprocess.Popen(command, cwd=ROOT, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        with closing(process.stdin):
            told = process.stdout.readline()
            if not told:
                raise RuntimeError("The portal of the benchmark did not start.")
            yield {**json.loads(told), "pid": process.pid}
        process.wait(20)
