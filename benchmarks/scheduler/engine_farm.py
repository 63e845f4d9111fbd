"""A thousand small Docker engines in one process, each on a port of its own: as much of the API as the scheduler asks
for. Real HTTP, one event loop.

``python -m benchmarks.scheduler.engine_farm 1000`` reads from its standard input for each engine one JSON list, its
port and the containers that it has, prints a line when all listen, and then ends a container for each line ``engine
id`` that it reads.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
import sys
import time
from typing import Any
from urllib.parse import unquote

_INSPECT = re.compile(r"/containers/(\w+)/json")
_MEMORY = (
    *("active_anon", "active_file", "cache", "dirty", "inactive_anon", "inactive_file", "mapped_file", "pgfault"),
    *("pgmajfault", "pgpgin", "pgpgout", "rss", "rss_huge", "unevictable", "writeback"),
)
STATS = {
    "preread": "0001-01-01T00:00:00Z",
    "pids_stats": {"current": 12, "limit": 4096},
    "blkio_stats": {
        "io_service_bytes_recursive": [
            {"major": 8, "minor": 0, "op": op, "value": 1 << 30} for op in ("Read", "Write", "Sync", "Async", "Total")
        ]
    },
    "precpu_stats": {"cpu_usage": {"total_usage": 0}, "throttling_data": {"periods": 0}},
    "memory_stats": {
        "usage": 3 << 30,
        "max_usage": 4 << 30,
        "stats": {f"{total}{name}": 1 << 20 for total in ("", "total_") for name in _MEMORY},
        "limit": 8 << 30,
    },
    "networks": {"eth0": {"rx_bytes": 10**9, "rx_packets": 10**6, "tx_bytes": 10**9, "tx_packets": 10**6}},
}
STARTED = "2026-01-01T00:00:00.000000000Z"


class Engine:
    def __init__(self, number: int, port: int, rows: list[dict[str, Any]]) -> None:
        self.number, self.port = number, port
        self.containers = {row["Id"]: {**row, "State": "running", "Status": "Up"} for row in rows}
        self.names = {row["Names"][0].lstrip("/"): row["Id"] for row in rows}
        self.followers: set[asyncio.Transport] = set()
        self.asked: dict[str, int] = {}

    def answer(self, path: str) -> Any:
        """The JSON of an answer; None: there is no such thing."""
        if path == "/version":
            return {"Version": "24.0.7", "ApiVersion": "1.43", "MinAPIVersion": "1.12"}
        if path.endswith("/info"):
            return {"ID": f"farm-{self.number}", "Name": f"farm-{self.number}", "ServerVersion": "24.0.7", "NCPU": 64,
                    "MemTotal": 512 << 30, "Swarm": {"LocalNodeState": "inactive"}}  # fmt: skip
        if path.endswith("/containers/json"):
            return list(self.containers.values())
        if path.endswith("/stats"):
            return self._stats(path.split("/")[-2])
        found = _INSPECT.search(path)
        return self._inspected(found[1]) if found and found[1] in self.containers else None

    def _stats(self, name: str) -> Any:
        """As an engine of version 20.10 says it, of a container that uses half a core."""
        if name not in self.names:
            return None
        now = time.time_ns()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9))
        usage = {"total_usage": now % 10**15 // 2, "percpu_usage": [now % 10**15 // 2, 0], "usage_in_kernelmode": 1}
        return {**STATS, "read": f"{stamp}.{now % 10**9:09d}Z", "name": f"/{name}", "id": self.names[name],
                "cpu_stats": {"cpu_usage": usage, "system_cpu_usage": now, "online_cpus": 64}}  # fmt: skip

    def end(self, id: str) -> None:
        self.containers[id] |= {"State": "exited", "Status": "Exited (0)"}
        event = {"Type": "container", "Action": "die", "id": id, "Actor": {"ID": id, "Attributes": {"exitCode": "0"}},
                 "timeNano": time.time_ns()}  # fmt: skip
        data = json.dumps(event).encode() + b"\n"
        for follower in self.followers:
            follower.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _inspected(self, id: str) -> dict[str, Any]:
        row = self.containers[id]
        runs = row["State"] == "running"
        state = {"Status": row["State"], "ExitCode": 0, "OOMKilled": False, "Error": "", "StartedAt": STARTED,
                 "FinishedAt": "0001-01-01T00:00:00Z" if runs else "2026-01-01T00:00:01Z"}  # fmt: skip
        return {"Id": id, "Name": row["Names"][0], "State": state, "Config": {"Labels": row["Labels"]}}


class Connection(asyncio.Protocol):
    def __init__(self, engine: Engine) -> None:
        self.engine, self.rest = engine, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.rest += data
        while b"\r\n\r\n" in self.rest:
            head, self.rest = self.rest.split(b"\r\n\r\n", 1)
            path = unquote(head.split(b" ", 2)[1].decode().partition("?")[0])
            self._answer(path)

    def connection_lost(self, error: Exception | None) -> None:
        self.engine.followers.discard(self.transport)

    def _answer(self, path: str) -> None:
        if path.endswith("/stats"):  # this version answers once a second, all that came meanwhile
            asyncio.get_running_loop().call_later(1 - time.time() % 1, self._write, path, "stats")
            return
        kind = path.rpartition("/")[2] if "/containers/" not in path else "list" if path.count("/") < 4 else "inspect"
        self._write(path, kind)

    def _write(self, path: str, kind: str) -> None:
        self.engine.asked[kind] = self.engine.asked.get(kind, 0) + 1
        assert isinstance(self.transport, asyncio.Transport)
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        if path.endswith("/events"):
            self.transport.write(f"HTTP/1.1 200 OK\r\nDate: {date}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            self.engine.followers.add(self.transport)
            return
        found = self.engine.answer(path)
        body = json.dumps(found if found is not None else {"message": "no such thing"}).encode()
        head = f"HTTP/1.1 {200 if found is not None else 404} OK\r\nDate: {date}\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def free_ports(number: int) -> list[int]:
    """Ports on which nobody listens now, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def main(number: int) -> None:
    loop = asyncio.get_running_loop()
    engines = [Engine(at, *json.loads(sys.stdin.readline())) for at in range(number)]
    for engine in engines:
        await loop.create_server(lambda engine=engine: Connection(engine), "127.0.0.1", engine.port)  # type: ignore[misc]
    print("listening", flush=True)
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        if line == ["asked"]:
            total: dict[str, int] = {}
            for engine in engines:
                for kind, times in engine.asked.items():
                    total[kind] = total.get(kind, 0) + times
            print(json.dumps(total), flush=True)
        else:
            engines[int(line[0])].end(line[1])
            print("done", flush=True)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(int(sys.argv[1])))
