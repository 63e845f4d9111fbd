"""What can be said of the build files by reading them: pinned, small, without secrets, and true to our settings."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import LIMIT

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "Dockerfiles"
FILES = sorted(FOLDER.glob("Dockerfile.*"))
OURS = FOLDER / "Dockerfile.longshore"
KNOWN = {"ARG", "CMD", "COPY", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
PLAIN = {
    name: value for name, value in os.environ.items() if not name.startswith(("LONGSHORE_", "COMPOSE_", "POSTGRES"))
}
USED = re.compile(r"\$\{?([A-Z][A-Z0-9_]*)")


@dataclass(frozen=True)
class Step:
    name: str
    text: str


def steps(path: Path) -> list[Step]:
    """Its instructions, comments and line ends taken out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [Step(*line.split(None, 1)) for line in whole.splitlines() if line.strip()]


def arguments(path: Path) -> dict[str, str]:
    return {name: value for step in steps(path) if step.name == "ARG" for name, _, value in [step.text.partition("=")]}


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[2])


@each_file
def test_it_has_known_instructions_and_begins_with_an_image_that_is_an_argument_with_a_pinned_default(
    path: Path,
) -> None:
    listed = steps(path)
    assert {step.name for step in listed} <= KNOWN
    images = [step.text.partition(" AS ")[0] for step in listed if step.name == "FROM"]
    given = list(arguments(path).items())[: len(images)]
    assert [step.name for step in listed[: 2 * len(images)]] == ["ARG"] * len(images) + ["FROM"] * len(images)
    assert sorted(images) == sorted(f"${{{name}}}" for name, _ in given)
    for _, image in given:
        repository, _, tag = image.rpartition(":")
        assert repository
        assert re.search(r"\d", tag), "latest is no version"


@each_file
def test_every_argument_has_a_default_and_is_used(path: Path) -> None:
    for name, value in arguments(path).items():
        assert value, name
        others = [step.text for step in steps(path) if not (step.name == "ARG" and step.text.startswith(f"{name}="))]
        assert any(name in USED.findall(text) for text in others), name


@each_file
def test_every_variable_is_known(path: Path) -> None:
    named = set(arguments(path)) | {"PATH"}
    for step in steps(path):
        if step.name == "ENV":
            named |= set(re.findall(r"(\w+)=", step.text))
        named |= set(re.findall(r"\b([A-Z][A-Z0-9_]*)=", step.text))
        assert set(USED.findall(step.text)) <= named, step.text


@each_file
def test_what_is_downloaded_is_checked_and_nothing_is_left_of_it(path: Path) -> None:
    for step in steps(path):
        if "apt-get install" in step.text:
            assert "--no-install-recommends" in step.text
            assert "rm -rf /var/lib/apt/lists/*" in step.text
            assert step.text.index("apt-get update") < step.text.index("apt-get install")
        if "pip install" in step.text:
            assert "--no-cache-dir" in step.text
            assert "--require-hashes" in step.text or re.search(r"==\$\{\w+_VERSION\}", step.text)
        if "curl" in step.text and "http" in step.text + "".join(arguments(path).values()) and " -o " in step.text:
            assert "sha512sum -c" in step.text
            assert re.search(r"rm -rf /tmp/", step.text)


@each_file
def test_a_failing_command_fails_its_step(path: Path) -> None:
    assert all(step.text.startswith(("set -eu;", "python3 ")) for step in steps(path) if step.name == "RUN")


@each_file
def test_it_holds_no_secret(path: Path) -> None:
    secret = re.compile(r"password|secret|token|_key\b|PRIVATE", re.I)
    assert not [step.text for step in steps(path) if step.name in ("ARG", "ENV") and secret.search(step.text)]
    if any("openssh-server" in step.text for step in steps(path)):
        assert any("rm -f /etc/ssh/ssh_host_*" in step.text for step in steps(path))


def test_it_runs_as_a_user_of_its_own_and_says_whether_it_is_well() -> None:
    by_name = {step.name: step.text for step in steps(OURS)}
    assert by_name["USER"] == "${LONGSHORE_UID}:${LONGSHORE_UID}"
    assert by_name["HEALTHCHECK"].endswith('CMD ["python3", "healthcheck.py"]')
    assert by_name["VOLUME"] in by_name["ENV"]
    assert by_name["CMD"] == '["python3", "manage.py", "up"]', "no shell between us and SIGTERM"


