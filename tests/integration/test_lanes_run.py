"""What a run of the tests says when lanes fail, fail once, break off or are interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import until
from tests.lanes import seconds
from tests.lanes.lane import ROOT, Lane
from tests.lanes.run import AGAIN, STEADY, run

RUN = """
import sys
from pathlib import Path
from tests.integration.test_lanes_run import lanes_in
from tests.lanes.run import run
sys.exit(run(lanes_in(Path.cwd()), at_once=1))
"""
PASSES = "def test_it(): pass"
FAILS = "def test_it(): assert 1 == 2, 'always'"
FAILS_ONCE = """
from pathlib import Path
import pytest
@pytest.fixture
def part(): {part}
@pytest.mark.parametrize("nth", range({times}))
def test_it(nth, part): {test}
def once(nth=0):
    seen = Path(f"{{Path(__file__).stem}}-{{nth}}")
    assert seen.exists() or seen.write_text("") != 0, "the first time"
"""


Ran = Callable[..., tuple[int, str]]


def lanes_in(folder: Path) -> list[Lane]:
    tests, programs = sorted(folder.glob("test_*.py")), sorted(folder.glob("*.sh"))
    lanes = [Lane(path.stem, [path.name], folder=folder, sure="sure" in path.stem) for path in tests]
    return lanes + [Lane(path.stem, [], program=("sh", path.name), folder=folder) for path in programs]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        folder.joinpath(name.replace("__", ".") if "__" in name else f"test_{name}.py").write_text(text)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Ran]:
    """Runs lanes with these files, in this process, which knows the modules already: its code and what it said."""
    for name in [name for name in os.environ if name.startswith(("TEST_", "PYTEST_", "DJANGO_"))]:
        monkeypatch.delenv(name)
    for name, value in {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(seconds, "CACHE", tmp_path / "seconds.json")
    before = {ending: signal.getsignal(ending) for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def ran(**files: str) -> tuple[int, str]:
        write(tmp_path, files)
        return run(lanes_in(tmp_path), at_once=1), capsys.readouterr().out

    yield ran
    for ending, handler in before.items():
        signal.signal(ending, handler)


def started(folder: Path, **files: str) -> subprocess.Popen[str]:
    """The same as a process, which can be interrupted."""
    write(folder, files)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("TEST_", "PYTEST_", "DJANGO_"))}
    return subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env={
            **ours,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "HOME": str(folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def fails_once(times: int = 1, *, part: bool = False) -> str:
    return FAILS_ONCE.format(times=times, part="once()" if part else "pass", test="pass" if part else "once(nth)")


def test_what_passes_is_counted_over_all_lanes(ran: Ran) -> None:
    code, said = ran(one=PASSES, two=PASSES)
    assert code == 0 and " 2 passed in " in said


@pytest.mark.parametrize("part", [False, True])
def test_what_fails_beside_others_and_passes_alone_is_unsteady_and_fails_no_run(ran: Ran, part: bool) -> None:
    code, said = ran(once=fails_once(part=part), fine=PASSES)
    assert code == 0, said
    assert "UNSTEADY test_once.py::test_it[0] (test_once): it failed beside others and passes alone" in said
    assert " 1 unsteady, 1 passed in " in said
    assert "\nFAILED" not in said and "\nERROR" not in said


def test_what_fails_twice_fails_the_run_and_both_are_told(ran: Ran) -> None:
    code, said = ran(bad=FAILS, once=fails_once())
    assert code == 1
    assert "\nFAILED test_bad.py::test_it (test_bad)" in said and "always" in said
    assert "UNSTEADY test_once.py" in said and " 1 failed, 1 unsteady in " in said


def test_where_nothing_hangs_on_the_load_what_failed_has_failed(ran: Ran) -> None:
    code, said = ran(sure=fails_once(), once=fails_once())
    assert code == 1 and "\nFAILED test_sure.py::test_it[0] (test_sure)" in said
    assert "UNSTEADY test_once.py" in said and " 1 failed, 1 unsteady in " in said


def test_more_unsteady_tests_than_a_few_fail_the_run(ran: Ran) -> None:
    code, said = ran(once=fails_once(STEADY + 1))
    assert code == 1 and f"{STEADY + 1} tests are unsteady, and {STEADY} may be" in said


def test_where_much_fails_nothing_is_tried_again(ran: Ran) -> None:
    code, said = ran(once=fails_once(AGAIN + 1))
    assert code == 1 and f" {AGAIN + 1} failed in " in said and "again " not in said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("end", "import os\ndef test_it(): os._exit(1)"),
        ("end", "import nothing"),
        ("end__sh", "echo 1 warning; exit 1"),
    ],
)
def test_what_breaks_off_is_not_excused_by_tests_that_pass_alone(ran: Ran, name: str, text: str) -> None:
    code, said = ran(**{name: text, "once": fails_once()})
    assert code == 1 and "UNSTEADY test_once.py" in said


def test_a_lane_whose_tests_were_not_even_found_is_not_excused_by_their_file_alone(ran: Ran) -> None:
    code, said = ran(once=fails_once() + "once()")
    assert code == 1 and "UNSTEADY test_once.py (test_once)" in said


def test_one_that_passes_alone_excuses_no_other_of_its_lane(ran: Ran) -> None:
    code, said = ran(both=fails_once() + FAILS.replace("test_it", "test_other"))
    assert code == 1 and "UNSTEADY test_both.py::test_it[0]" in said and "\nFAILED test_both.py::test_other" in said


def test_an_interrupted_run_tells_what_had_failed_and_starts_no_other_lane(tmp_path: Path) -> None:
    waits = "from pathlib import Path\nimport signal\ndef test_it(): Path('waits').touch(); signal.pause()"
    run = started(tmp_path, bad=FAILS, more=waits, then="from pathlib import Path\nPath('then').touch()")
    until((tmp_path / "waits").exists)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate()
    assert run.returncode == 130 and "interrupted" in said
    assert "\nFAILED test_bad.py::test_it (test_bad)" in said and "always" in said
    assert not (tmp_path / "then").exists()
