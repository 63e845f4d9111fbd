"""HDFS is killed while jobs are submitted, keys and configs written, code read and logs kept: nothing is lost, nothing
is half there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs import HdfsError, InsecureClient

from tests.acceptance.portal import Portal, config, container_of, docker, portal_on
from tests.bed.docker_bed import BedNode
from tests.bed.hdfs_bed import HdfsBed
from tests.helpers import LIMIT, until

pytestmark = [pytest.mark.docker, pytest.mark.hdfs]
FILES, SIZE = 15, 12_000_000


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, hdfs: HdfsBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    settings = {"LONGSHORE_STORE_URL": hdfs.store_url, "LONGSHORE_STORE_USER": hdfs.user}
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine, **settings) as one:
        yield one
        one.stop_all()
        one.wait_clean(docker_engine)


def test_everything_is_made_up_for_when_it_is_back(portal: Portal, docker_engine: BedNode, hdfs: HdfsBed) -> None:
    """One job has written before, one has its code half read, and what is submitted meanwhile needs a file or none."""
    files = InsecureClient(hdfs.url, user=hdfs.user, timeout=LIMIT)
    files.write("/users/admin/code/x.txt", data=b"the code\n", overwrite=True)
    whole = hashlib.md5()
    for number in range(FILES):
        piece = bytes([number]) * SIZE
        whole.update(piece)
        files.write(f"/shared/many/part{number:02}", data=piece, overwrite=True)
    before = portal.submit(config("before", "echo begun; until [ -e /tmp/go ]; do sleep 0.1; done; echo done"))
    portal.wait_running(before)
    container = container_of(docker_engine, before)
    spool = portal.home / "spool" / "code"
    check = "cat many/* | md5sum; cat /pai/code/many/* | wc -c"
    delayed = portal.submit(config("delayed", check, memoryMB=1000, codeDir="$PAI_DEFAULT_FS_URI/shared/many"))
    until(lambda: any(_size(file) > 1_000_000 for file in spool.glob("*.part")), 30, 0.01, "its code is being read")
    hdfs.kill()
    try:
        plain = portal.submit(config("plain", "echo plain"))
        waits = portal.submit(config("waits", "cat code/x.txt", codeDir="$PAI_DEFAULT_FS_URI/users/admin/code"))
        assert portal.wait_state(plain)["state"] == "SUCCEEDED", "a job that needs no file runs"
        docker(docker_engine, "exec", container, "touch", "/tmp/go")
        assert portal.wait_state(before)["state"] == "SUCCEEDED"
        for name in (delayed, waits):
            until(
                lambda name=name: _progress(portal, name).startswith("waits for the file store"),  # type: ignore[misc]
                40,
                0.2,
                what="the reason is shown",
            )
            assert portal.state(name) == "RUNNING" and portal.job(name)["jobStatus"]["retries"] == 0
        page = portal.http.get(f"{portal.url}/job-detail.html?username=admin&jobName={delayed}", follow_redirects=True)
        assert "waits for the file store" in page.text
        until(lambda: not list(spool.glob("*.part")), 20, what="no half of its code is left")
        assert not list(spool.glob("*.tar"))
        assert portal.log(before) == "begun\ndone\n", "its log is still read from its container"
    finally:
        hdfs.start()
    for name in (delayed, waits):
        assert portal.wait_state(name, timeout=90)["state"] == "SUCCEEDED"
    assert portal.log(waits) == "the code\n"
    assert portal.log(delayed).split() == [whole.hexdigest(), "-", str(FILES * SIZE)]
    for name in (before, plain, delayed, waits):
        until(lambda name=name: _is_whole(files, name), 60, 0.5, what=f"the files of {name} are there")  # type: ignore[misc]
    portal.wait_clean(docker_engine, timeout=60)
    assert portal.log(before) == "begun\ndone\n" and portal.log(plain) == "plain\n"
    names = until(lambda: _names(files, "/Container") + _names(files, "/Output"), what="all files are listed")
    assert not [name for name in names if "longshore-part" in name]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # it has got its name
        return 0


def _names(files: InsecureClient, root: str) -> list[str]:
    """Of all files below; none when a folder went while it was looked through, as those of logs that are live do."""
    try:
        return [name for _, _, names in files.walk(root) for name in names]
    except HdfsError:
        return []


def _progress(portal: Portal, name: str) -> str:
    (found,) = portal.rows(
        f"SELECT t.progress FROM jobs_task t JOIN jobs_job j ON j.id = t.job_id WHERE j.name = '{name}'"
    )
    return str(found[0])


def _is_whole(files: InsecureClient, name: str) -> bool:
    folder = f"/Container/admin/admin~{name}"
    if files.status(f"{folder}/ssh/keyFiles/admin~{name}.pub", strict=False) is None:
        return False
    with files.read(f"{folder}/JobConfig.json") as reader:
        assert json.loads(reader.read())["jobName"] == name
    with files.read(f"{folder}/ssh/keyFiles/admin~{name}") as reader:
        assert reader.read().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    return "index.json" in _names(files, f"{folder}/log") and files.status(f"/Output/admin/{name}") is not None
