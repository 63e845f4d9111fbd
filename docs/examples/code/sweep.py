"""One job of a sweep: fits a line by gradient descent with the rate and the seed that it was given.

The result goes into a folder of the store that all jobs of the sweep share, as <rate>-<seed>.json. Then it prints
what is there so far, the best first. Needs Python alone.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import store


def fit(rate: float, seed: int, steps: int = 20) -> float:
    """The squared error of the line that is found, for points of the line 3x - 1 with noise."""
    numbers = random.Random(seed)
    points = [(x, 3 * x - 1 + numbers.gauss(0, 0.1)) for x in (numbers.uniform(-1, 1) for _ in range(100))]
    slope, shift = numbers.gauss(0, 1), 0.0
    for _ in range(steps):
        errors = [slope * x + shift - y for x, y in points]
        slope -= rate * 2 * sum(error * x for error, (x, _) in zip(errors, points, strict=True)) / len(points)
        shift -= rate * 2 * sum(errors) / len(points)
    return sum((slope * x + shift - y) ** 2 for x, y in points) / len(points)


def table(folder: Path) -> list[dict[str, float]]:
    """The results in this folder, the best first."""
    results = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return sorted(results, key=lambda one: float(one["loss"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--output", required=True, help="a folder of the store")
    asked = parser.parse_args()
    result = {"rate": float(asked.rate), "seed": int(asked.seed), "loss": fit(float(asked.rate), int(asked.seed))}
    name = f"{asked.rate}-{asked.seed}.json"
    Path(name).write_text(json.dumps(result))
    store.put(name, f"{asked.output}/{name}")
    store.get(asked.output, "results")
    for one in table(Path("results")):
        print(f"rate {one['rate']:g} seed {one['seed']}: loss {one['loss']:.4f}", flush=True)


if __name__ == "__main__":
    main()
