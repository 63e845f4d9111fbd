"""Stands for ddp.py without PyTorch: its processes meet at MASTER_ADDR and MASTER_PORT and average their gradients."""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path

import peers
import store

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
Mean = Callable[[list[float]], list[float]]


def meet() -> Mean:
    """The function that averages a list over all processes: process 0 adds up and answers."""
    port = int(os.environ["MASTER_PORT"])
    if RANK:
        to_first = peers.connect(os.environ["MASTER_ADDR"], port)
        answers = to_first.makefile()

        def asked(values: list[float]) -> list[float]:
            peers.send(to_first, values)
            mean: list[float] = peers.receive(answers)
            return mean

        return asked
    with socket.create_server(("", port)) as server:
        others = [server.accept()[0] for _ in range(SIZE - 1)]
    lines = [other.makefile() for other in others]

    def answered(values: list[float]) -> list[float]:
        all_values = [values, *(peers.receive(each) for each in lines)]
        mean = [sum(each) / SIZE for each in zip(*all_values, strict=True)]
        for other in others:
            peers.send(other, mean)
        return mean

    return answered


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--output", default="")
    asked = parser.parse_args()
    mean, weights, numbers = meet(), [0.0, 0.0], random.Random(RANK)
    for step in range(1, asked.steps + 1):
        own, loss = peers.gradients(weights, numbers)
        *gradients, loss = mean([*own, loss])
        weights = [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)]
        if step % 100 == 0 and RANK == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)
    assert mean(weights) == weights, "the processes have different weights"
    if RANK == 0:
        print(f"{SIZE} processes have equal weights", flush=True)
        Path("model.pt").write_text(json.dumps(weights))
        store.put("model.pt", f"{asked.output}/model.pt")
        print(f"saved {asked.output}/model.pt", flush=True)


if __name__ == "__main__":
    main()
