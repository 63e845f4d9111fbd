"""The measures of the house in ARCHITECTURE.md: how large its rooms are, and how far a request goes through them.

python -m tests.house          print the table
python -m tests.house write    write it into ARCHITECTURE.md
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
APPS = ("portal", "clusters", "jobs")
_TABLE = re.compile(r"\| app \| modules a room.*?\n\n", re.DOTALL)


@dataclass
class App:
    """Lines of its modules by room, and of its functions."""

    rooms: dict[str, list[int]] = field(default_factory=dict)
    functions: list[int] = field(default_factory=list)

    def row(self, name: str) -> str:
        modules = [lines for room in self.rooms.values() for lines in room]
        rooms = ", ".join(f"{room} {len(inside)}" for room, inside in sorted(self.rooms.items()))
        medians = f"{statistics.median(modules):.0f} | {max(modules)} | {statistics.median(self.functions):.0f}"
        return f"| {name} | {rooms} | {medians} | {max(self.functions)} |"


def product() -> Iterator[Path]:
    for app in APPS:
        yield from (path for path in sorted((ROOT / app).rglob("*.py")) if "migrations" not in path.parts)


def apps() -> dict[str, App]:
    """Modules of at most three lines are left out: they only make a folder a package."""
    found = {name: App() for name in APPS}
    for path in product():
        text = path.read_text()
        if len(text.splitlines()) <= 3:
            continue
        app, *folders, _ = path.relative_to(ROOT).parts
        found[app].rooms.setdefault(folders[0] if folders else "flat", []).append(len(text.splitlines()))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found[app].functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
    return found


def table() -> str:
    head = [
        "| app | modules a room | median lines | longest | median function | longest |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(app.row(name) for name, app in apps().items())]) + "\n\n"


def written() -> str:
    match = _TABLE.search(PAGE.read_text())
    return match[0] if match else ""


def entered(work: Callable[[], Any]) -> set[str]:
    """The modules of ours whose functions run while ``work`` does, in this thread."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    names = {Path(code.co_filename) for code in seen if code.co_name != "<module>"}
    known = set(product())
    return {str(path.relative_to(ROOT)) for path in names & known}


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text()))
    else:
        sys.stdout.write(table())
