"""``python -m benchmarks.running_jobs.logs_served <megabytes>``: the portal on engines in memory, with logs to look at.

Alice's job ``one`` has a task that writes a line every half second, ``many`` has 200 tasks that write one each second,
``long`` has ended and left a log of that size. A line has the nanoseconds of its writing. Prints one JSON object, then
serves until its input ends.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import django

from benchmarks.sizes import size

NODES, TASKS = size((20, 10), (2, 2))  # of the job "many": tasks of each node
LINE = b"2026-11-20 14:20:49 - mmseg - iter %09d/400000 loss 0.4127 eta 2:52:08 mem 41.0 GB, data 0.008 s\n"


def main() -> None:
    django.setup()
    from django.core.management import call_command

    from portal.shared.look import static_files

    call_command("migrate", verbosity=0, interactive=False)
    static_files.collect()
    from django.test import Client

    from base.models import User
    from clusters.models import VirtualCluster
    from clusters.users import services as users
    from tests.cluster import Clock, Cluster

    VirtualCluster.objects.get_or_create(name="default", defaults={"capacity": 100, "max_capacity": 100})
    alice = User.objects.filter(username="alice").first() or _make_user(users)
    cluster = Cluster(alice, Clock())
    for number in range(NODES):
        cluster.add_node(f"n{number}", cpus=64, memory_mb=256_000)
    one, many = cluster.submit(name="one"), cluster.submit(name="many", roles=[{"taskNumber": NODES * TASKS}])
    cluster.settle(60)
    task = _long_log(alice, int(sys.argv[1]) * 1_000_000)
    client = Client()
    client.force_login(alice)
    address = _serve()
    threading.Thread(target=_write, args=(cluster, one, 0.5), daemon=True).start()
    threading.Thread(target=_write, args=(cluster, many, 1.0), daemon=True).start()
    print(json.dumps({"port": address, "cookie": client.cookies["longshore"].value, "task": task}), flush=True)
    sys.stdin.read()
    os._exit(0)


def _make_user(users: Any) -> Any:
    from base.models import User

    return User.objects.create_user("alice", password="not-used-here-1")


def _serve() -> int:
    import uvicorn

    from base.serving.connection import Connection
    from portal.asgi import application

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    config = uvicorn.Config(application, http=Connection, log_level="error", lifespan="off", loop="uvloop")
    threading.Thread(target=uvicorn.Server(config).run, kwargs={"sockets": [listening]}, daemon=True).start()
    return int(listening.getsockname()[1])


def _write(cluster: Any, job: Any, every: float) -> None:
    tasks = [(task.node, task.container_name) for task in cluster.tasks(job)]
    number = 0
    while True:
        begun = time.monotonic()
        for at, (node, name) in enumerate(tasks):
            number += 1
            cluster.engines[node].print(name, f"{number} {time.time_ns()}\n".encode())
            time.sleep(max(0.0, begun + every * (at + 1) / len(tasks) - time.monotonic()))


def _long_log(owner: Any, size: int) -> str:
    """An ended job with a log of that size: equal blocks, with a rare line in each."""
    from base.files.store import local_root, open_store
    from clusters.engines.logs.stamps import SECOND
    from jobs.logs.lines import LineIndex
    from jobs.logs.places import place_of, write_index
    from jobs.models import Task
    from tests import builders

    job = builders.make_job("alice", "long", state="SUCCEEDED", age=60)
    task = Task.objects.select_related("attempt", "job").get(job=job)
    place, store = place_of(task), open_store()
    lines = 100_000
    block = b"".join(LINE % number for number in range(lines - 1)) + b"NCCL error: unhandled system error\n"
    blocks = max(1, size // len(block))
    store.write(f"{place.folder}/stdout", (block for _ in range(blocks)))
    from array import array
    from base64 import b64encode

    from jobs.logs.times import TimeIndex

    index, tops = LineIndex(), TimeIndex()
    began = (int(time.time()) - 90_000) * SECOND
    step = 80_000_000_000_000 // (lines * blocks)

    def times() -> Any:
        for number in range(blocks):
            index.extend(block)
            first = began + number * lines * step
            some = array("q", range(first, first + lines * step, step))
            tops.extend(some)
            yield some.tobytes()

    store.write(f"{place.folder}/stdout.times", times())
    told = {
        "bytes": index.size,
        "newlines": index.newlines,
        "blocks": list(index.blocks),
        "lines": tops.count,
        "tops": b64encode(tops.tops.tobytes()).decode(),
    }
    empty = {"bytes": 0, "newlines": 0, "blocks": [], "lines": 0, "tops": b64encode(b"\0" * 8).decode()}
    write_index(store, place.folder, {"stdout": told, "stderr": empty}, complete=True, reason="")
    path = Path(local_root()) / f"{place.folder}/stdout".lstrip("/")
    assert path.is_file() and shutil.disk_usage(path).free > 0
    return str(path)


if __name__ == "__main__":
    main()
