"""What pages for people name is there: files, settings, commands of make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "Dockerfiles" / "README.md"]
CODE = ("portal", "clusters", "jobs", "tests", "benchmarks", "scripts", "Dockerfiles", "static", "templates")
SETTINGS = ("portal", "clusters", "jobs", "tests", "benchmarks", "scripts")  # where they are read
_LINK = re.compile(r"\]\(([^)\s:#]*)(#[\w-]+)?\)")
_FILE = re.compile(rf"(?<![\w/.-])((?:docs|{'|'.join(CODE)})/[\w./-]+\.(?:md|py|sh|yaml|sql|jsonc|html|css|js))\b")
_SETTING = re.compile(r"\bLONGSHORE_[A-Z0-9_]+\b")


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_and_title_that_a_page_leads_to_exists(path: Path) -> None:
    text = path.read_text()
    lost = [name for name in _FILE.findall(text) if not (ROOT / name).exists()]
    for name, anchor in _LINK.findall(text.replace("\n", " ")):
        target = path.parent / name if name else path
        lost += [] if target.exists() else [name]
        lost += [name + anchor] if anchor and target.exists() and anchor not in anchors(target) else []
    assert lost == []


def test_every_setting_that_a_page_names_is_read_by_something() -> None:
    files = [path for room in SETTINGS for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".sh", "")]
    read = {name for path in files if path.is_file() for name in _SETTING.findall(path.read_text(errors="ignore"))}
    assert sorted(name for name in named() if name.removesuffix("_FILE") not in read and name not in read) == []


def test_every_setting_of_the_portal_is_on_a_page() -> None:
    source = (ROOT / "portal" / "settings.py").read_text()
    names = set(re.findall(r'"(LONGSHORE_[A-Z0-9_]+)"', source)) - {"LONGSHORE_S3"}  # what those of S3 begin with
    assert sorted(names - named()) == []


def named() -> set[str]:
    return {name for page in PAGES for name in _SETTING.findall(page.read_text())}


def test_make_has_every_command_that_a_page_names() -> None:
    there = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {name for page in PAGES for name in re.findall(r"`make ([a-z]+)", page.read_text())} <= there


def test_make_hands_on_the_arguments_of_those_that_take_some() -> None:
    recipes = re.split(r"^(?=[a-z]+:)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    by_name = {recipe.partition(":")[0]: recipe for recipe in recipes}
    assert [name for name in ("test", "chaos", "bench", "lock") if "$(ARGS)" not in by_name[name]] == []


def test_every_benchmark_that_a_page_names_is_in_the_table() -> None:
    tables = ROOT / "benchmarks" / "__main__.py", ROOT / "benchmarks" / "running_jobs" / "measure.py"
    there = {name for path in tables for name in re.findall(r'^    "([\w.]+)": ', path.read_text(), re.MULTILINE)}
    named = re.findall(r'make bench ARGS="?([\w. ]+)', (ROOT / "docs" / "performance.md").read_text())
    assert {name for names in named for name in names.split()} <= there
