"""The drawing is kept: who may import whom, which files are pure, how long a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = ("portal", "clusters", "jobs")
LONGEST = 400  # lines; a table of cases or a script may be somewhat longer
LONGEST_TABLE = 500

# The rooms from the ground up. A room is a folder, or a file that lies flat in an app; a file may import its own room
# and those above it in this list, which stand below it in the house.
FLOORS = """
    portal.core
    portal.models
    portal.database
    portal.settings
    portal.lean_settings
    portal.hosts
    portal.wakes
    portal.web
    portal.accounts
    portal.files
    portal.overview
    clusters.models
    clusters.engines
    clusters.placement
    clusters.nodes
    clusters.vcs
    clusters.users
    clusters.first_start
    clusters.urls clusters.api_urls clusters.api_v2_urls clusters.apps
    jobs.models
    jobs.config
    jobs.planning
    jobs.secrets
    jobs.queries
    jobs.logs
    jobs.metrics
    jobs.diagnosis
    jobs.containers
    jobs.access
    jobs.terminal
    jobs.history
    jobs.attempts
    jobs.dependencies
    jobs.admission
    jobs.scheduling
    jobs.order
    jobs.forecast
    jobs.replay
    jobs.services
    jobs.rewind
    jobs.submitting
    jobs.checking
    jobs.versions
    jobs.answers
    jobs.pages
    jobs.api
    jobs.views
    jobs.reports
    jobs.policy
    jobs.plots
    jobs.web_apps
    jobs.sweeps
    jobs.apps jobs.management
    portal.backup
    portal.checks portal.context portal.first_start portal.health portal.supervisor
    portal.backup
    portal.urls
    portal.asgi portal.apps portal.management