def test_all_that_is_copied_is_let_through_and_nothing_else() -> None:
    copied = {name for step in steps(OURS) if step.name == "COPY" for name in step.text.split()[:-1]}
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line[0] == "!"} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_its_settings_are_settings() -> None:
    read = _settings()
    for step in steps(OURS):
        if step.name == "ENV":
            assert set(re.findall(r"\b(LONGSHORE_\w+)=", step.text)) <= read


def test_compose_gives_it_settings_that_exist() -> None:
    services = compose()["services"]
    assert {"portal", "postgres", "namenode", "datanode"} == set(services)
    assert set(services["portal"]["environment"]) <= _settings()
    build = services["portal"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).resolve() == OURS
    assert services["namenode"]["profiles"] == services["datanode"]["profiles"] == ["hdfs"]
    for service in services.values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert source.startswith("/") or source in compose()["volumes"]
        assert ":latest" not in service["image"]
        assert re.search(r"\d", service["image"])


def test_compose_has_nothing_that_the_older_one_refuses() -> None:
    """Debian 12 has docker-compose 1.29.2, which takes no ``name:`` and no long form of ``env_file:``."""
    assert set(compose()) == {"services", "volumes"}
    assert compose()["services"]["portal"]["env_file"] == ".env"
    assert {volume["name"] for volume in compose()["volumes"].values()} == {
        f"longshore_{name}" for name in compose()["volumes"]
    }


@pytest.mark.parametrize("command", [["docker-compose"], ["docker", "compose"]], ids=["1.29", "2"])
def test_compose_takes_it_and_hands_over_every_setting(command: list[str], tmp_path: Path) -> None:
    is_there = shutil.which(command[0]) is not None
    if not is_there or subprocess.run([*command, "version"], capture_output=True, check=False).returncode:
        pytest.skip(f"{' '.join(command)} is not installed")
    shutil.copy(FOLDER / "compose.yaml", tmp_path)
    given = {"POSTGRES_PASSWORD": "x", "LONGSHORE_PUBLIC_URL": "http://10.1.2.3:9186", "LONGSHORE_REWIND": "0"}
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    done = subprocess.run([*command, "config"], cwd=tmp_path, capture_output=True, text=True, check=False, env=PLAIN)
    assert done.returncode == 0, done.stderr
    portal = yaml.safe_load(done.stdout)["services"]["portal"]["environment"]
    assert (portal["LONGSHORE_REWIND"], portal["LONGSHORE_BIND"]) == ("0", "0.0.0.0:9186")
    assert portal["DATABASE_URL"] == "postgres://longshore:x@127.0.0.1:15432/longshore"


def test_compose_holds_no_password() -> None:
    """Only references to variables that are asked for, or may be empty."""
    for service in compose()["services"].values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name:
                assert re.fullmatch(r"\$\{\w+:(-|\?[^}]+)\}", value), name


@pytest.mark.parametrize(
    ("bind", "asked"),
    [
        ("0.0.0.0:9186", "http://127.0.0.1:9186/healthz"),
        ("10.1.2.3:80", "http://10.1.2.3:80/healthz"),
        ("[::]:9186", "http://[::1]:9186/healthz"),
    ],
)
def test_it_is_asked_where_it_listens(bind: str, asked: str) -> None:
    spec = importlib.util.spec_from_file_location("healthcheck", FOLDER / "healthcheck.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.address(bind) == asked


def test_a_process_without_its_database_is_alive(tmp_path: Path) -> None:
    asks = tmp_path / "healthcheck.py"  # as it is, but that the answer may take its time
    asks.write_text((FOLDER / asks.name).read_text().replace("timeout=8", f"timeout={LIMIT}"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        asking = subprocess.Popen([sys.executable, asks, "--alive", port], env=PLAIN)
        taken, _ = server.accept()
        with taken:
            taken.recv(1024)
            taken.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            assert asking.wait(LIMIT) == 0
    done = subprocess.run([sys.executable, asks, "--alive", port], env=PLAIN, capture_output=True)
    assert (done.returncode, b"refused" in done.stderr) == (1, True)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return found


def _settings() -> set[str]:
    """Names that the code reads from the environment."""
    source = "".join(path.read_text() for path in (ROOT / "portal").glob("*.py"))
    return set(re.findall(r'"(LONGSHORE_\w+|DATABASE_URL|DOCKER_HOST)"', source))
