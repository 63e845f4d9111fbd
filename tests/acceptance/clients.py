"""The older system's own clients, as their users install them, each with a home folder of its own.

``scripts/setup test`` installs them, pinned and hashed: requirements/clients.txt and tests/clients/package-lock.json.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import LIMIT

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "tests" / "clients"
INSTALLED = ROOT / ".venv" / "clients"
PAICLI = INSTALLED / "paicli" / "bin" / "pai"
# What prompt-toolkit 1, which paicli asks for, finds in no Python after 3.9.
_OF_2018 = "import collections, collections.abc\nvars(collections).update(vars(collections.abc))\n"


def missing(reason: str) -> None:
    """Skips, or fails when LONGSHORE_REQUIRE names ``clients``."""
    if "clients" in os.environ.get("LONGSHORE_REQUIRE", "").split(","):
        pytest.fail(f"LONGSHORE_REQUIRE asks for clients: {reason}")
    pytest.skip(reason)


class Home:
    """A person's home folder with programs in it; nothing outside is read or written by them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str | Path, typed: str = "") -> str:
        """What it said. Fails when it did."""
        done = self.attempt(*command, typed=typed)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, *command: str | Path, typed: str = "") -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "NO_PROXY": "*"}
        return subprocess.run(
            list(map(str, command)),
            cwd=self.folder,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )


class JsSdk(Home):
    """npm's ``@microsoft/openpai-js-sdk``: its v1 class by ``call``, its command line by ``pai``."""

    cluster: dict[str, str]

    @classmethod
    def install(cls, folder: Path) -> JsSdk:
        if not (INSTALLED / "js" / "node_modules").is_dir() or not shutil.which("node"):
            missing("the JavaScript client is not installed (npm, then scripts/setup test)")
        shutil.copytree(INSTALLED / "js", folder, symlinks=True, dirs_exist_ok=True)
        shutil.copy(FILES / "v1.js", folder)
        return cls(folder)

    def call(self, client: str, method: str, *arguments: Any) -> dict[str, Any]:
        """{"value"} or {"status", "body", "message"}."""
        asked = {"cluster": self.cluster, "client": client, "method": method, "arguments": arguments}
        said: dict[str, Any] = json.loads(self.run("node", "v1.js", json.dumps(asked)))
        return said

    def value(self, client: str, method: str, *arguments: Any) -> Any:
        answer = self.call(client, method, *arguments)
        assert "value" in answer, answer
        return answer["value"]

    def pai(self, *arguments: str) -> str:
        """Its program says errors and ends with 0 all the same: the caller looks at what it says."""
        done = self.attempt("node", "node_modules/.bin/pai", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


class PaiCli(Home):
    """PyPI's ``paicli``."""

    @classmethod
    def install(cls, folder: Path) -> PaiCli:
        if not PAICLI.exists():
            missing("paicli is not installed (scripts/setup test)")
        (site,) = (INSTALLED / "paicli" / "lib").glob("python*/site-packages")
        (site / "sitecustomize.py").write_text(_OF_2018)
        return cls(folder)

    def pai(self, *arguments: str, typed: str = "") -> str:
        return self.run(PAICLI, *arguments, typed=typed)