"""
ALONE = "portal.pai_fs"  # the client: it imports nothing of ours, and nobody imports it
FLAT = 12  # files in one folder; more ask for a room of their own
CROWDED = {
    "clusters/engines/docker": 15,
    "clusters/engines/kubernetes": 15,
    "clusters/users": 13,
    "jobs/api": 18,
    "jobs/containers": 14,
    "jobs/pages": 13,
    "jobs/planning": 13,
    "jobs/views": 14,
}

# Values in, values out: what these need of the world is given to them. Whole rooms, and files; what says in its head
# that it is pure must be here.
PURE = (
    "clusters/placement/",
    "jobs/config/",
    "jobs/planning/",
    "jobs/checking/plan.py",
    "clusters/engines/attach.py",
    "clusters/engines/docker/meter/stats.py",
    "clusters/engines/docker/seen.py",
    "clusters/engines/docker/status.py",
    "clusters/engines/image_names.py",
    "clusters/engines/kubernetes/kubeconfig.py",
    "clusters/engines/inventory.py",
    "clusters/engines/kubernetes/hosts.py",
    "clusters/engines/kubernetes/rights.py",
    "clusters/engines/kubernetes/scripts.py",
    "clusters/engines/kubernetes/spec.py",
    "clusters/engines/kubernetes/status.py",
    "clusters/engines/logs/chunks.py",
    "clusters/engines/logs/stamps.py",
    "clusters/engines/measuring.py",
    "clusters/engines/faults.py",
    "clusters/engines/runtime.py",
    "clusters/vcs/rules.py",
    "jobs/containers/bootstrap.py",
    "jobs/rewind/config.py",
    "jobs/terminal/program.py",
    "jobs/terminal/replay.py",
    "jobs/containers/environment.py",
    "jobs/containers/launch.py",
    "jobs/containers/registries.py",
    "jobs/api/exit_report.py",
    "jobs/diagnosis/evidence.py",
    "jobs/diagnosis/judge.py",
    "jobs/diagnosis/remedies.py",
    "jobs/diagnosis/rules.py",
    "jobs/diagnosis/template.py",
    "jobs/history/window.py",
    "jobs/logs/colours.py",
    "jobs/logs/lines.py",
    "jobs/logs/text.py",
    "jobs/metrics/gpus.py",
    "jobs/metrics/layout.py",
    "jobs/metrics/rates.py",
    "jobs/metrics/spark.py",
    "jobs/logs/times.py",
    "jobs/logs/together/order.py",
    "jobs/pages/config.py",
    "jobs/plots/draw.py",
    "jobs/plots/kinds.py",
    "jobs/reports/lanes.py",
    "jobs/reports/plot.py",
    "jobs/web_apps/addresses.py",
    "jobs/web_apps/serving/headers.py",
    "portal/core/errors.py",
    "portal/core/store_url.py",
    "portal/core/words.py",
    "portal/files/store/base.py",
    "portal/files/store/rules.py",
    "portal/files/store/s3/keys.py",
    "portal/files/webhdfs/messages.py",
    "portal/files/webhdfs/shapes.py",
)
IMPURE = {
    *("django", "rest_framework", "docker", "hdfs", "paramiko", "requests", "httpx", "urllib", "http", "socket", "ssl"),
    *("random", "secrets", "uuid", "time", "subprocess", "threading", "asyncio", "select", "os", "tempfile", "shutil"),
    *("boto3", "botocore"),
}
CLOCKS = re.compile(r"\b(?:datetime|date)\.(?:now|utcnow|today)\(")

# A library that only the named files may import.
EDGES = {
    "docker": re.compile(r"clusters/engines/docker/(attach/)?\w+\.py"),
    "kubernetes": re.compile(r"clusters/engines/kubernetes/\w+\.py"),
    "paramiko": re.compile(r"clusters/engines/docker/\w+\.py"),
    "aiohttp": re.compile(r"jobs/web_apps/serving/\w+\.py|clusters/engines/kubernetes/execs\.py"),
    "hdfs": re.compile(r"portal/files/store/hdfs/client\.py"),
    "boto3": re.compile(r"portal/files/store/s3/client\.py"),
    "botocore": re.compile(r"portal/files/store/s3/client\.py"),
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


def room(name: str) -> str:
    """Of a module: the folder of the app it is in, else the module itself."""
    return ".".join(name.split(".")[:2])


def floors() -> dict[str, int]:
    return {name: floor for floor, line in enumerate(FLOORS.split("\n")) for name in line.split()}


@cache
def modules() -> dict[str, Path]:
    dotted = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path for path in product()}
    return {name.removesuffix(".__init__"): path for name, path in dotted.items()}


@cache
def ours_imported(name: str) -> tuple[str, ...]:
    """The modules of ours that the module ``name`` imports, by import or by a text that names one in ``include()``."""
    known = modules()
    path = known[name]
    found = [next((each for each in (one, one.rpartition(".")[0]) if each in known), "") for one in imports(path)]
    called = re.findall(r"include\(\(?\"([\w.]+)\"", path.read_text())
    return tuple(sorted({each for each in (*found, *called) if each and each != name}))


def test_every_room_stands_on_the_rooms_below_it() -> None:
    floor = floors()
    inside = {name: room(name) for name in modules() if "." in name and room(name) != ALONE}
    assert sorted({each for each in inside.values() if each not in floor}) == [], "rooms without a floor"
    assert sorted(set(floor) - set(inside.values())) == [], "floors without a room"
    wrong = [
        f"{name} imports {other}"
        for name, here in inside.items()
        for other in ours_imported(name)
        if "." in other and room(other) != here and floor.get(room(other), 99) >= floor[here]
    ]
    assert wrong == []


def test_the_client_and_the_portal_know_nothing_of_each_other() -> None:
    wrong = [
        f"{name} imports {other}"
        for name in modules()
        for other in ours_imported(name)
        if (room(name) == ALONE) != (room(other) == ALONE) and "." in other
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(
        {name: ours_imported(name) for name in modules()}
    ).prepare()  # raises CycleError, which names them


def test_a_folder_can_be_read_at_a_glance() -> None:
    numbers = Counter(path.parent for path in product() if path.name != "__init__.py")
    full = {named(folder): number for folder, number in numbers.items() if number > FLAT}
    assert full == CROWDED


def pure() -> list[str]:
    return [name for name in map(named, product()) if name.startswith(PURE) and not name.endswith("__init__.py")]


@pytest.mark.parametrize("name", pure())
def test_a_pure_file_imports_nothing_of_the_world(name: str) -> None:
    path = ROOT / name
    assert [found for found in imports(path) if found.split(".")[0] in IMPURE and "urllib.parse" not in found] == []
    assert CLOCKS.search(path.read_text()) is None


@pytest.mark.parametrize("name", pure())
def test_a_pure_file_imports_only_pure_files_of_ours(name: str) -> None:
    used = ours_imported(name.removesuffix(".py").replace("/", "."))
    assert [each for each in used if named(modules()[each]) not in pure()] == []


def test_what_calls_itself_pure_is_checked() -> None:
    heads = {named(path): ast.get_docstring(ast.parse(path.read_text())) or "" for path in product()}
    called = [name for name, head in heads.items() if re.search(r"\bPure(?! but| of)\b", head)]
    assert [name for name in called if name not in pure()] == []


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


def test_no_line_of_a_page_is_wider_than_one_can_read() -> None:
    files = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "static").glob("css/longshore/*.css")]
    files += (ROOT / "static/js").rglob("*.js")
    wide = [
        (named(path), at)
        for path in files
        for at, line in enumerate(path.read_text().split("\n"), 1)
        if len(line) > 120
    ]
    assert wide == []


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
