"""A training that goes on where it was: it loads the newest state when it starts, and saves when it is told to end.

The state is saved in the folder ``--output`` of the store every ``--every`` seconds and on SIGTERM, which a task gets
before it is stopped, moved off a drained node or ended for its time. Needs Python alone; with PyTorch ``torch.save``
and ``torch.load`` take the place of ``json``, for the weights, the optimizer and the step.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import store

STATE = Path("state.json")
told: list[int] = []  # signals that came


def note(number: int, _: FrameType | None) -> None:
    told.append(number)


def load(output: str) -> dict[str, float]:
    """The newest state, or that of a beginning."""
    try:
        store.get(f"{output}/state.json", STATE)
    except store.NotThere:
        print("begins at step 0", flush=True)
        return {"step": 0, "slope": 0.0}
    state: dict[str, float] = json.loads(STATE.read_text())
    print(f"resumed after step {state['step']}", flush=True)
    return state


def save(state: dict[str, float], output: str) -> None:
    """Whoever reads it meanwhile finds the state before, whole."""
    STATE.write_text(json.dumps(state))
    store.put(STATE, f"{output}/state.json")
    if saved := os.environ.get("LONGSHORE_SAVED_FILE"):
        Path(saved).touch()  # what was done until now is not lost if the task ends
    print(f"saved step {state['step']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--every", type=float, default=30, help="seconds between two saves")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds that a step takes here")
    parser.add_argument("--output", required=True, help="a folder of the store")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, note)
    state, saved_at = load(asked.output), time.monotonic()
    while state["step"] < asked.steps and not told:
        x = random.uniform(-1, 1)
        state["slope"] -= 0.1 * (state["slope"] - 3) * x * x
        state["step"] += 1
        time.sleep(asked.pause)
        if time.monotonic() > saved_at + asked.every:
            save(state, asked.output)
            saved_at = time.monotonic()
    save(state, asked.output)
    if state["step"] < asked.steps:
        sys.exit(128 + told[0])  # not done: another try goes on from here
    print(f"done after {asked.steps} steps: slope {state['slope']:.2f}, task {os.environ.get('PAI_TASK_INDEX', '')}")


if __name__ == "__main__":
    main()
