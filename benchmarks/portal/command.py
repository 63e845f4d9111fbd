"""What ``longshore`` costs on a user's own machine: CPU time of the whole program, without that of the portal."""

from __future__ import annotations

import os
import subprocess
import tempfile

from benchmarks.report import Report
from benchmarks.sizes import size
from tests.acceptance.portal import ROOT, Portal
from tests.bed.docker_bed import BedNode

TIMES = size(9, 1)


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    report.title(f"longshore, CPU of the program, the best of {TIMES}")
    token = str(portal.http.headers["Authorization"]).removeprefix("Bearer ")
    with tempfile.TemporaryDirectory() as home:
        own = {"XDG_CONFIG_HOME": home, "LONGSHORE_URL": portal.url, "LONGSHORE_TOKEN": token}
        for command, most in (("--help", 150), ("ls", 250)):
            took = min(_cpu(command, {**os.environ, **own}) for _ in range(TIMES))
            report.add(command, f"{took:.0f} ms", "", f"<= {most} ms", took <= most)


def _cpu(command: str, environment: dict[str, str]) -> float:
    """Milliseconds."""
    before = os.times()
    subprocess.run([ROOT / "scripts" / "longshore", command], env=environment, capture_output=True, check=True)
    after = os.times()
    return 1000 * sum(after[at] - before[at] for at in (2, 3))
