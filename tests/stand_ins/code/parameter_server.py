"""Stands for parameter_server.py without TensorFlow: each server holds one of two weights, and the workers fetch them
and send gradients, over the ports that Longshore gave to them."""

from __future__ import annotations

import argparse
import json
import random
import socketserver
import threading
import time
from pathlib import Path
from typing import Any

import peers
import store


def serve(port: int) -> None:
    """One weight: {"take": gradient} changes it and its number of steps, {} asks for both, and how many have asked."""
    held, lock = {"weight": 0.0, "steps": 0, "workers": 0}, threading.Lock()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with lock:
                held["workers"] += 1
            while line := self.rfile.readline():
                asked = json.loads(line)
                with lock:
                    held["weight"] -= 0.1 * asked.get("take", 0.0)
                    held["steps"] += "take" in asked
                    peers.send(self.request, held)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("", port), Handler) as server:
        server.serve_forever()


def work(servers: list[str], workers: int, task: int, steps: int, train_dir: str) -> None:
    """Until the servers have done ``steps``, those of all workers together, and a good part of them for this one."""
    connections = [peers.connect(host, int(port)) for host, _, port in (each.partition(":") for each in servers)]
    answers = [each.makefile() for each in connections]

    def ask(values: list[dict[str, float]]) -> list[dict[str, Any]]:
        for connection, value in zip(connections, values, strict=True):
            peers.send(connection, value)
        return [peers.receive(each) for each in answers]

    done, loss, numbers = 0, 0.0, random.Random(task)
    while (held := ask([{}, {}]))[0]["workers"] < workers:  # or one of them would do all steps alone
        time.sleep(0.05)
    least = steps // workers // 2  # the other may have done all of them before this one had the machine
    while held[0]["steps"] < steps or done < least:
        gradients, loss = peers.gradients([each["weight"] for each in held], numbers)
        held = ask([{"take": gradient} for gradient in gradients])
        done += 1
    if task == 0:
        Path("weights.npz").write_text(json.dumps([each["weight"] for each in held]))
        store.put("weights.npz", f"{train_dir}/weights.npz")
        print(f"saved {train_dir}/weights.npz", flush=True)
    print(f"worker {task} did {done} of {steps} steps; loss {loss:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--job_name", choices=("ps", "worker"), required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--train_dir", default="")
    asked = parser.parse_args()
    servers = asked.ps_hosts.split(",")
    if asked.job_name == "ps":
        serve(int(servers[asked.task_index].partition(":")[2]))
    work(servers, len(asked.worker_hosts.split(",")), asked.task_index, asked.steps, asked.train_dir)


if __name__ == "__main__":
    main()
