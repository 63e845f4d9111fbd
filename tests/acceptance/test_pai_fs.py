"""pai-fs as a program, with a portal and straight with a real NameNode."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.acceptance.portal import ROOT, Portal
from tests.acceptance.wire import Wire
from tests.bed.hdfs_bed import HdfsBed
from tests.helpers import LIMIT, quick, until

PROGRAM = ROOT / "scripts" / "pai-fs"
LARGE = 24 << 20  # bytes: such a file is written in parts


@dataclass(frozen=True)
class Shell:
    """Runs it with settings of its own."""

    config: Path

    def __call__(self, *arguments: str, code: int = 0, **env: str) -> str:
        done = subprocess.run(
            [str(PROGRAM), *arguments],
            env={**os.environ, "PAI_FS_CONFIG": str(self.config), **env},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture
def portal(files_portal: Portal) -> Portal:
    return files_portal


@pytest.fixture
def wire(portal: Portal) -> Iterator[Wire]:
    host, port = portal.settings["LONGSHORE_BIND"].split(":")
    with closing(Wire((host, int(port)))) as wire:
        yield wire


@pytest.fixture(params=["portal", pytest.param("hdfs", marks=pytest.mark.hdfs)])
def pai_fs(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    shell = Shell(tmp_path / "config.json")
    if request.param == "portal":
        portal: Portal = request.getfixturevalue("portal")
        _sign_in(shell, portal, portal.settings["LONGSHORE_BIND"])
    else:
        bed: HdfsBed = request.getfixturevalue("hdfs")
        host, port = bed.url.removeprefix("http://").split(":")
        shell("--config", f"host={host}", f"port={port}", f"user={bed.user}", "token=")
    shell("-rm", "-r", "-f", "hdfs://shared/t")
    return shell


def _sign_in(shell: Shell, portal: Portal, address: str) -> None:
    host, port = address.split(":")
    password = (portal.home / "secrets" / "admin-password").read_text().strip()
    said = shell("--config", f"host={host}", f"port={port}", "user=admin", PAI_FS_PASSWORD=password)
    assert "signed in" in said and password not in said


def test_files_and_folders_go_there_and_back(pai_fs: Shell, tmp_path: Path) -> None:
    source = tmp_path / "data"
    (source / "deep").mkdir(parents=True)
    for number in range(12):
        (source / "deep" / f"{number}.bin").write_bytes(os.urandom(3000 + number))
    (source / "big").write_bytes(os.urandom(20 << 20))
    (source / "empty").write_bytes(b"")
    said = pai_fs("-cp", "-r", str(source), "hdfs://shared/t")
    assert "copied 14 files" in said and "MB/s" in said
    listed = pai_fs("-ls", "hdfs://shared/t").splitlines()
    assert listed[0] == "total 3" and listed[-2] == f"size {20 << 20}" and "took" in listed[-1]
    assert [line.split()[-1] for line in listed[1:-2]] == ["big", "deep", "empty"]
    assert listed[2].startswith("d")
    digest = hashlib.sha1((source / "big").read_bytes()).hexdigest()
    assert pai_fs("--hash", "hdfs://shared/t/big").split()[0] == digest
    pai_fs("-cp", "-r", "hdfs://shared/t/*", str(tmp_path / "back"))
    for file in source.rglob("*"):
        if file.is_file():
            assert (tmp_path / "back" / file.relative_to(source)).read_bytes() == file.read_bytes()
    pai_fs("-cp", "-r", "hdfs://shared/t/deep", "hdfs://shared/t/again")
    pai_fs("-mv", "hdfs://shared/t/big", "hdfs://shared/t/again")
    assert "big" in pai_fs("-ls", "hdfs://shared/t/again")
    pai_fs("-mkdir", "hdfs://shared/t/a/b/c")
    pai_fs("-rm", "hdfs://shared/t/a", code=5)
    pai_fs("-rm", "-r", "hdfs://shared/t")
    pai_fs("-ls", "hdfs://shared/t", code=3)


def test_what_is_there_is_replaced_only_with_f(pai_fs: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one")
    pai_fs("-cp", str(tmp_path / "file"), "hdfs://shared/t/file")
    (tmp_path / "file").write_text("other")
    assert "-f replaces" in pai_fs("-cp", str(tmp_path / "file"), "hdfs://shared/t/file", code=1)
    pai_fs("-cp", "-f", str(tmp_path / "file"), "hdfs://shared/t/file")
    pai_fs("-cp", "hdfs://shared/t/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "other"


def test_nothing_is_lost_by_a_move_or_copy_onto_itself(pai_fs: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    pai_fs("-cp", str(tmp_path / "file"), "hdfs://shared/t/file")
    for verb in ("-mv", "-cp"):
        pai_fs(verb, "-f", "hdfs://shared/t/file", "hdfs://shared/t/file", code=1)
        pai_fs(verb, "-f", "hdfs://shared/t/file", "hdfs://shared/t", code=1)
    pai_fs("-cp", str(tmp_path / "file"), "hdfs://shared/t/other")
    assert "-f replaces" in pai_fs("-mv", "hdfs://shared/t/other", "hdfs://shared/t/file", code=1)
    pai_fs("-mv", "-f", "hdfs://shared/t/other", "hdfs://shared/t/file")
    pai_fs("-cp", "hdfs://shared/t/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "precious"


def test_an_interrupted_copy_ends_at_once_and_the_next_goes_on(portal: Portal, wire: Wire, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "config.json")
    _sign_in(shell, portal, wire.address)
    (tmp_path / "big").write_bytes(content := os.urandom(LARGE))
    shell("-cp", "-f", str(tmp_path / "big"), "hdfs://shared/big")
    back = tmp_path / "back"
    back.mkdir()
    wire.hold(LARGE // 2)
    copying = subprocess.Popen(
        [str(PROGRAM), "-cp", "hdfs://shared/big", str(back)],
        env={**os.environ, "PAI_FS_CONFIG": str(shell.config)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: _parts(back) > LARGE // 4, LIMIT, what="it is under way")
        copying.send_signal(signal.SIGINT)
        with quick(5, "the end of an interrupted copy"):
            said = copying.communicate(timeout=LIMIT)[1]
    finally:
        copying.kill()
        copying.wait()
    assert copying.returncode == 130 and "Traceback" not in said, said
    assert not (back / "big").exists() and _parts(back) > 0
    wire.let_go()
    passed = wire.passed
    shell("-cp", "hdfs://shared/big", str(back))
    assert (back / "big").read_bytes() == content
    assert os.listdir(back) == ["big"]
    assert wire.passed - passed < LARGE, "what had arrived was not sent again"


def _parts(folder: Path) -> int:
    return sum(map(_size, folder.glob(".big*")))


@pytest.mark.hdfs
def test_a_copy_outlives_a_restart_of_hdfs(hdfs: HdfsBed, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "config.json")
    host, port = hdfs.url.removeprefix("http://").split(":")
    shell("--config", f"host={host}", f"port={port}", f"user={hdfs.user}", "token=")
    content = os.urandom(1 << 20) * 200
    (tmp_path / "big").write_bytes(content)

    def is_written() -> bool:
        return any(_size(block) > 10 << 20 for block in hdfs.folder.rglob("rbw/blk_*"))

    def restart() -> None:
        hdfs.kill()
        hdfs.start()

    def copy() -> None:
        shell("-cp", "-f", str(tmp_path / "big"), "hdfs://shared/phoenix/big")

    until(lambda: _struck(is_written, restart, copy), LIMIT, what="HDFS is restarted in the middle of a copy")
    assert shell("--hash", "hdfs://shared/phoenix/big").split()[0] == hashlib.sha1(content).hexdigest()
    shell("-rm", "-r", "hdfs://shared/phoenix")


def _struck(is_under_way: Callable[[], bool], strike: Callable[[], object], copy: Callable[[], object]) -> bool:
    """Strikes while it is copied. False when the copy was through before anybody saw that it was under way."""
    over, struck = threading.Event(), threading.Event()

    def watch() -> None:
        until(lambda: over.is_set() or is_under_way(), LIMIT, 0.01, "it is under way")
        if not over.is_set():
            struck.set()
            strike()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        copy()
    finally:
        over.set()
        watching.join()
    return struck.is_set()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def test_a_copy_outlives_the_death_of_the_portal(portal: Portal, wire: Wire, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "config.json")
    _sign_in(shell, portal, wire.address)
    (tmp_path / "big").write_bytes(content := os.urandom(LARGE))
    parts = portal.home / "store" / "shared"
    wire.hold(LARGE // 2)
    with ThreadPoolExecutor(1) as copies:
        copying = copies.submit(shell, "-cp", "-f", str(tmp_path / "big"), "hdfs://shared/survivor")
        try:
            until(lambda: sum(map(_size, parts.glob(".survivor*"))) > LARGE // 4, LIMIT, what="it is under way")
            os.kill(portal.running("web")[0], signal.SIGKILL)
            until(lambda: "web was ended by SIGKILL" in portal.text(), what="the web process is dead")
        finally:
            wire.let_go()
        copying.result()
    assert shell("--hash", "hdfs://shared/survivor").split()[0] == hashlib.sha1(content).hexdigest()


@pytest.mark.parametrize("size", [1 << 20, LARGE])
def test_of_two_machines_the_second_to_end_replaces_nothing_without_f(
    portal: Portal, wire: Wire, tmp_path: Path, size: int
) -> None:
    slow, quick_one = Shell(tmp_path / "one" / "config.json"), Shell(tmp_path / "other" / "config.json")
    _sign_in(slow, portal, wire.address)
    _sign_in(quick_one, portal, portal.settings["LONGSHORE_BIND"])
    slow("-rm", "-f", "hdfs://shared/both")
    (tmp_path / "mine").write_bytes(os.urandom(size))
    (tmp_path / "theirs").write_bytes(theirs := os.urandom(size))
    began = wire.passed
    wire.hold(size // 2)
    with ThreadPoolExecutor(1) as copies:
        copying = copies.submit(slow, "-cp", str(tmp_path / "mine"), "hdfs://shared/both", code=1)
        try:
            until(lambda: wire.passed - began > size // 4, LIMIT, what="it is under way")
            quick_one("-cp", str(tmp_path / "theirs"), "hdfs://shared/both")
        finally:
            wire.let_go()
        assert "/shared/both came there meanwhile, and stays as it is; -f replaces it." in copying.result()
    assert slow("--hash", "hdfs://shared/both").split()[0] == hashlib.sha1(theirs).hexdigest()
    assert [path.name for path in (portal.home / "store" / "shared").iterdir() if "both" in path.name] == ["both"]


def test_what_does_not_fit_into_the_quota_leaves_nothing(portal: Portal, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "config.json")
    _sign_in(shell, portal, portal.settings["LONGSHORE_BIND"])
    token = {"Authorization": f"Bearer {json.loads(shell.config.read_text())['token']}"}
    server = f"http://{portal.settings['LONGSHORE_BIND']}"
    quota, file = f"{server}/api/v2/user/admin/storequota", f"{server}/webhdfs/v1/users/admin/t"
    (tmp_path / "data").mkdir()
    for name, size in (("big", LARGE), ("little", 5)):
        (tmp_path / "data" / name).write_bytes(bytes(size))
    assert httpx.put(quota, json={"storeQuota": f"{LARGE >> 20}m"}, headers=token).is_success
    too_much = {"op": "CREATE", "length": LARGE + 1}

    def is_counted() -> bool:  # until then nothing is refused
        return httpx.put(file, params=too_much, headers=token, timeout=LIMIT).status_code == 403

    try:
        until(is_counted, LIMIT, what="the user's files are counted")
        said = shell("-cp", "-r", str(tmp_path / "data"), "hdfs://users/admin/t", code=1)
        assert "All 2 files" in said and "does not fit" in said, said
        assert "t" not in [path.name for path in (portal.home / "store").glob("users/admin/*")]
        shell("-cp", str(tmp_path / "data" / "big"), "hdfs://users/admin/big")
        assert "users/admin/little cannot be copied, nothing was begun" in shell(
            "-cp", str(tmp_path / "data" / "little"), "hdfs://users/admin/little", code=1
        )
    finally:
        assert httpx.put(quota, json={"storeQuota": None}, headers=token).is_success
    shell("-rm", "-r", "hdfs://users/admin/big")


def test_nobody_gets_in_without_signing_in(portal: Portal, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "config.json")
    host, port = portal.settings["LONGSHORE_BIND"].split(":")
    assert "--config" in shell("-ls", "hdfs://", "--host", host, "--port", port, code=4)
    shell("--config", f"host={host}", f"port={port}", "user=admin", PAI_FS_PASSWORD="wrong", code=4)
