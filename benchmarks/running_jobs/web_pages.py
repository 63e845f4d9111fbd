"""How many requests and megabytes a second a page of a task answers through the portal, beside the same program asked
straight, in the same run. The program is Python's own HTTP server, so it is the slower of the two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import httpx

from benchmarks.report import Report, spread, wait_for
from benchmarks.sizes import size
from tests.acceptance.portal import Portal, config
from tests.bed.docker_bed import BedNode
from tests.bed.ssh_image import ensure_python_image

PROGRAM = Path(__file__).parents[2] / "tests" / "web_app.py"
COMMAND = f"""cat >/tmp/page.py <<'END'
{PROGRAM.read_text()}
END
exec python3 /tmp/page.py $PAI_CONTAINER_HOST_web_PORT_LIST"""
SECONDS = size(5.0, 0.2)
AT_ONCE = size(16, 2)
MEGABYTES = size(256, 2)
GOAL = 0.3  # of what the program answers straight: client, program and portal share the cores of one machine


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    report.title(f"A page of a task: {AT_ONCE} connections for {SECONDS:.0f} s; {MEGABYTES} MB down and up")
    ensure_python_image(node)
    labels = [{"label": "web", "beginAt": 0, "portNumber": 1}]
    portal.submit(config("paged", COMMAND, image="longshore-test/python:1", memoryMB=500, portList=labels))
    wait_for(lambda: _page(portal)["state"] == "answers", 120, 0.5, "the page answers")
    straight = f"http://{node.address}:{_page(portal)['port']}"
    url, head = _opened(portal)
    bare, through = (asyncio.run(_requests(*way)) for way in ((straight, {}), (url, head)))
    report.add("asked straight", f"{len(bare) / SECONDS:.0f}/s", spread(bare, 95))
    _add(report, "through the portal", f"{len(through) / SECONDS:.0f}/s", len(through) / len(bare), spread(through, 95))
    for name, act in (("down", _down), ("up", _up)):
        alone, carried = (asyncio.run(act(*way)) for way in ((straight, {}), (url, head)))
        _add(report, name, f"{carried:.0f} MB/s", carried / alone, f"straight {alone:.0f} MB/s")
    portal.stop("paged")


def _add(report: Report, name: str, value: str, ratio: float, beside: str) -> None:
    report.add(name, value, f"{ratio:.2f} of straight; {beside}", f">= {GOAL} of straight", ratio >= GOAL)


def _page(portal: Portal) -> dict[str, object]:
    found: dict[str, object] = portal.get("/user/admin/jobs/paged/services")["services"][0]
    return found


def _opened(portal: Portal) -> tuple[str, dict[str, str]]:
    """The address of the page, and the headers of who has it open."""
    asked = portal.http.post("/user/admin/jobs/paged/services/main/0/web/ticket")
    url = urlsplit(asked.json()["url"])
    base, host = f"http://127.0.0.1:{url.port}", {"Host": url.netloc}
    entered = httpx.get(f"{base}{url.path}?{url.query}", headers=host)
    return base, {**host, "Cookie": entered.headers["set-cookie"].partition(";")[0]}


async def _requests(base: str, head: Mapping[str, str]) -> list[float]:
    """How long each took."""
    end, times = time.perf_counter() + SECONDS, []

    async def ask(client: aiohttp.ClientSession) -> None:
        while (began := time.perf_counter()) < end:
            async with client.get(f"{base}/", headers=head) as answer:
                await answer.read()
                assert answer.status == 200, answer.status
            times.append(time.perf_counter() - began)

    async with aiohttp.ClientSession() as client:
        await asyncio.gather(*(ask(client) for _ in range(AT_ONCE)))
    return times


async def _down(base: str, head: Mapping[str, str]) -> float:
    async def act(client: aiohttp.ClientSession) -> None:
        async with client.get(f"{base}/big?mb={MEGABYTES}", headers=head) as answer:
            sizes = [len(piece) async for piece in answer.content.iter_any()]
        assert sum(sizes) == MEGABYTES << 20

    return await _rate(act)


async def _up(base: str, head: Mapping[str, str]) -> float:
    async def act(client: aiohttp.ClientSession) -> None:
        async with client.put(f"{base}/upload", headers=head, data=bytes(MEGABYTES << 20)) as answer:
            assert (await answer.json())["size"] == MEGABYTES << 20

    return await _rate(act)


async def _rate(act: Callable[[aiohttp.ClientSession], Awaitable[None]]) -> float:
    """MB/s."""
    async with aiohttp.ClientSession() as client:
        began = time.perf_counter()
        await act(client)
        return MEGABYTES / (time.perf_counter() - began)
