"""What pages for people name is there: files, settings, commands of make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import GROUPS, PARTS

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "Dockerfiles" / "README.md"]
SETTINGS = ("portal", "jobs", "clusters", "base", "client", "tests", "benchmarks", "scripts")  # where they are read
CODE = (*SETTINGS, "Dockerfiles", "static", "templates")
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


def test_every_page_that_code_and_manifests_name_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), name)
        for folder in CODE
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".html", ".js", ".css", ".sh", ".yaml", ".jsonc") and "vendor" not in path.parts
        for name in re.findall(r"(?<![\w/.-])docs/[\w./-]+\.md\b|/guides/[a-z]+/[\w-]+", path.read_text())
    }
    pages = {name: name.replace("/guides/", "docs/").removesuffix(".md") + ".md" for _, name in named}
    assert len(pages) > 20
    assert sorted(each for each in named if not (ROOT / pages[each[1]]).exists()) == []


def test_every_test_that_a_page_names_exists() -> None:
    text = "".join(path.read_text() for path in PAGES)
    named = re.findall(r"`(?:tests/)?([\w/]+\.py)::(?:\w+::)?(test_\w+)", text)
    assert named
    assert not [one for one in named if f"def {one[1]}(" not in (ROOT / "tests" / one[0]).read_text()]


def test_every_setting_that_a_page_names_is_read_by_something() -> None:
    files = [path for room in SETTINGS for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".sh", "")]
    read = {name for path in files if path.is_file() for name in _SETTING.findall(path.read_text(errors="ignore"))}
    assert sorted(name for name in named() if name.removesuffix("_FILE") not in read and name not in read) == []


def test_every_setting_of_the_portal_is_on_the_page_of_settings() -> None:
    source = (ROOT / "portal" / "settings.py").read_text()
    names = set(re.findall(r'"(LONGSHORE_[A-Z0-9_]+|DATABASE_URL|DOCKER_HOST)"', source))
    names -= {"LONGSHORE_S3"}  # what those of S3 begin with
    assert sorted(names - set(re.findall(r"\b[A-Z0-9_]+\b", (ROOT / "docs/run/settings.md").read_text()))) == []


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
    named = re.findall(r'make bench ARGS="?([\w. ]+)', (ROOT / "docs" / "develop" / "performance.md").read_text())
    assert {name for names in named for name in names.split()} <= {*PARTS, *GROUPS}
