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
    cpu: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    _shown: int = 0

    def again(self, test: str) -> Lane:
        """A lane with this test or file alone, which has run nothing yet."""
        return replace(self, name="again", tests=[test], cpu=0.0, process=None, _shown=0)

    def start(self) -> None:
        self._said, self._rest, self._telling = tempfile.NamedTemporaryFile(prefix="said."), "", True
        self._told = tempfile.NamedTemporaryFile(prefix="failures.")
        self._took = tempfile.NamedTemporaryFile(prefix="seconds.")
        # Whoever starts a lane may be killed: then the kernel interrupts it, and it takes down what it had put up.
        front = ["setpriv", "--pdeathsig", "INT", "nice", "-n", "5" if self.polite else "0"]
        with open(self._said.name, "ab") as said:
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
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> list[str]:
        """The lines that it has said so far."""
        if self.process is None:
            return []
        with open(self._said.name, errors="replace") as said:
            return said.readlines()

    def new_progress(self) -> list[str]:
        """The lines that say how far it is, file by file, which this has not given before."""
        *lines, self._rest = (self._rest + self._said.read().decode(errors="replace")).split("\n")
        new = []
        for line in lines:
            self._telling = (self._telling and not _RULE.match(line)) or "test session starts" in line
            if self._telling and re.match(r"tests/\S+ \S", line):
                new.append(line)
        return new

    def ended(self) -> bool:
        """``cpu``: seconds of CPU of everything that it waited for itself."""
        assert self.process is not None
        before = _cpu()
        if self.process.poll() is None:
            return False
        self.cpu = self.cpu or _cpu() - before
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
