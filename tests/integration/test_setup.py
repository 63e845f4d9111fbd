"""What scripts/setup says of the engine: the truth, and at once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import LIMIT

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A set-up tree with a dockerd that ends at once, an apt-get that is not to be needed, and a sleep that notes each
    time that it is called. Where there is a dockerd, it lasts until that has said why it ends."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts")
    (tmp_path / "requirements").mkdir()
    for name in ("tools", "run"):
        (tmp_path / "requirements" / f"{name}.txt").touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    stamp = subprocess.run(["cksum"], input=b"", capture_output=True, check=True).stdout.decode().strip()
    (tmp_path / ".venv" / ".run").write_text(stamp)
    (tmp_path / "bin").mkdir()
    played(tmp_path, "dockerd", "echo 'failed to start daemon: no room' >&2; exit 1")
    played(tmp_path, "apt-get", "echo 'nothing is to be installed' >&2; exit 1")
    of_dockerd = f"while [ -e {tmp_path}/var ] && [ ! -s {tmp_path}/var/dockerd.log ]; do /bin/sleep 0.1; done"
    played(tmp_path, "sleep", f'echo "$1" >>{tmp_path}/slept; {of_dockerd}; exec /bin/sleep "$@"')
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    return tmp_path


def played(clone: Path, name: str, script: str) -> None:
    program = clone / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def run(clone: Path, **variables: str) -> tuple[str, int]:
    """What it said, and how often it slept."""
    kept = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    path = f"{clone}/bin:{os.environ['PATH']}"
    done = subprocess.run(
        [clone / "scripts" / "setup", "run"],
        env={**kept, "PATH": path, "LONGSHORE_HOME": str(clone / "var"), **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    slept = clone / "slept"
    return done.stdout + done.stderr, len(slept.read_text().splitlines()) if slept.exists() else 0


def test_a_docker_host_that_nobody_answers_at_is_named_and_no_engine_is_started(clone: Path) -> None:
    said, naps = run(clone, DOCKER_HOST=f"unix://{clone}/dead.sock")
    assert f"no Docker engine answers at {clone}/dead.sock, which DOCKER_HOST names" in said
    assert "started" not in said and not (clone / "var" / "dockerd.log").exists()
    assert naps == 0, "it does not wait for what will not come"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts an engine")
@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd starts the engine here")
@pytest.mark.skipif(Path("/var/run/docker.sock").exists(), reason="an engine runs here")
def test_a_dockerd_that_ends_at_once_is_not_said_to_go_on_running(clone: Path) -> None:
    said, naps = run(clone)
    assert "Docker could not be started" in said and "failed to start daemon: no room" in said
    assert "goes on running" not in said
    assert naps < 60, "it does not wait for what will not come"


@pytest.mark.parametrize(("required", "told"), [("docker", True), ("docker,kubernetes", False)])
def test_what_will_be_skipped_is_said_before_anything_is_installed(clone: Path, required: str, told: bool) -> None:
    with subprocess.Popen(
        [clone / "scripts" / "setup", "test"],
        env={**os.environ, "PATH": f"{clone}/bin:{os.environ['PATH']}", "LONGSHORE_REQUIRE": required},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as setting_up:
        assert setting_up.stdout is not None
        first = setting_up.stdout.readline()
        os.killpg(setting_up.pid, signal.SIGKILL)
    assert ("tests with Kubernetes will be skipped" in first) is told


def test_the_gate_requires_every_part_but_the_cluster_that_takes_minutes_to_compile(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of no other make
    for code in (0, 1):
        (tmp_path / "Makefile").write_text(f"test:\n\t@echo $(LONGSHORE_REQUIRE), CI=$(CI); exit {code}\n")
        done = subprocess.run([tmp_path / ".ci" / "run"], env=ours, capture_output=True, text=True)
        assert bool(done.returncode) is bool(code)
        assert done.stdout == "docker,hdfs,browser,postgres, CI=true\n"
