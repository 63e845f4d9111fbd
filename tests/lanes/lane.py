"""One lane of a run: a process whose output is kept, and which tells at once what failed in it."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from tests.lanes.told import FAILURES, SECONDS

ROOT = Path(__file__).resolve().parents[2]
MARK = "TEST_LANES"  # in the environment of everything that a run starts, with its process id
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.lanes.told")
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": ""}  # to compile all tests takes twice as long as to collect them
_FOUND = re.compile(r"(\d+) (failed|passed|skipped|deselected|xfailed|xpassed|warning|error)s?\b")
_RULE = re.compile(r"^=+ (.+?) =+$")


class Failure(NamedTuple):
    """``kind``: ``failed``, or ``error`` where a fixture failed; ``test``: pytest's name of it."""

    kind: str
    test: str


@dataclass
class Lane:
    """``program`` with ``tests`` as its last arguments, in ``folder``. ``polite``: it computes, so it lets those pass
    that wait for engines. ``lacks``: why it cannot run here. ``sure``: nothing in it hangs on the load, so that what
    fails is not tried again."""

    name: str
    tests: list[str]
    settings: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = PYTEST
    polite: bool = False
    lacks: str = ""
    sure: bool = False
    folder: Path = ROOT
    output: list[str] = field(default_factory=list)
    cpu: float = 0.0
    process: subprocess.Popen[str] | None = None
    _shown: int = 0

    def again(self, test: str) -> Lane:
        """A lane with this test or file alone, which has run nothing yet."""
        return replace(self, name="again", tests=[test], output=[], cpu=0.0, process=None, _shown=0)

    def start(self) -> None:
        self._told = tempfile.NamedTemporaryFile(prefix="failures.")
        self._took = tempfile.NamedTemporaryFile(prefix="seconds.")
        # Whoever starts a lane may be killed: then the kernel interrupts it, and it takes down what it had put up.
        front = ["setpriv", "--pdeathsig", "INT", "nice", "-n", "5" if self.polite else "0"]
        self.process = subprocess.Popen(
            [*front, *self.program, *self.tests],
            cwd=self.folder,
            env={
                **os.environ,
                **self.settings,
                **_ENVIRONMENT,
                MARK: str(os.getpid()),
                FAILURES: self._told.name,
                SECONDS: self._took.name,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Shows how far it is, file by file; what it found is told at the end of the run."""
        assert self.process is not None and self.process.stdout is not None
        telling = True
        for line in self.process.stdout:
            self.output.append(line)
            telling = (telling and not _RULE.match(line.rstrip("\n"))) or "test session starts" in line
            if telling and re.match(r"tests/\S+ \S", line):
                print(f"{self.name:>9}  {line}", end="", flush=True)

    def ended(self) -> bool:
        """``cpu``: seconds of CPU of everything that it waited for itself."""
        assert self.process is not None
        before = _cpu()
        if self.process.poll() is None:
            return False
        self.cpu = self.cpu or _cpu() - before
        self._reader.join(5)
        return True

    def signal(self, which: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(which)

    def interrupt(self) -> None:
        self.signal(signal.SIGINT)

    @property
    def code(self) -> int:
        """As pytest's. A lane that the machine cannot run is skipped like a test, unless it must be run."""
        if self.process is None:
            return int(bool(self.lacks) and self.name in os.environ.get("LONGSHORE_REQUIRE", "").split(","))
        return 1 if self.process.returncode is None else self.process.returncode

    @property
    def good(self) -> bool:
        """Nothing failed in it: pytest ends with 5 where it had nothing to do."""
        return self.code in (0, 5)

    def failures(self) -> list[Failure]:
        """What failed in it so far, each as often as it was reported."""
        if self.process is None:
            return []
        pairs = (line.split(" ", 1) for line in Path(self._told.name).read_text().splitlines())
        return [Failure(kind, test) for kind, test in pairs]

    def seconds(self) -> dict[str, float]:
        """How long each file took; nothing where it broke off."""
        told = Path(self._took.name).read_text() if self.process is not None else ""
        found: dict[str, float] = json.loads(told or "{}")
        return found

    def new_failures(self) -> list[Failure]:
        """Those that this has not given before."""
        found = self.failures()
        new, self._shown = found[self._shown :], len(found)
        return new

    def found(self) -> Counter[str]:
        """Numbers by pytest's words. A lane that ended without a summary is an error."""
        told = Counter({word: int(number) for number, word in _FOUND.findall(self.output[-1] if self.output else "")})
        if self.process is None:
            told["skipped"] += bool(self.lacks) and not self.code
        return told if told or not self.code else Counter({"error": 1})

    def part(self, *titles: str) -> str:
        """Its sections of these titles, in pytest's order."""
        kept, keeping = [], False
        for line in self.output[:-1]:
            if rule := _RULE.match(line.rstrip("\n")):
                keeping = rule[1] in titles
            if keeping:
                kept.append(line)
        return "".join(kept)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
