"""``make test``: lint and rings of tests side by side, since most of them wait; told at the end in pytest's own words.

    python -m tests.lanes                     the gate
    python -m tests.lanes all                 everything
    python -m tests.lanes pages postgres      these lanes
    python -m tests.lanes tests/unit -x       lint, then one pytest with these arguments

A lane is one process of pytest with the engines, the database and the browser of its own session. A test that failed
runs once more at the end, alone: where it passes then it is told as unsteady, and a few of them fail no run.
"""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.helpers import all_missing
from tests.lanes.lane import ROOT, Lane
from tests.lanes.plan import everything, gate, without_cluster
from tests.lanes.run import interrupt, run


def main(arguments: list[str]) -> int:
    if not arguments:
        return _run(gate(), of="gate")
    if arguments == ["all"]:
        return _run(without_cluster(everything()), of="all")
    known = {lane.name: lane for lane in (*gate(), *everything())}
    if all(name in known for name in arguments):
        return _run([known[name] for name in arguments], of="all")
    lint = subprocess.run(["scripts/lint"], cwd=ROOT).returncode
    signal.signal(signal.SIGTERM, interrupt)
    tests = subprocess.Popen([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    try:
        return tests.wait() or lint
    except KeyboardInterrupt:
        tests.send_signal(signal.SIGINT)
        return tests.wait() or 130


def _run(chosen: list[Lane], *, of: str) -> int:
    for part, reason in all_missing().items():
        print(f"tests with {part} are skipped: {reason}", flush=True)
    return run(chosen, of=of)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
