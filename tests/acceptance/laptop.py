"""A user's own machine, on which they have ``longshore``."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.portal import ROOT, SECRET, Portal
from tests.helpers import LIMIT, until

PROGRAM = str(ROOT / "scripts" / "longshore")
IMAGE = ("--image", "longshore/sample:1", "--memory", "100m")
ENDS = "for i in 1 2 3; do echo step $i; done; echo warned >&2; cat data/in.txt; exit 3\n"
GOES_ON = "echo began; while :; do sleep 0.2; done\n"


@dataclass(frozen=True)
class Laptop:
    """A user's machine: a home and a folder of its own."""

    home: Path
    url: str

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def token(self) -> str:
        return str(json.loads(self.account.read_text())["token"])

    @property
    def account(self) -> Path:
        return self.home / "config" / "longshore" / "account.json"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
        return {**kept, "XDG_CONFIG_HOME": str(self.home / "config")}

    def does(self, *arguments: str, code: int = 0, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [PROGRAM, *arguments],
            env={**self.environment, **env},
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            input=given,
        )
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def told(self, *arguments: str) -> Any:
        return json.loads(self.does(*arguments, "--json").stdout)

    def begins(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *arguments],
            env={**self.environment, "PYTHONUNBUFFERED": "1", **env},
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )


def laptop_of(portal: Portal, home: Path) -> Laptop:
    """Signed in as mira, whose folder has a script, its data and a file that stays behind."""
    portal.http.put("/user", json={"username": "mira", "password": SECRET, "admin": False, "modify": False})
    laptop = Laptop(home, portal.url)
    (laptop.project / "data").mkdir(parents=True)
    (laptop.project / "data" / "in.txt").write_text("what goes in\n")
    (laptop.project / "train.sh").write_text(ENDS)
    (laptop.project / ".longshoreignore").write_text("*.bin\n")
    (laptop.project / "model.bin").write_bytes(bytes(1000))
    said = laptop.does("login", portal.url, "--user", "mira", LONGSHORE_PASSWORD=SECRET).stderr
    assert f"Signed in to {portal.url} as mira" in said and SECRET not in said
    return laptop


def stop_all_of(portal: Portal) -> None:
    for job in portal.get("/jobs"):
        if job["state"] in ("WAITING", "RUNNING"):
            portal.http.put(f"/user/{job['username']}/jobs/{job['name']}/executionType", json={"value": "STOP"})


def begin(laptop: Laptop, name: str, script: str = GOES_ON, image: str = IMAGE[1]) -> str:
    """A job that runs until it is stopped."""
    (laptop.project / "train.sh").write_text(script)
    laptop.does("run", "-d", "--name", name, "--image", image, *IMAGE[2:], "--", "sh", "train.sh")
    until(lambda: "began" in laptop.does("logs", name).stdout, 40, 0.3, f"{name} runs")
    return name
