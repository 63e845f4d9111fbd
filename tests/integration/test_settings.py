"""Settings that set others, read as a start reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ASK = """
import json
from portal import settings
trusted = [str(each) for each in settings.WEBHDFS_TRUST]
print(json.dumps([settings.ANONYMOUS_READ, trusted, settings.WEBHDFS_TRUST_ADMINS]))
"""


def read(home: Path, **settings: str) -> Any:
    environment = {"LONGSHORE_HOME": str(home), "PATH": "/usr/bin:/bin", **settings}
    root = Path(__file__).resolve().parents[2]
    answer = subprocess.run([sys.executable, "-c", _ASK], env=environment, cwd=root, capture_output=True, check=True)
    return json.loads(answer.stdout)


def test_nobody_gets_in_without_a_token_unless_that_is_set(tmp_path: Path) -> None:
    assert read(tmp_path) == ["jobs", [], False]


def test_compatibility_with_v0_lets_guests_read_and_private_networks_name_themselves(tmp_path: Path) -> None:
    anonymous, trusted, admins = read(tmp_path, LONGSHORE_COMPATIBILITY="v0")
    assert (anonymous, admins) == ("all", False)
    assert "10.0.0.0/8" in trusted and "192.168.0.0/16" in trusted and "0.0.0.0/0" not in trusted


@pytest.mark.parametrize(
    ("setting", "value", "read_as"),
    [("LONGSHORE_ANONYMOUS_READ", "none", ("none", True)), ("LONGSHORE_WEBHDFS_TRUST", "none", ("all", False))],
)
def test_what_is_set_by_its_own_name_wins(tmp_path: Path, setting: str, value: str, read_as: tuple[str, bool]) -> None:
    anonymous, trusted, _ = read(tmp_path, LONGSHORE_COMPATIBILITY="v0", **{setting: value})
    assert (anonymous, bool(trusted)) == read_as
