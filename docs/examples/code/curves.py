"""Writes curves as a training does, for TensorBoard: what tensorboardX notes goes to the store every few seconds."""

from __future__ import annotations

import argparse
import math
import random
import time

import store
from tensorboardX import SummaryWriter


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two steps")
    parser.add_argument("--output", required=True, help="a folder of the store")
    asked = parser.parse_args()
    put_at = 0.0
    with SummaryWriter("logs") as writer:
        for step in range(1, asked.steps + 1):
            loss = math.exp(-3 * step / asked.steps) * (1 + random.gauss(0, 0.05))
            writer.add_scalar("loss", loss, step)
            if time.monotonic() > put_at:
                writer.flush()
                store.put("logs", asked.output)
                put_at = time.monotonic() + 5
            time.sleep(asked.pause)
    store.put("logs", asked.output)
    print(f"saved the curves of {asked.steps} steps in {asked.output}", flush=True)


if __name__ == "__main__":
    main()
