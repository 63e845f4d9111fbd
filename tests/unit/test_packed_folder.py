"""What goes along with ``longshore run``."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.copying import PackedFolder
from client.errors import WrongConfig


@pytest.mark.parametrize(
    ("rules", "goes"),
    [
        ({}, {"train.py", "data/a.bin", "data/keep/b.bin", "data/keep/c.txt"}),
        ({".longshoreignore": "*.bin"}, {"train.py", "data/keep/c.txt"}),
        ({".gitignore": "*.bin"}, {"train.py", "data/keep/c.txt"}),
        ({".gitignore": "*.bin", ".longshoreignore": "*.py"}, {"data/a.bin", "data/keep/b.bin", "data/keep/c.txt"}),
        ({"data/.longshoreignore": "/a.bin\nkeep/*.txt"}, {"train.py", "data/keep/b.bin"}),
        ({"data/.longshoreignore": "train.py\n/keep"}, {"train.py", "data/a.bin"}),
        (
            {".longshoreignore": "*.bin", "data/keep/.longshoreignore": "!b.bin"},
            {"train.py", "data/keep/b.bin", "data/keep/c.txt"},
        ),
        ({".longshoreignore": "data/", "data/.longshoreignore": "!a.bin"}, {"train.py"}),
        ({"data/.gitignore": "*"}, {"train.py", "data/a.bin", "data/keep/b.bin", "data/keep/c.txt"}),
        ({"data/.longshoreignore": "!__pycache__/"}, {"train.py", "data/a.bin", "data/keep/b.bin", "data/keep/c.txt"}),
    ],
)
def test_it_is_read_as_git_reads_its_own(tmp_path: Path, rules: dict[str, str], goes: set[str]) -> None:
    for name in ("train.py", "data/a.bin", "data/keep/b.bin", "data/keep/c.txt", "data/__pycache__/x", ".git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for name, text in rules.items():
        (tmp_path / name).write_text(text)
    assert {each.name for each in PackedFolder(str(tmp_path)).files().files} - {*rules} == goes


def test_a_line_that_cannot_be_read_is_said_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".longshoreignore").write_text("!")
    with pytest.raises(WrongConfig, match="data/.longshoreignore cannot be read"):
        PackedFolder(str(tmp_path)).files()
