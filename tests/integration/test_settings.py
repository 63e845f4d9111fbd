"""Settings that set others, read as a start reads them."""

from __future__ import annotations

import json
import re
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


def run(home: Path, ask: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {"LONGSHORE_HOME": str(home), "PATH": "/usr/bin:/bin", **settings}
    root = Path(__file__).resolve().parents[2]
    return subprocess.run([sys.executable, "-c", ask], env=environment, cwd=root, capture_output=True, text=True)


def read(home: Path, ask: str = _ASK, **settings: str) -> Any:
    answer = run(home, ask, **settings)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def told(home: Path, **settings: str) -> list[str]:
    """What a process whose settings these are says of them while it starts."""
    return run(home, "import portal.settings", **settings).stderr.splitlines()


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


def test_a_misspelt_setting_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    no = "is no setting of this release, so it changes nothing;"
    assert told(tmp_path, LONGSHORE_JOB_PRIVCY="owner", LONGSHORE_TLS_KEY_FILE="k", LONGSHORE_PORT="80") == [
        f"longshore: LONGSHORE_JOB_PRIVCY {no} did you mean LONGSHORE_JOB_PRIVACY?",
        f"longshore: LONGSHORE_PORT {no} docs/run/settings.md has all.",
        f"longshore: LONGSHORE_TLS_KEY_FILE {no} did you mean LONGSHORE_TLS_KEY?",
    ]
    assert told(tmp_path, LONGSHORE_JOB_PRIVCY="owner", LONGSHORE_SUPERVISOR="1") == []  # who said it already
    assert len(told(tmp_path, LONGSHORE_ADMIN_PASWORD="x")) == 1


def test_what_pages_tests_and_kubernetes_set_is_known(tmp_path: Path) -> None:
    root, names = Path(__file__).resolve().parents[2], set()
    for page in [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs" / "run").glob("*.md")]:
        names |= set(re.findall(r"LONGSHORE_[A-Z0-9_]*[A-Z0-9]", page.read_text()))
    for path in [*(root / "tests").rglob("*.py"), *(root / "benchmarks").rglob("*.py")]:
        names |= set(re.findall(r"environ(?:\.get\(|\[)\"(LONGSHORE_[A-Z0-9_]+)\"", path.read_text()))
    assert len(names) > 60
    names -= set(ask_all(tmp_path))
    kubernetes = {"LONGSHORE_SERVICE_HOST": "10.0.0.1", "LONGSHORE_SERVICE_PORT_HTTP": "80"}
    kubernetes |= {"LONGSHORE_PORT": "tcp://10.0.0.1:80", "LONGSHORE_WEB_PORT_80_TCP_ADDR": "10.0.0.1"}
    assert told(tmp_path, **dict.fromkeys(names, "1"), **kubernetes) == []


def ask_all(home: Path) -> list[str]:
    """The settings that each start reads: to set them all to one value would be refused."""
    asked: list[str] = read(
        home, "import json, portal.settings; from base.core import env; print(json.dumps([*env._asked]))"
    )
    return asked


@pytest.mark.parametrize(
    ("bind", "apps"),
    [
        ("127.0.0.1:9186", "127.0.0.1:9186"),
        ("0.0.0.0:9186", "127.0.0.1:9186"),
        ("127.0.0.1:9186", "0.0.0.0:9186"),
        ("[::]:9186", "127.0.0.1:9186"),
        ("127.0.0.1:9186", "localhost:9186"),
    ],
)
def test_two_addresses_in_each_others_way_stop_the_start(tmp_path: Path, bind: str, apps: str) -> None:
    answer = run(tmp_path, "import portal.settings", LONGSHORE_BIND=bind, LONGSHORE_APPS_BIND=apps)
    assert answer.returncode == 1
    said = answer.stderr.splitlines()[-1]
    assert "LONGSHORE_APPS_BIND is " in said and said.endswith("Set LONGSHORE_APPS_BIND to another port, such as 9187.")


def test_one_port_on_two_addresses_of_the_machine_is_no_mistake(tmp_path: Path) -> None:
    assert told(tmp_path, LONGSHORE_BIND="127.0.0.1:9186", LONGSHORE_APPS_BIND="127.0.0.2:9186") == []
