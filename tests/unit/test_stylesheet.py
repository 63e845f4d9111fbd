"""The stylesheet is made of all its sections, and each of its rules is for something that pages have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.staticfiles.storage import ManifestFilesMixin

from portal.shared.look.static_files import SECTIONS, Storage

ROOT = Path(__file__).resolve().parents[2]
# Names that no file has: what a program asked for in its log (jobs.logs.colours), those of CodeMirror and uPlot, and
# the colours of a log's tasks and of a plot's lines, which have a number.
COMPOSED = re.compile(r"a-\w+|cm-\w+|u-\w+|[sl][1-4]")


def test_it_has_every_section() -> None:
    assert sorted(SECTIONS) == sorted(path.stem for path in (ROOT / "static/css/longshore").glob("*.css"))


def test_every_rule_is_used() -> None:
    selectors = [one.strip() for rule in rules("\n".join(map(section, SECTIONS))) for one in rule.split(",")]
    named = {one: re.findall(r"[.#]([a-zA-Z][\w-]*)", one) for one in selectors}
    assert len(named) > 300
    unused = {name for names in named.values() for name in names if not COMPOSED.match(name)} - set(words_of_pages())
    unused -= set(words_in_code(unused))
    assert [one for one, names in named.items() if unused & set(names)] == []


def test_every_section_is_one_that_a_browser_can_read() -> None:
    assert [name for name in SECTIONS if section(name).count("{") != section(name).count("}")] == []


def section(name: str) -> str:
    return (ROOT / f"static/css/longshore/{name}.css").read_text()


def words_of_pages() -> Iterator[str]:
    """Every word of templates and scripts."""
    for path in [*(ROOT / "templates").rglob("*.html"), *(ROOT / "static/js").rglob("*.js")]:
        yield from re.findall(r"[\w-]+", path.read_text())


def words_in_code(wanted: set[str]) -> Iterator[str]:
    """Every word of the texts in modules, where these stand anywhere in them: only such a module is parsed."""
    for app in ("portal", "jobs", "clusters", "base"):
        for path in (ROOT / app).rglob("*.py"):
            if wanted.isdisjoint(re.findall(r"[\w-]+", text := path.read_text())):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from re.findall(r"[\w-]+", node.value)


def rules(css: str) -> list[str]:
    return re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL))


def test_the_address_of_a_file_is_looked_up_once_until_files_are_collected_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ManifestFilesMixin, "url", lambda storage, name, force: asked.append(name) or f"/{len(asked)}")
    storage = Storage()
    assert [storage.url("a.svg"), storage.url("b.svg"), storage.url("a.svg")] == ["/1", "/2", "/1"]
    assert list(storage.post_process({}, dry_run=True)) == []
    assert [storage.url("a.svg"), storage.url("a.svg")] == ["/3", "/3"]
