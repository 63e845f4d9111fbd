"""``make test``: lint and all rings side by side, since most of them wait; told at the end in pytest's own words.

    python -m tests.lanes                     everything
    python -m tests.lanes pages postgres      these lanes
    python -m tests.lanes tests/unit -x       lint, then one pytest with these arguments

A lane is one process of pytest with the engines, the database and the browser of its own session.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bed import docker_bed, hdfs_bed, kubernetes_bed, postgres_bed

ROOT = Path(__file__).resolve().parents[1]
MARK = "TEST_LANES"  # in the environment of everything that a run starts, with its process id
ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": ""}  # to compile all tests takes twice as long as to collect them
ENGINES = 4  # lanes that share the acceptance tests
# How long a file of the acceptance tests takes beside the others, where it is not some twenty.
LONG = {
    "test_broken_off.py": 75,
    "test_chaos.py": 180,
    "test_clients.py": 40,
    "test_code_docker.py": 50,
    "test_docker_runtime.py": 100,
    "test_docker_trouble.py": 40,
    "test_examples.py": 60,
    "test_files_and_ssh.py": 50,
    "test_hdfs_store.py": 140,
    "test_hold_docker.py": 65,
    "test_main_job.py": 65,
    "test_pai_fs.py": 110,
    "test_store_dies.py": 55,
    "test_two_nodes.py": 135,
    "test_up.py": 50,
    "test_webhdfs_clients.py": 145,
}
# Files that share a lane, with its HDFS or its portal: to start one takes ten seconds of the machine.
TOGETHER = (
    ("test_code_docker.py", "test_hdfs_store.py", "test_store_dies.py", "test_webhdfs_clients.py"),
    ("test_examples.py", "test_files_and_ssh.py", "test_pai_fs.py"),
    ("test_extras_docker.py", "test_main_job.py", "test_samples.py", "test_secrets_docker.py", "test_seeds.py"),
)
# What runs on one database only. Sweeps over every route: bodies and queries on the one that is stricter, who may see
# what on the other. Random histories: two schedulers on the one that has several writers, one scheduler on the other.
# And what hardly asks a database.
ON_POSTGRES = ("tests/api/test_fuzz.py", "tests/integration/test_two_schedulers.py")
ON_SQLITE = (
    "tests/api/test_every_route.py",
    "tests/api/test_log.py",
    "tests/api/test_log_html.py",
    "tests/api/test_metrics.py",
    "tests/api/test_old_addresses.py",
    "tests/api/test_openapi.py",
    "tests/api/test_privacy.py",
    "tests/api/test_schemathesis.py",
    "tests/api/test_transport.py",
    "tests/api/test_webhdfs.py",
    "tests/integration/test_delivery.py",
    "tests/integration/test_fake_meter.py",
    "tests/integration/test_fake_runtime.py",
    "tests/integration/test_house.py",
    "tests/integration/test_log_archive.py",
    "tests/integration/test_setup.py",
    "tests/integration/test_simulation.py",
    "tests/integration/test_slow_clients.py",
    "tests/integration/test_watch.py",
)
_FOUND = re.compile(r"(\d+) (failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?)\b")
_RULE = re.compile(r"^=+ (.+?) =+$")


@dataclass
class Lane:
    """``polite``: it computes, so it lets those pass that wait for engines. ``lacks``: why it cannot run here."""

    name: str
    command: list[str]
    settings: dict[str, str] = field(default_factory=dict)
    polite: bool = False
    lacks: str = ""
    output: list[str] = field(default_factory=list)
    cpu: float = 0.0
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        # Whoever starts a lane may be killed: then the kernel interrupts it, and it takes down what it had put up.
        front = ["setpriv", "--pdeathsig", "INT", "nice", "-n", "5" if self.polite else "0"]
        self.process = subprocess.Popen(
            [*front, *self.command],
            cwd=ROOT,
            env={**os.environ, **self.settings, **ENVIRONMENT, MARK: str(os.getpid())},
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

    @property
    def code(self) -> int:
        """As pytest's. A lane that the machine cannot run is skipped like a test, unless it must be run."""
        if self.process is None:
            return int(self.name in os.environ.get("LONGSHORE_REQUIRE", "").split(","))
        return 1 if self.process.returncode is None else self.process.returncode

    def found(self) -> Counter[str]:
        """Numbers by pytest's words. A lane that ended without a summary is an error."""
        told = Counter({word: int(number) for number, word in _FOUND.findall(self.output[-1] if self.output else "")})
        if self.process is None:
            told["skipped"] += not self.code
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


def lanes() -> list[Lane]:
    """The longest first."""
    database = ("tests/integration", "tests/api")
    no_postgres = postgres_bed.missing()
    made = [Lane(f"engine-{nth}", pytest(*files)) for nth, files in enumerate(shares(), 1)]
    made += [
        Lane("kubernetes", pytest("tests/kubernetes"), lacks=kubernetes_bed.missing()),
        Lane("pages", apart(pytest("tests/pages")), polite=True),
        Lane("sqlite", pytest("tests/unit", *database, *([] if no_postgres else without(*ON_POSTGRES))), polite=True),
        Lane("postgres", pytest(*database, *without(*ON_SQLITE)), {"DATABASE_URL": "postgres"}, True, no_postgres),
        Lane("lint", ["scripts/lint"], polite=True),
    ]
    return made


