"""The drawing is kept: who may import whom, which files are pure and which speak HTTP, how long a file may be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from tests import house
from tests.house import APPS, CLIENT, FLOORS, ROOT, floor, imports, source

LONGEST = 400  # lines; a table of cases or a script may be somewhat longer
LONGEST_TABLE = 500
MOST_RENAMED = 15  # imports that get another name where they arrive

# What lies flat in portal is the roof: it knows all rooms, and no room knows it.
ROOF = {"settings"}  # but for these
HTTP = ("django.http", "django.shortcuts", "django.template", "django.urls", "django.views", "rest_framework")
FLAT = 12  # files in one folder; more ask for a room of their own
CROWDED = {
    "base/core": 13,
    "jobs/metrics": 13,
    "clusters/engines/docker": 16,
    "clusters/engines/kubernetes": 15,
    "jobs/planning": 14,
    "portal/job": 14,
}

# Values in, values out: what these need of the world is given to them. Whole rooms, and files; what says in its head
# that it is pure must be here.
PURE = (
    "clusters/placement/",
    "jobs/config/",
    "jobs/planning/",
    "base/roles.py",
    "jobs/checking/plan.py",
    "clusters/engines/attach.py",
    "clusters/engines/docker/stats.py",
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
    "clusters/appointments/rules.py",
    "clusters/vcs/rules.py",
    "portal/audit/words.py",
    "portal/docs/markdown.py",
    "jobs/containers/bootstrap.py",
    "jobs/terminal/replay.py",
    "jobs/containers/environment.py",
    "jobs/containers/launch.py",
    "portal/shared/jobs/exit_report.py",
    "jobs/diagnosis/evidence.py",
    "jobs/diagnosis/judge.py",
    "jobs/diagnosis/remedies.py",
    "jobs/diagnosis/rules.py",
    "jobs/diagnosis/template.py",
    "jobs/forecast/errors.py",
    "jobs/forecast/play.py",
    "jobs/history/window.py",
    "jobs/logs/colours.py",
    "jobs/logs/lines.py",
    "jobs/logs/text.py",
    "jobs/metrics/gpus.py",
    "jobs/metrics/layout.py",
    "jobs/metrics/rates.py",
    "jobs/logs/times.py",
    "jobs/logs/together/order.py",
    "jobs/notices/hours.py",
    "jobs/notices/kinds.py",
    "jobs/replay/day.py",
    "jobs/replay/outcome.py",
    "jobs/replay/policies.py",
    "jobs/waiting/changes.py",
    "jobs/waiting/words.py",
    "jobs/what_if/asked.py",
    "jobs/what_if/changed.py",
    "jobs/what_if/compare.py",
    "portal/job/config.py",
    "portal/metrics/draw.py",
    "portal/metrics/kinds.py",
    "portal/reports/drawing.py",
    "jobs/web_pages/addresses.py",
    "portal/web_pages/serving/headers.py",
    "base/core/values.py",
    "base/core/errors.py",
    "base/core/store_url.py",
    "base/core/words.py",
    "base/files/store/base.py",
    "base/files/store/rules.py",
    "base/files/tar_header.py",
    "portal/webhdfs/messages.py",
    "portal/webhdfs/shapes.py",
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
    "paramiko": re.compile(r"clusters/engines/docker/\w+\.py"),
    "aiohttp": re.compile(r"portal/web_pages/serving/\w+\.py|clusters/engines/kubernetes/execs\.py"),
    "hdfs": re.compile(r"base/files/store/hdfs/client\.py"),
    "boto3": re.compile(r"base/files/store/s3/client\.py"),
    "botocore": re.compile(r"base/files/store/s3/client\.py"),
}


HOUSE = house.House()


def product() -> Iterator[Path]:
    yield from HOUSE.modules.values()


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_floor_stands_on_those_below_it() -> None:
    height = {name: -number for number, name in enumerate(FLOORS)}
    wrong = [
        f"{name} imports {other}"
        for name, other in HOUSE.arrows()
        if floor(name) != CLIENT != floor(other) and height[floor(other)] > height[floor(name)]
    ]
    assert wrong == []


def test_the_client_and_the_portal_know_nothing_of_each_other() -> None:
    outward = [(name, other) for name, other in HOUSE.arrows() if (floor(name) == CLIENT) != (floor(other) == CLIENT)]
    assert outward == []


def test_no_room_knows_the_roof() -> None:
    roof = {name for name in HOUSE.modules if name.count(".") == 1 and floor(name) == "portal"} & {
        f"portal.{path.stem}" for path in (ROOT / "portal").glob("*.py") if path.stem not in ROOF
    }
    wrong = [f"{name} imports {other}" for name, other in HOUSE.arrows() if other in roof and is_in_a_room(name)]
    assert wrong == []


def is_in_a_room(name: str) -> bool:
    return name.count(".") > 1 and not name.startswith("portal.management.")


def test_no_rooms_import_each_other_in_a_circle() -> None:
    TopologicalSorter(HOUSE.rooms).prepare()  # raises CycleError, which names them


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(HOUSE.imported).prepare()


def test_only_the_upper_floor_speaks_http() -> None:
    wrong = [
        f"{name} imports {each}"
        for name, path in HOUSE.modules.items()
        if floor(name) in FLOORS[1:]
        for each in imports(path)
        if each.startswith(HTTP)
    ]
    assert wrong == []


def test_the_queue_knows_nothing_of_who_plans_with_it() -> None:
    paths = [path for path in product() if named(path).startswith("jobs/planning/queue/")]
    used = {each for path in paths for each in imports(path) if each.startswith("jobs.planning.")}
    assert [each for each in sorted(used) if not each.startswith("jobs.planning.queue.")] == []


def test_a_folder_can_be_read_at_a_glance() -> None:
    numbers = Counter(path.parent for path in product() if path.name != "__init__.py")
    full = {named(folder): number for folder, number in numbers.items() if number > FLAT}
    assert full == CROWDED


def pure() -> list[str]:
    return [name for name in map(named, product()) if name.startswith(PURE) and not name.endswith("__init__.py")]


def test_a_pure_file_imports_nothing_of_the_world() -> None:
    wrong = [
        f"{name} imports {each}"
        for name in pure()
        for each in imports(ROOT / name, types=False)
        if each.split(".")[0] in IMPURE and "urllib.parse" not in each
    ]
    wrong += [f"{name} reads a clock" for name in pure() if CLOCKS.search((ROOT / name).read_text())]
    assert wrong == []


def test_a_pure_file_imports_only_pure_files_of_ours() -> None:
    ours_pure = set(pure())
    wrong = [
        f"{name} imports {each}"
        for name in sorted(ours_pure)
        for each in HOUSE.imported[name.removesuffix(".py").replace("/", ".")]
        if named(HOUSE.modules[each]) not in ours_pure
    ]
    assert wrong == []


def test_what_calls_itself_pure_is_checked() -> None:
    heads = {named(path): source(path).head for path in product()}
    called = [name for name, head in heads.items() if re.search(r"\bPure(?! but| of)\b", head)]
    assert sorted(set(called).difference(pure())) == []


def test_a_library_is_imported_only_at_its_edge() -> None:
    wrong = [
        f"{named(path)} imports {library}"
        for path in product()
        for library in sorted({each.split(".")[0] for each in imports(path)} & EDGES.keys())
        if not EDGES[library].fullmatch(named(path))
    ]
    assert wrong == []


def test_engines_are_spoken_to_without_the_portal_s_settings_and_database() -> None:
    """Benchmarks and tests use them by themselves."""
    used = "import clusters.engines.docker.runtime, clusters.engines.docker.meter, clusters.engines.kubernetes.runtime"
    bare = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")}
    subprocess.run([sys.executable, "-c", used], cwd=ROOT, env=bare, check=True)


def test_a_class_name_occurs_once() -> None:
    """So a name says what it is wherever it stands, in the API's document too."""
    found: dict[str, list[str]] = {}
    for path in product():
        for name in source(path).classes:
            found.setdefault(name, []).append(named(path))
    assert {name: places for name, places in found.items() if len(places) > 1 and name != "Command"} == {}


