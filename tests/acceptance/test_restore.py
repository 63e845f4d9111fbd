"""docs/backup.md, done: a portal that runs jobs is copied, destroyed and restored, on a real engine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.portal import ROOT, Portal, config, container_of, containers, docker, portal_on
from tests.bed.docker_bed import BedNode
from tests.helpers import until

pytestmark = pytest.mark.docker
COMMANDS = re.findall(r"^    (.+)$", (ROOT / "docs" / "backup.md").read_text(), re.MULTILINE)


def run(folder: Path, *beginnings: str) -> None:
    """The commands of the page that begin so, in a folder where ``var`` is LONGSHORE_HOME."""
    for beginning in beginnings:
        (command,) = [line for line in COMMANDS if line.startswith(beginning)]
        subprocess.run(["bash", "-euc", command], cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=60)


def test_a_restored_portal_goes_on_and_takes_over_nobody_elses_container(
    docker_engine: BedNode, tmp_path: Path
) -> None:
    home = tmp_path / "var"
    home.mkdir(mode=0o700)
    with portal_on(home, docker_engine) as portal:
        runs = portal.submit(config("runs", "echo begin; until [ -e /tmp/go ]; do sleep 0.1; done; echo end"))
        before = portal.wait_running(runs)["containerId"]
        run(tmp_path, "python3", "tar -cf")
        later = portal.submit(config("later", "echo wrong; sleep 600"))
        portal.wait_running(later)
        assert len(containers(docker_engine, portal)) == 2
        portal.kill()
        shutil.rmtree(home)
        run(tmp_path, "mkdir", "tar -xf", "cp")
        portal.start()
        other = portal.submit(config("later", "echo right"))  # name and row numbers of the one that is forgotten
        assert portal.wait_state(other)["state"] == "SUCCEEDED"
        assert portal.log(other) == "right\n"
        assert portal.task(runs)["containerId"] == before, "it runs on"
        docker(docker_engine, "exec", container_of(docker_engine, runs), "touch", "/tmp/go")
        assert portal.wait_state(runs)["state"] == "SUCCEEDED"
        assert portal.log(runs) == "begin\nend\n"
        until(lambda: containers(docker_engine, portal) == [], 90, 0.5, what="what belongs to nobody is removed")
        assert [job["name"] for job in portal.get("/jobs", username="admin")] == ["later", "runs"]
        assert portal_says(portal)["invariants"] == {"healed": 0, "broken": 0}


def portal_says(portal: Portal) -> dict[str, object]:
    return portal.http.get(f"{portal.url}/healthz").json()  # type: ignore[no-any-return]
