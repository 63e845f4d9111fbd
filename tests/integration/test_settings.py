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
_ASK_PORTS = "import json; from portal import settings; print(json.dumps(settings.FIXED_PORTS))"


def read(home: Path, ask: str = _ASK, **settings: str) -> Any:
    environment = {"LONGSHORE_HOME": str(home), "PATH": "/usr/bin:/bin", **settings}
    root = Path(__file__).resolve().parents[2]
    answer = subprocess.run([sys.executable, "-c", ask], env=environment, cwd=root, capture_output=True, check=True)
    return json.loads(answer.stdout)


def test_nobody_gets_in_without_a_token_unless_that_is_set(tmp_path: Path) -> None:
    assert read(tmp_path) == ["jobs", [], False]


def test_compatibility_with_v0_lets_guests_read_and_private_networks_name_themselves(tmp_path: Path) -> None:
    anonymous, trusted, admins = read(tmp_path, LONGSHORE_COMPATIBILITY="v0")
    assert (anonymous, admins) == ("all", False)
    assert "10.0.0.0/8" in trusted and "192.168.0.0/16" in trusted and "0.0.0.0/0" not in trusted


def test_where_v0_is_set_a_config_may_name_any_port_but_those_of_the_portal_and_of_docker(tmp_path: Path) -> None:
    assert read(tmp_path, _ASK_PORTS) == []
    bound = {"LONGSHORE_BIND": "0.0.0.0:9000", "LONGSHORE_APPS_BIND": "0.0.0.0:9001"}
    given = read(tmp_path, _ASK_PORTS, LONGSHORE_COMPATIBILITY="v0", **bound)
    assert given == [[1024, 2374], [2377, 8999], [9002, 65535]]
    bound = {"LONGSHORE_BIND": "0.0.0.0:80", "LONGSHORE_APPS_BIND": "none"}
    given = read(tmp_path, _ASK_PORTS, LONGSHORE_COMPATIBILITY="v0", **bound)
    assert given == [[1024, 2374], [2377, 65535]]


@pytest.mark.parametrize(
    ("setting", "value", "read_as"),
    [("LONGSHORE_ANONYMOUS_READ", "none", ("none", True)), ("LONGSHORE_WEBHDFS_TRUST", "none", ("all", False))],
)
def test_what_is_set_by_its_own_name_wins(tmp_path: Path, setting: str, value: str, read_as: tuple[str, bool]) -> None:
    anonymous, trusted, _ = read(tmp_path, LONGSHORE_COMPATIBILITY="v0", **{setting: value})
    assert (anonymous, bool(trusted)) == read_as
