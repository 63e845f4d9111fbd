"""docs/use/compatibility.md names tests that exist, and leaves out no route."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from portal.shared.api import openapi
from tests.unit.test_spec_v1_messages import TABLE

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "use" / "compatibility.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_test_it_names_exists(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {test for named, test in NAMED if named == file} - there == set()


def test_every_case_it_names_exists() -> None:
    section = PAGE.partition("## Errors for bad input")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")][1:]
    named = {case.strip() for row in rows for part in re.split("[·;]", row) if (case := part) and "`" not in part}
    assert named - {row[0] for row in TABLE} == set()


def test_every_route_is_in_it() -> None:
    schema = openapi.document()
    routes = {path.removeprefix("/api/v1") for path in schema["paths"] if path.startswith("/api/v1/")}
    shown = set(re.findall(r"`(/[^`]+)`", PAGE))
    logs = {route for route in routes if "/logs/" in route}  # one row for all
    assert routes - logs - shown == set(), "each route needs a row of docs/use/compatibility.md"
