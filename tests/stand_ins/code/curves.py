"""Stands for curves.py without tensorboardX: one line of JSON for each point."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import store


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()
    Path("logs").mkdir()
    for step in range(1, asked.steps + 1):
        with Path("logs/events.1").open("a") as curve:
            curve.write(json.dumps([time.time(), step, 1 / step]) + "\n")
        if step % 100 == 1:
            store.put("logs", asked.output)
        time.sleep(asked.pause)
    store.put("logs", asked.output)
    print(f"saved the curves of {asked.steps} steps in {asked.output}", flush=True)


if __name__ == "__main__":
    main()
