"""A training with PyTorch that goes on where it was: weights, optimizer, order of the data and step.

The state is saved in the folder ``--output`` of the store every ``--every`` seconds and when the task is told to end,
which it is by a signal (``extras.notice``, and SIGTERM at the latest). Then it touches the file that
LONGSHORE_SAVED_FILE names: what was done until then is not lost if the task ends now.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import store
import torch

STATE = Path("state.pt")
told: list[int] = []  # signals that came


def note(number: int, _: FrameType | None) -> None:
    told.append(number)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--every", type=float, default=60, help="seconds between two saves")
    parser.add_argument("--output", required=True, help="a folder of the store")
    asked = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, note)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(2, 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator, step = torch.Generator().manual_seed(0), 0
    try:
        store.get(f"{asked.output}/state.pt", STATE)
    except store.NotThere:
        print("begins at step 0", flush=True)
    else:
        state = torch.load(STATE, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"].cpu())
        step = state["step"]
        print(f"goes on after step {step}; the last try: {os.environ.get('LONGSHORE_LAST_END')}", flush=True)

    def save() -> None:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**state, "generator": generator.get_state(), "step": step}, STATE)
        store.put(STATE, f"{asked.output}/state.pt")  # readers see the one before, or this one, never a part
        Path(os.environ["LONGSHORE_SAVED_FILE"]).touch()
        print(f"saved step {step}", flush=True)

    saved_at = time.monotonic()
    while step < asked.steps and not told:
        x = torch.rand(64, 2, generator=generator).to(device)
        loss = (model(x).squeeze() - x @ torch.tensor([3.0, -1.0], device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if time.monotonic() > saved_at + asked.every:
            save()
            saved_at = time.monotonic()
    save()
    if step < asked.steps:
        sys.exit(128 + told[0])  # not done: another try goes on from here
    print(f"done after {step} steps: weights {model.weight.tolist()}")


if __name__ == "__main__":
    main()