def test_hardly_an_import_is_renamed_on_arrival_and_each_says_why() -> None:
    """What has a name of its own is found by it everywhere. An import that must be renamed names its module wrongly."""
    renamed = [(named(path), line) for path, line in HOUSE.renamed_imports()]
    assert [(name, line) for name, line in renamed if not re.search(r"# (?!noqa)", line)] == []
    assert len(renamed) <= MOST_RENAMED


def test_no_file_is_longer_than_one_can_read_at_once() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in ours()}
    too_long = {named(path): f"{lines} of {most(path)}" for path, lines in lengths.items() if lines > most(path)}
    assert too_long == {}, "what has a subject of its own goes into a module beside it"


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


def test_every_template_that_is_named_is_there_and_every_one_is_named() -> None:
    """A name in which a part is put in stands for all that it may lead to."""
    pages = ROOT / "templates"
    sources = [*product(), *pages.rglob("*.html")]
    names = {name for path in sources for name in re.findall(r"\"([\w/{}]+\.html)\"", path.read_text())}
    led_to = {name: set(pages.glob(re.sub(r"{\w+}", "*", name))) for name in names}
    assert [name for name, found in led_to.items() if not found] == []
    assert set(pages.rglob("*.html")) - set().union(*led_to.values()) == set()


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
