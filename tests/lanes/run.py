"""A run: a few lanes at a time, what failed once more alone, and all of it told in pytest's own words."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.bed import docker_bed, hdfs_bed, kubernetes_bed, postgres_bed
from tests.helpers import awaited
from tests.lanes.lane import MARK, Lane
from tests.lanes.seconds import learn

AT_ONCE = len(os.sched_getaffinity(0)) + 2  # lanes: they wait about as much as they compute
AGAIN = 12  # of more failures none is tried again: something is broken
STEADY = 3  # so many tests may fail beside others and pass alone; with more the gate is red
# Files whose tests build on each other are tried again as a whole.
WHOLE = ("test_broken_off.py", "test_several_hosts.py", "test_up.py")
_WORDS = ("failed", "unsteady", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "error")

Unsteady = dict[str, set[str]]
"""The tests that failed beside others and passed alone, by the name of their lane."""


def run(chosen: list[Lane], *, of: str = "gate", at_once: int = AT_ONCE) -> int:
    """0 when all is well, 130 when it was interrupted. Lanes start in their order, as soon as there is room. ``of`` is
    the kind of run: in the gate more unsteady tests than a few are not well, in "all" they are only told."""
    began = time.monotonic()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # SIGINT too: a shell's "&" has it ignored
        signal.signal(ending, interrupt)
    unsteady: Unsteady = {}
    interrupted = False
    try:
        _all(chosen, at_once)
        unsteady = _try_again(chosen)
    except KeyboardInterrupt:
        _break_off(chosen)
        interrupted = True
    finally:
        left = clean_up()
    if not interrupted:
        learn({file: took for lane in chosen if lane.good for file, took in lane.seconds().items()}, of=of)
    code = tell(chosen, unsteady, left, time.monotonic() - began, interrupted)
    if interrupted:
        print("!!! interrupted; every lane has taken down what it had put up !!!")
        return 130
    if of == "gate" and (number := sum(map(len, unsteady.values()))) > STEADY:
        print(f"ERROR {number} tests are unsteady, and {STEADY} may be: mend what makes them hang on the load")
        return 1
    return code


def _all(chosen: list[Lane], at_once: int) -> None:
    parent = os.getppid()
    waiting = [lane for lane in chosen if not lane.lacks]
    running: list[Lane] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0))
            running[-1].start()
        ended = [lane for lane in running if lane.ended()]
        for lane in running:
            for line in lane.new_progress():  # what it found is told at the end of the run
                print(f"{lane.name:>9}  {line}", flush=True)
            for kind, test in lane.new_failures():  # at once: whoever kills a run still knows what had failed
                print(f"{lane.name:>9}  {kind.upper()} {test}", flush=True)
        for lane in ended:
            running.remove(lane)
            print(f"{lane.name:>9}  {_last(lane)}", flush=True)
        if os.getppid() != parent:
            raise KeyboardInterrupt  # nobody waits for the answer any more
        time.sleep(0.1)


def _try_again(told: list[Lane]) -> Unsteady:
    """Each test that failed once more, in a process of its own while nothing else runs."""
    failed = list(dict.fromkeys((lane.name, test) for lane in told if not lane.sure for _, test in lane.failures()))
    if len(failed) > AGAIN:
        return {}
    by_name = {lane.name: lane for lane in told}
    passes = {
        (name, what): _passes_alone(by_name[name], what)
        for name, what in dict.fromkeys((name, _what(test)) for name, test in failed)
    }
    unsteady: Unsteady = {}
    for name, test in failed:
        if passes[name, _what(test)]:
            unsteady.setdefault(name, set()).add(test)
    return unsteady


def _what(test: str) -> str:
    """What is to run when this test failed: the test, or its file."""
    file = test.partition("::")[0]
    return file if file.endswith(WHOLE) else test


def _passes_alone(lane: Lane, what: str) -> bool:
    once = lane.again(what)
    once.start()
    try:
        awaited(once.ended, 900)
    except KeyboardInterrupt:
        once.interrupt()
        awaited(once.ended)
        raise
    finally:
        once.signal(signal.SIGKILL)
    passed = once.code == 0 and once.found()["passed"] > 0
    print(f"    again  {what} ({lane.name}): {'passes alone' if passed else 'fails alone too'}", flush=True)
    if not passed:
        print(once.part("ERRORS", "FAILURES") or "".join(once.output[-60:]), flush=True)
    return passed


def _last(lane: Lane) -> str:
    said = (lane.output or ["it said nothing"])[-1].strip(" =\n")
    return f"ended with {lane.code}: {said} ({lane.cpu:.0f} s of CPU)"


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _break_off(started: list[Lane]) -> None:
    """As Ctrl-C does in each lane; a second interrupt, or a minute without an end, as ``until`` counts, kills."""
    try:
        for lane in started:
            lane.interrupt()
        awaited(lambda: all(lane.process is None or lane.ended() for lane in started))
    except KeyboardInterrupt:
        pass
    for lane in started:
        lane.signal(signal.SIGKILL)


def tell(told: list[Lane], unsteady: Unsteady, left: Iterable[str], seconds: float, interrupted: bool = False) -> int:
    """What failed, what was skipped, and how many of what: one line as of one pytest. 1 where the run has failed."""
    for lane in told:
        if lane.process is None or lane.good:
            continue
        if parts := lane.part("ERRORS", "FAILURES"):
            print(f"\n----- {lane.name} -----\n{parts}", end="")
        elif not interrupted:
            print(f"\n----- {lane.name} ended with {lane.code} -----\n{''.join(lane.output[-60:])}", end="")
    for lane in told:
        print(lane.part("warnings summary"), end="")
    print("=" * 30 + " short test summary info " + "=" * 30)
    sums = sum((lane.found() for lane in told), Counter[str]())
    for lane in told:
        excused = unsteady.get(lane.name, set())
        for line in lane.part("short test summary info").splitlines()[1:]:
            if not line.startswith(("FAILED", "ERROR")):
                print(line)
        for kind, test in lane.failures():
            if test in excused:
                sums[kind] -= 1
            else:
                print(f"{kind.upper()} {test} ({lane.name})")
        for test in sorted(excused):
            print(f"UNSTEADY {test} ({lane.name}): it failed beside others and passes alone")
        if lane.lacks:
            print(f"{'ERROR' if lane.code else 'SKIPPED [1]'} the lane {lane.name}: {lane.lacks}")
    for line in left:
        print(f"ERROR left running by a test: {line}")
        sums["error"] += 1
    sums["unsteady"] = sum(len(tests) for tests in unsteady.values())
    if sums["unsteady"] > STEADY:
        print(
            f"ERROR {sums['unsteady']} tests are unsteady, and {STEADY} may be: mend what makes them hang on the load"
        )
    numbers = ", ".join(f"{sums[word]} {word}" for word in _WORDS if sums[word])
    print(f" {numbers} in {seconds:.2f}s ({seconds // 60:.0f} min {seconds % 60:.0f} s) ".center(85, "="))
    bad = any(not lane.good and not _excused(lane, unsteady) for lane in told)
    return int(bad or sums["error"] > 0)


def _excused(lane: Lane, unsteady: Unsteady) -> bool:
    """All that was wrong with it is tests which pass alone. What broke off, and what is no pytest, is not excused."""
    failed = {test for _, test in lane.failures()}
    return lane.code == 1 and bool(failed) and failed <= unsteady.get(lane.name, set())


# --- nothing is left -------------------------------------------------------------------------------------------------


def clean_up() -> list[str]:
    """Ends what this run has left behind, and says what that was."""
    awaited(lambda: not _ours())
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