def whole_run(known: dict[str, Lane]) -> list[Lane]:
    """All of them; the cluster, which takes minutes, only where it is required. By its name it runs anyway."""
    if "kubernetes" not in os.environ.get("LONGSHORE_REQUIRE", "").split(","):
        known["kubernetes"].lacks = "it runs where LONGSHORE_REQUIRE names it, or by `make test ARGS=kubernetes`"
    return list(known.values())


def without(*files: str) -> list[str]:
    return [f"--ignore={file}" for file in files]


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]


def apart(command: list[str]) -> list[str]:
    """With a network of its own, where root runs this: Chromium drops what it is loading whenever the machine gets or
    loses an interface, and the engines of other lanes see to that all the time."""
    front = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    return [*(front if os.geteuid() == 0 else []), *command]


def shares() -> list[list[str]]:
    """The files of the acceptance tests, each to the lane with the least to do."""
    times, files = [0] * ENGINES, [[] for _ in range(ENGINES)]  # type: tuple[list[int], list[list[str]]]
    found = {path.name for path in (ROOT / "tests" / "acceptance").glob("test_*.py")}
    together = [*TOGETHER, *((name,) for name in sorted(found.difference(*TOGETHER)))]
    for names in sorted(together, key=lambda names: -_long(names)):
        least = times.index(min(times))
        times[least] += _long(names)
        files[least] += [f"tests/acceptance/{name}" for name in names]
    return files


def _long(names: Iterable[str]) -> int:
    return sum(LONG.get(name, 20) for name in names)


# --- one run ---------------------------------------------------------------------------------------------------------


def run(chosen: list[Lane]) -> int:
    began, parent = time.monotonic(), os.getppid()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # SIGINT too: a shell's "&" has it ignored
        signal.signal(ending, _interrupt)
    try:
        waiting = [lane for lane in chosen if not lane.lacks]
        for lane in waiting:
            lane.start()
        while waiting:
            for lane in [lane for lane in waiting if lane.ended()]:
                waiting.remove(lane)
                print(f"{lane.name:>9}  {_last(lane)}", flush=True)
            if os.getppid() != parent:
                raise KeyboardInterrupt  # nobody waits for the answer any more
            time.sleep(0.1)
    except KeyboardInterrupt:
        _break_off(chosen)
        print("!!! interrupted; every lane has taken down what it had put up !!!")
        return 130
    finally:
        left = sweep()
    return tell(chosen, left, time.monotonic() - began)


def _last(lane: Lane) -> str:
    said = lane.output[-1].strip(" =\n") if lane.output else "it said nothing"
    return f"ended with {lane.code}: {said} ({lane.cpu:.0f} s of CPU)"


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _break_off(started: list[Lane]) -> None:
    """As Ctrl-C does in each lane; a second interrupt, or a minute without an end, kills."""
    try:
        for lane in started:
            lane.signal(signal.SIGINT)
        _wait(lambda: all(lane.process is None or lane.ended() for lane in started), 60)
    except KeyboardInterrupt:
        pass
    for lane in started:
        lane.signal(signal.SIGKILL)


def tell(told: list[Lane], left: Iterable[str], seconds: float) -> int:
    """What failed, what was skipped, and how many of what: one line as of one pytest."""
    for lane in told:
        if lane.process and lane.code and not (parts := lane.part("ERRORS", "FAILURES")):
            print(f"\n----- {lane.name} ended with {lane.code} -----\n{''.join(lane.output[-60:])}", end="")
        elif lane.process and lane.code:
            print(f"\n----- {lane.name} -----\n{parts}", end="")
    for lane in told:
        print(lane.part("warnings summary"), end="")
    print("=" * 30 + " short test summary info " + "=" * 30)
    for lane in told:
        print("".join(lane.part("short test summary info").splitlines(keepends=True)[1:]), end="")
        if lane.lacks:
            print(f"{'ERROR' if lane.code else 'SKIPPED [1]'} the lane {lane.name}: {lane.lacks}")
    sums = sum((lane.found() for lane in told), Counter())
    for line in left:
        print(f"ERROR left running by a test: {line}")
        sums["error"] += 1
    words = (
        "failed",
        "passed",
        "skipped",
        "deselected",
        "xfailed",
        "xpassed",
        "warning",
        "warnings",
        "error",
        "errors",
    )
    numbers = ", ".join(f"{sums[word]} {word}" for word in words if sums[word])
    print(f" {numbers} in {seconds:.2f}s ({seconds // 60:.0f} min {seconds % 60:.0f} s) ".center(85, "="))
    return int(any(lane.code not in (0, 5) for lane in told) or bool(sums["error"]))


# --- nothing is left -------------------------------------------------------------------------------------------------


def sweep() -> list[str]:
    """Ends what this run has left behind, and says what that was."""
    _wait(lambda: not _ours(), 5)
    left = _ours()
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for bed in (docker_bed, hdfs_bed, kubernetes_bed, postgres_bed):
        bed.bury_the_dead()
    return sorted(left.values())


def _ours() -> dict[int, str]:
    mark = f"\0{MARK}={os.getpid()}\0".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in b"\0" + (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
    return {pid: line for pid, line in found.items() if line}


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)


def main(arguments: list[str]) -> int:
    known = {lane.name: lane for lane in lanes()}
    if all(name in known for name in arguments):
        return run([known[name] for name in arguments] or whole_run(known))
    lint = subprocess.run(["scripts/lint"], cwd=ROOT).returncode
    signal.signal(signal.SIGTERM, _interrupt)
    tests = subprocess.Popen([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    try:
        return tests.wait() or lint
    except KeyboardInterrupt:
        tests.send_signal(signal.SIGINT)
        return tests.wait() or 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
