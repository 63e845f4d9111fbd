"""The drawing is kept: who may import whom, which files are pure, how long a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = ("portal", "clusters", "jobs")
LONGEST = 400  # lines; a table of cases or a script may be somewhat longer
LONGEST_TABLE = 500
BELOW = {"portal": (), "clusters": ("portal",), "jobs": ("clusters", "portal")}

# Values in, values out: what these need of the world is given to them.
PURE = (
    "portal/core/errors.py",
    "portal/files/store/base.py",
    "clusters/placement/fit.py",
    "clusters/placement/blockers.py",
    "clusters/engines/image_names.py",
    "clusters/engines/runtime.py",
    "jobs/config/jsonc.py",
    "jobs/config/spec.py",
    "jobs/config/coerce.py",
    "jobs/config/problems.py",
    "jobs/config/v1_words.py",
    "jobs/containers/environment.py",
    "jobs/containers/bootstrap.py",
    "jobs/containers/launch.py",
    "jobs/planning/lifecycle.py",
    "jobs/planning/exits.py",
    "jobs/planning/exit_table.py",
    "jobs/planning/world.py",
    "jobs/config/demands.py",
    "jobs/planning/settle.py",
    "jobs/planning/verdict.py",
    "jobs/planning/planner.py",
)
IMPURE = {
    *("django", "rest_framework", "docker", "hdfs", "paramiko", "requests", "httpx", "urllib", "http", "socket", "ssl"),
    *("random", "secrets", "uuid", "time", "subprocess", "threading", "asyncio", "select", "os", "tempfile", "shutil"),
}
CLOCKS = re.compile(r"\b(?:datetime|date)\.(?:now|utcnow|today)\(")

# In an app: skins (what a request, an order or a command line meets) are above services, queries and pure files.
SKIN = re.compile(r"(\w+_)?(api|views|page|pages|stream|tasks|admin|urls|api_urls|management|apps)")

# A library that only the named files may import.
EDGES = {
    "docker": re.compile(r"clusters/docker_\w+\.py"),
    "paramiko": re.compile(r"clusters/docker_\w+\.py"),
    "hdfs": re.compile(r"portal/files/store/hdfs\.py"),
}


def product() -> Iterator[Path]:
    for app in APPS:
        yield from sorted(path for path in (ROOT / app).rglob("*.py") if "migrations" not in path.parts)


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Dotted names of everything the file imports, also inside functions; not what only type checkers read."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_arrows_between_apps_point_down() -> None:
    wrong = []
    for path in product():
        app = path.relative_to(ROOT).parts[0]
        upward = set(APPS) - {app, *BELOW[app]}
        wrong += [f"{named(path)} imports {name}" for name in imports(path) if name.split(".")[0] in upward]
    assert wrong == []


def test_services_and_all_below_know_nothing_of_pages_and_api() -> None:
    wrong = []
    for path in product():
        app, inner = path.relative_to(ROOT).with_suffix("").parts[:2]
        if app == "portal" or SKIN.fullmatch(inner):
            continue
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == app and len(parts) > 1 and SKIN.fullmatch(parts[1]):
                wrong.append(f"{named(path)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("name", PURE)
def test_a_pure_file_imports_nothing_of_the_world(name: str) -> None:
    path = ROOT / name
    assert [found for found in imports(path) if found.split(".")[0] in IMPURE] == []
    assert CLOCKS.search(path.read_text()) is None


@pytest.mark.parametrize("name", PURE)
def test_a_pure_file_imports_only_pure_files_of_ours(name: str) -> None:
    ours = [found for found in imports(ROOT / name) if found.split(".")[0] in APPS]
    wrong = [found for found in ours if not any(found.startswith(pure[:-3].replace("/", ".")) for pure in PURE)]
    assert wrong == []


@pytest.mark.parametrize("library", EDGES)
def test_a_library_is_imported_only_at_its_edge(library: str) -> None:
    wrong = [
        named(path)
        for path in product()
        if any(name.split(".")[0] == library for name in imports(path)) and not EDGES[library].fullmatch(named(path))
    ]
    assert wrong == []


def test_no_file_is_longer_than_one_can_read_at_once() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in ours()}
    assert {named(path): lines for path, lines in lengths.items() if lines > most(path)} == {}


def test_no_file_names_a_path_of_one_machine() -> None:
    machine = re.compile(r"(?<![\w./$}])/(?:work|home/[a-z]+|Users|opt/pypi[\w-]*)/(?=\w)")
    assert [named(path) for path in ours() if machine.search(path.read_text())] == []


def most(path: Path) -> int:
    return LONGEST if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in APPS else LONGEST_TABLE


def ours() -> Iterator[Path]:
    """Every file of the project written by hand, as git knows them; without a repository, all of the three apps."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [named(path) for path in product()]
    paths = [ROOT / name for name in names if not re.search(r"(^|/)(vendor|migrations|seeds)/", name)]
    yield from (path for path in paths if path.suffix in {".py", ".sh", ".js", ".html", ""} and path.is_file())
