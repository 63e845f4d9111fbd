"""The measures of the house: how large its floors are, how their rooms stand, and how far a request goes through them.

``python -m tests.house [CHECKOUT]`` prints a line for each floor of this checkout, or of another one,
and how many imports are renamed on arrival.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("portal", "jobs", "clusters", "base")  # each imports only its own rooms and the floors after it
CLIENT = "client"  # imports nothing of ours, and nobody imports it
APPS = (*FLOORS, CLIENT)


class House:
    """A checkout. Its modules have dotted names; migrations are left out."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    @cached_property
    def modules(self) -> dict[str, Path]:
        paths = [path for app in APPS for path in sorted((self.root / app).rglob("*.py"))]
        product = [path for path in paths if "migrations" not in path.parts]
        dotted = {path.relative_to(self.root).with_suffix("").as_posix().replace("/", "."): path for path in product}
        return {name.removesuffix(".__init__"): path for name, path in dotted.items()}

    @cached_property
    def imported(self) -> dict[str, tuple[str, ...]]:
        """The modules of ours that each module imports, by import or by a text that names one in ``include()``."""
        return {name: tuple(sorted(self._imported(name, path))) for name, path in self.modules.items()}

    def _imported(self, name: str, path: Path) -> set[str]:
        known = self.modules
        used = {each if each in known else each.rpartition(".")[0] for each in imports(path)}
        included = set(re.findall(r"include\(\(?\"([\w.]+)\"", path.read_text()))
        return {each for each in used | included if each in known and each != name}

    def arrows(self) -> Iterator[tuple[str, str]]:
        """Which module imports which."""
        return ((name, other) for name, others in self.imported.items() for other in others)

    @cached_property
    def rooms(self) -> dict[str, set[str]]:
        """The rooms that each room imports, of whatever floor."""
        graph: dict[str, set[str]] = {room(name): set() for name in self.modules if "." in name}
        for name, other in self.arrows():
            if "." in name and "." in other and room(name) != room(other):
                graph[room(name)].add(room(other))
        return graph

    def arrows_up(self, app: str) -> int:
        """How many imports of this floor's modules lead to a floor above it."""
        above = FLOORS[: FLOORS.index(app)] if app in FLOORS else ()
        return sum(floor(name) == app and floor(other) in above for name, other in self.arrows())

    def renamed_imports(self) -> Iterator[tuple[Path, str]]:
        """The lines of imports that give a name of ours or of a library another name on arrival, with their files."""
        return ((path, line) for path in self.modules.values() for line in source(path).renamed)

    def row(self, app: str) -> tuple[object, ...]:
        """What ``HEAD`` names."""
        paths = [path for name, path in self.modules.items() if floor(name) == app]
        texts = [text for path in paths if len((text := path.read_text()).splitlines()) > 3]
        lines = [len(text.splitlines()) for text in texts]
        functions = [length for path in paths for length in source(path).functions]
        inner = {name: {each for each in others if floor(each) == app} for name, others in self.rooms.items()}
        inner = {name: others for name, others in inner.items() if floor(name) == app}
        return (
            app,
            sum(len(path.read_text().splitlines()) for path in paths),
            len(lines),
            f"{statistics.median(lines or [0]):.0f}",
            max(lines, default=0),
            f"{statistics.median(functions or [0]):.0f}",
            max(functions, default=0),
            len(inner),
            sum(len(others) for others in inner.values()),
            _height(inner),
            self.arrows_up(app),
        )


HEAD = (
    *("floor", "lines", "modules", "median", "longest", "median function", "longest function"),
    *("rooms", "arrows among them", "stories", "arrows up"),
)


def imports(path: Path, *, types: bool = True) -> tuple[str, ...]:
    """Dotted names of all that the file imports, also inside functions, and with ``types`` for type checkers alone."""
    return source(path).imports if types else source(path).imports_at_run


class Source(NamedTuple):
    """What a module says of itself."""

    head: str  # its docstring
    classes: tuple[str, ...]
    functions: tuple[int, ...]  # how many lines each has
    imports: tuple[str, ...]
    imports_at_run: tuple[str, ...]  # without those for type checkers alone
    renamed: tuple[str, ...]  # the lines of imports that give another name


def source(path: Path) -> Source:
    return _source(path, path.stat().st_mtime_ns)


@cache
def _source(path: Path, _: int) -> Source:
    """Many tests ask; to parse all modules once takes two seconds."""
    text = path.read_text()
    tree, lines = ast.parse(text), text.splitlines()
    statements = list(_statements(tree))
    for_types = {id(inner) for node in _guarded(tree) for inner in _statements(node)}
    found = [node for node in statements if isinstance(node, (ast.Import, ast.ImportFrom))]
    functions = (node for node in statements if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return Source(
        head=ast.get_docstring(tree) or "",
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        functions=tuple((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions),
        imports=tuple(name for node in found for name in _names(path, node)),
        imports_at_run=tuple(name for node in found if id(node) not in for_types for name in _names(path, node)),
        renamed=tuple(lines[alias.lineno - 1] for node in found for alias in node.names if alias.asname),
    )


def _names(path: Path, node: ast.Import | ast.ImportFrom) -> list[str]:
    before = "" if isinstance(node, ast.Import) else f"{_module(path, node)}."
    return [f"{before}{alias.name}" for alias in node.names]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Those below it: no expression, of which there are many more, has one in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
            yield from _statements(child)


def _guarded(tree: ast.AST) -> Iterator[ast.AST]:
    """What is there for type checkers alone."""
    ifs = (node for node in _statements(tree) if isinstance(node, ast.If))
    return (node for node in ifs if "TYPE_CHECKING" in ast.dump(node.test))


def _module(path: Path, node: ast.ImportFrom) -> str | None:
    """What it imports from. In client/ alone that is relative, since users have it under another name."""
    if not node.level:
        return node.module
    parts = path.parents[node.level - 1].parts
    assert CLIENT in parts, f"{path} has a relative import"
    there = parts[len(parts) - 1 - parts[::-1].index(CLIENT) :]
    return ".".join([*there, *([node.module] if node.module else [])])


def floor(name: str) -> str:
    return name.partition(".")[0]


def room(name: str) -> str:
    """Of a module: the folder of the floor it is in, else the module itself."""
    return ".".join(name.split(".")[:2])


def _height(graph: Mapping[str, Collection[str]]) -> object:
    """How many rooms stand above each other at most, where each stands above all that it imports."""
    heights: dict[str, int] = {}
    try:
        for name in TopologicalSorter(graph).static_order():
            heights[name] = 1 + max((heights[other] for other in graph.get(name, ())), default=0)
    except CycleError as error:
        return "circle: " + " ".join(error.args[1])
    return max(heights.values(), default=0)


def table(root: Path = ROOT) -> str:
    house = House(root)
    lines = [HEAD, ["---"] * len(HEAD), *(house.row(app) for app in APPS)]
    rows = "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
    return f"{rows}\nImports renamed on arrival: {len(list(house.renamed_imports()))}\n"


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
    paths = {Path(code.co_filename) for code in seen if code.co_name != "<module>"}
    return {name for name, path in House().modules.items() if path in paths}


def rooms_by_floor(modules: Collection[str]) -> Counter[str]:
    """How many rooms of each floor these modules are in. What lies flat in a floor is one of them."""
    folders = {tuple(name.split(".")[:-1][:2]) for name in modules}
    return Counter(folder[0] for folder in folders)


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
