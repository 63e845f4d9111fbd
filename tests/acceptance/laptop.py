"""A user's own machine, on which they have ``longshore``: a virtual environment with nothing in it but the wheel that
the portal hands out, and what that says it needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import httpx
from packaging.requirements import Requirement

from tests.acceptance.portal import SECRET, Portal
from tests.helpers import LIMIT, until

IMAGE = ("--image", "longshore/sample:1", "--memory", "100m")
ENDS = "for i in 1 2 3; do echo step $i; done; echo warned >&2; cat data/in.txt; exit 3\n"
_begun: list[subprocess.Popen[str]] = []
GOES_ON = "echo began; while :; do sleep 0.2; done\n"


@dataclass(frozen=True)
class Laptop:
    """A user's machine: a home and a folder of its own."""

    home: Path
    url: str
    bin: Path  # where its programs are

    @property
    def program(self) -> str:
        return str(self.bin / "longshore")

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
        path = f"{self.bin}:{kept['PATH']}"
        return {**kept, "XDG_CONFIG_HOME": str(self.home / "config"), "PATH": path}

    def does(self, *arguments: str, code: int = 0, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.program, *arguments],
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
        """``stop_all_of`` ends it too, where a test that fails leaves it running."""
        begun = subprocess.Popen(
            [self.program, *arguments],
            env={**self.environment, "PYTHONUNBUFFERED": "1", **env},
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        _begun.append(begun)
        return begun


def laptop_of(portal: Portal, home: Path) -> Laptop:
    """Signed in as mira, whose folder has a script, its data and a file that stays behind."""
    portal.http.put("/user", json={"username": "mira", "password": SECRET, "admin": False, "modify": False})
    laptop = Laptop(home, portal.url, installed(portal.url, portal.home.with_name(f"{portal.home.name}-laptop")))
    (laptop.project / "data").mkdir(parents=True)
    (laptop.project / "data" / "in.txt").write_text("what goes in\n")
    (laptop.project / "train.sh").write_text(ENDS)
    (laptop.project / ".longshoreignore").write_text("*.bin\n")
    (laptop.project / "model.bin").write_bytes(bytes(1000))
    said = laptop.does("login", portal.url, "--user", "mira", LONGSHORE_PASSWORD=SECRET).stderr
    assert f"Signed in to {portal.url} as mira" in said and SECRET not in said
    return laptop


@cache
def installed(url: str, there: Path) -> Path:
    """The programs of the portal's wheel, in a new environment. What the wheel needs comes from ours: without a network
    too, and nothing of which the wheel does not say that it needs it."""
    answer = httpx.get(f"{url}/clients", follow_redirects=True)
    wheel = there / answer.url.path.rpartition("/")[2]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", there], check=True)
    wheel.write_bytes(answer.content)
    python = there / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python]
    subprocess.run([*uv, wheel], check=True)
    (packages,) = there.glob("lib/python*/site-packages")
    (mine,) = Distribution.discover(name="longshore", path=[str(packages)])
    _add_needs(mine, packages, set())
    return there / "bin"


def _add_needs(of: Distribution, packages: Path, done: set[str]) -> None:
    for need in map(Requirement, of.requires or []):
        if need.name in done or (need.marker and not need.marker.evaluate({"extra": ""})):
            continue
        done.add(need.name)
        found = distribution(need.name)
        for file in found.files or []:
            if ".." not in file.parts and file.suffix != ".pyc":
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), packages / file)
        _add_needs(found, packages, done)


def stop_all_of(portal: Portal) -> None:
    while _begun:
        with _begun.pop() as each:
            each.kill()
    for job in portal.get("/jobs"):
        if job["state"] in ("WAITING", "RUNNING"):
            portal.http.put(f"/user/{job['username']}/jobs/{job['name']}/executionType", json={"value": "STOP"})


def begin(laptop: Laptop, name: str, script: str = GOES_ON, image: str = IMAGE[1]) -> str:
    """A job that runs until it is stopped."""
    (laptop.project / "train.sh").write_text(script)
    laptop.does("run", "-d", "--name", name, "--image", image, *IMAGE[2:], "--", "sh", "train.sh")
    until(lambda: "began" in laptop.does("logs", name).stdout, 40, 0.3, f"{name} runs")
    return name
