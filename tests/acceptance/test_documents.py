"""Every command in README.md and docs/ works as it is written: a reader runs a page from its top to its end.

A block is what is indented by four spaces or fenced. It is run in one shell with those before it on its page, with the
placeholders filled in (``filled``), Python by Python. What cannot run here is in ``NOT_RUN`` by its first line, with
the reason; a fence that names another language than sh, bash or python holds no commands.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.acceptance.portal import ROOT, SECRET, Portal
from tests.bed.docker_bed import BedNode
from tests.bed.hdfs_bed import CACHE, SCRIPT, HdfsBed
from tests.helpers import LIMIT

ELSEWHERE = ("kubernetes.md",)  # it needs a cluster: tests/kubernetes/test_document.py runs it
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in ELSEWHERE)]
COMMANDS = {"", "sh", "bash", "shell", "console", "python"}
NOT_RUN = {
    "git clone <this repository> longshore && cd longshore": "there is no network; test_up runs what make run does",
    "LONGSHORE_BIND=127.0.0.1:9186": "settings, which tests/acceptance of HTTPS set",
    "(umask 077; python3 -c 'import secrets": "of a portal that is destroyed: tests/acceptance/test_restore.py runs it",
    ".venv/bin/python manage.py backup": "the same; tests/integration/test_upgrade.py from SQLite to PostgreSQL",
    ".venv/bin/python manage.py restore": "the same",
    ".venv/bin/python manage.py move_files": "it moves a portal's store: tests/acceptance/test_move_files.py",
    ".venv/bin/python manage.py newkeys": "tests/integration/test_joining.py does what it does",
    "longshore.example.org {": "Caddy's configuration",
    "for name in fetch train evaluate": "jobs of other users; tests/acceptance/test_extras_docker.py runs such a chain",
    "curl -X PUT http://127.0.0.1:9186/api/v1/jobs/mira~evaluate": "the same; tests/api/test_job_place.py sends both",
    "curl -X PUT http://127.0.0.1:9186/api/v1/virtual-clusters/vision": "GPUs, which the node of the test has not;"
    " tests/api/test_vc_settings.py sends such bodies",
    "curl -X PUT http://127.0.0.1:9186/api/v2/user/mira/virtualcluster": "the same; tests/api/test_user_v2.py sends it",
    "docker build -t longshore/build.base:1": "it fetches packages; tests/acceptance/test_dockerfiles.py builds it",
    "python code/store.py": "of a task; tests/acceptance/test_examples.py runs them there",
    "path=/${PAI_DATA_DIR": "the same",
    "hdfs dfs -get $PAI_DATA_DIR": "the same",
    "curl http://127.0.0.1:9186/api/v1/user/mira/jobs/serving": "the same",
    'curl -H "Authorization: Bearer $TOKEN" -G http://127.0.0.1:9186/api/v1/user/admin/jobs/hello': "a job that ran;"
    " tests/api/test_job_logs.py asks so",
    "curl http://127.0.0.1:9186/api/v1/user/mira/jobs/train/ssh": "a job that runs, on an address of its own;"
    " tests/acceptance/test_files_and_ssh.py logs in so",
    "pip install http://portal.lab:9186/clients/longshore": "jobs with GPUs; test_first_day.py and"
    " test_command_inside.py, beside this one, have the wheel installed and send each of these commands",
    "import longshore": "the same; tests/acceptance/test_command.py does it with a job that its node has room for",
    "curl -X POST http://127.0.0.1:9186/api/v1/cluster/replay": "a day that was; tests/api/test_replay.py sends such",
}


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0].strip()

    @property
    def is_run(self) -> bool:
        return self.language in COMMANDS and not self.first.startswith(tuple(NOT_RUN))

    @property
    def script(self) -> str:
        is_python = self.language == "python"
        return f"python3 - <<'END-OF-PYTHON'\n{self.text}\nEND-OF-PYTHON\n" if is_python else f"{self.text}\n"


def blocks(page: str) -> list[Block]:
    """In order. Lines below a bullet are indented less than four, or belong to it."""
    found = []
    fenced = r"^```(?P<language>\w*)[^\n]*\n(?P<fenced>.*?)^```$"
    indented = r"(?:(?<=\n\n)|^)(?P<indented>(?: {4}[^\n]*\n(?:\n(?= {4}))?)+)"
    for each in re.finditer(f"{fenced}|{indented}", page, re.MULTILINE | re.DOTALL):
        text = each["fenced"] if each["indented"] is None else re.sub(r"(?m)^ {4}", "", each["indented"])
        found.append(Block(each["language"] or "", text.rstrip("\n")))
    return found


@pytest.fixture
def portal(files_portal: Portal) -> Portal:
    return files_portal


@pytest.fixture
def desk(portal: Portal, hdfs: HdfsBed, tmp_path: Path) -> dict[str, str]:
    """The environment of the reader: mira's, in a folder with what the pages speak of."""
    told = requests.post(f"{portal.url}/api/v1/token", {"username": "mira", "password": SECRET}, timeout=LIMIT).json()
    bearer = {"Authorization": f"Bearer {told['token']}"}
    for path in ("users/mira/a/x", "users/mira/old/x", "Output/mira/job-1/weights.bin"):
        address = f"{portal.url}/webhdfs/v1/{path}?op=CREATE&overwrite=true&data=true"
        assert requests.put(address, b"x", headers=bearer, timeout=LIMIT).status_code == 201
    token = requests.get(f"{portal.url}/webhdfs/v1/?op=GETDELEGATIONTOKEN", headers=bearer, timeout=LIMIT).json()
    for name, content in (
        ("mnist/data.bin", "data"),
        ("data/x", "x"),
        ("code/train.py", "code"),
        ("model.bin", "model"),
        ("api-token", told["token"]),
        ("webhdfs.token", token["Token"]["urlString"]),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for folder in ("docs", "jobs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    programs = tmp_path / ".bin"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "pai-fs").symlink_to(ROOT / "scripts" / "pai-fs")
    (programs / "hdfs").write_text(
        "#!/bin/sh\nshift\n"
        f'HDFS_SUPERUSER=$HADOOP_USER_NAME exec bash {SCRIPT} {CACHE} --run-dir {hdfs.folder} fs "$@"\n'
    )
    for name in ("python3", "hdfs"):
        (programs / name).chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")},
        "HOME": str(tmp_path),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PAI_FS_PASSWORD": SECRET,
        "PAI_OUTPUT_DIR": f"{portal.url.replace('http', 'webhdfs')}/Output/mira/job-1",
        "LONGSHORE_WEBHDFS_URL": f"{portal.url}/webhdfs/v1",
        "LONGSHORE_WEBHDFS_TOKEN_FILE": str(tmp_path / "webhdfs.token"),
    }


def filled(text: str, portal: Portal, node: BedNode) -> str:
    """The placeholders of the pages, as somebody fills them in."""
    host, port = portal.settings["LONGSHORE_BIND"].split(":")
    password = (portal.home / "secrets" / "admin-password").read_text().strip()
    for shown, real in (
        ("127.0.0.1:9186", f"{host}:{port}"),
        ("portal:9186", f"{host}:{port}"),
        ("host=portal.lab port=9186", f"host={host} port={port}"),
        ("password=…", f"password={password}"),
        ("ssh://root@gpu-01", node.unix),
        ('"gpuNumber": 8', '"gpuNumber": 0'),  # the node of the test has none
    ):
        text = text.replace(shown, real)
    return re.sub(r"\bcurl (?!-f)", "curl --fail-with-body -sS ", text)  # a reader sees the answer, a script does not


@pytest.mark.docker
@pytest.mark.hdfs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_the_page_works(
    page: Path, portal: Portal, docker_engine: BedNode, desk: dict[str, str], tmp_path: Path
) -> None:
    script = [f"echo '--- block {number}' >&2\n{block.script}" for number, block in enumerate(run(page))]
    text = filled("set -e\n" + "\n".join(script), portal, docker_engine)
    bash = [shutil.which("bash") or "bash", "-c", text]
    done = subprocess.run(bash, cwd=tmp_path, env=desk, capture_output=True, text=True, timeout=3 * LIMIT)
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{done.stdout[-2000:]}"
    assert '"code":' not in done.stdout and "RemoteException" not in done.stdout, done.stdout[-2000:]


def run(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text()) if block.is_run]


def test_what_is_not_run_is_still_there() -> None:
    there = {block.first for page in PAGES for block in blocks(page.read_text())}
    assert all(any(first.startswith(known) for first in there) for known in NOT_RUN)


def test_it_finds_both_kinds_of_blocks() -> None:
    text = "words\n\n    a \\\n      b\n\n    c\n\n- point\n  more\n\n```python\nx = 1\n```\n\n```nginx\ny\n```\nend\n"
    assert blocks(text) == [Block("", "a \\\n  b\n\nc"), Block("python", "x = 1"), Block("nginx", "y")]
    assert run(ROOT / "docs" / "run" / "nodes.md")
