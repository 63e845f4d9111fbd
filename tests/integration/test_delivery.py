"""Code and registry passwords on their way from the store into a container."""

from __future__ import annotations

import os
import stat
import tarfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from base.files.store import open_store
from base.files.store.base import Entry, Store, StoreUnavailable
from base.files.store.local import LocalStore
from base.models import User
from clusters.engines.runtime import FaultReason, RuntimeFault
from jobs.containers import delivery
from jobs.containers.code import code_tar
from jobs.models import Attempt, Job
from tests.cluster import Cluster
from tests.fakes.runtime import Behaviour

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def store(tmp_path: Path, settings: Any) -> Store:
    settings.HOME = tmp_path
    settings.DEFAULT_FS_URI = "hdfs://nn:9000"
    return open_store()


class Flaky(LocalStore):
    """Is down from the ``healthy``-th file that is read on."""

    def __init__(self, root: Path, healthy: int) -> None:
        super().__init__(root)
        self.healthy, self.read = healthy, 0

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        self.read += 1
        if self.read > self.healthy:
            raise StoreUnavailable("The file store (HDFS) cannot be reached.")
        return super().open_read(path, offset)

    read_each = Store.read_each  # by ``open_read``


def quiet(done: int, total: int) -> None:
    pass


def spool(store: Store, path: str, key: str) -> Path:
    with code_tar.spooled(store, path, key, quiet) as tar:
        return tar


def owned(cluster: Cluster, uri: str) -> str:
    return f"{uri}/users/{cluster.owner.username}/mnist"


def put(store: Store, folder: str, count: int = 40) -> None:
    for number in range(count):
        store.write(f"{folder}/part{number}/x.py", [f"print({number})".encode()], mode=0o755 if number == 1 else 0o644)
    store.write(f"{folder}/.hidden", [b"h"])
    store.write(f"{folder}/empty", [])
    store.mkdirs(f"{folder}/folder")


@pytest.mark.parametrize(
    "uri",
    ["$PAI_DEFAULT_FS_URI", "hdfs://10.0.0.1:9000", "webhdfs://nn:50070", "hdfs://namenode", "hdfs://", "hdfs:/", ""],
)
def test_the_code_is_in_the_container_whatever_its_address_looks_like(cluster: Cluster, store: Store, uri: str) -> None:
    put(store, f"/users/{cluster.owner.username}/mnist")
    runtime = cluster.add_node()
    job = cluster.submit(codeDir=owned(cluster, uri))
    cluster.tick()
    cluster.work()
    name = cluster.task(job).container_name
    assert runtime.files_of(name)["/pai/code/mnist/part7/x.py"] == b"print(7)"
    assert runtime.files_of(name)["/pai/code/mnist/.hidden"] == b"h"
    assert cluster.task(job).progress == ""


def test_a_single_file_is_code_too(cluster: Cluster, store: Store) -> None:
    store.write("/shared/train.py", [b"print()"])
    runtime = cluster.add_node()
    job = cluster.submit(codeDir="/shared/train.py")
    cluster.settle()
    assert runtime.files_of(cluster.task(job).container_name)["/pai/code/train.py"] == b"print()"


def test_the_tar_keeps_modes_and_nobody_may_write_in_it(store: Store, tmp_path: Path) -> None:
    put(store, "/shared/mnist", 3)
    with code_tar.spooled(store, "/shared/mnist", "a1", quiet) as path:
        mode = stat.S_IMODE(path.stat().st_mode)
        with tarfile.open(path) as tar:
            modes = {member.name: (member.isdir(), member.mode) for member in tar}
    assert modes["pai/code/mnist"] == (True, 0o555)
    assert modes["pai/code/mnist/part1/x.py"] == (False, 0o555)
    assert modes["pai/code/mnist/part2/x.py"] == (False, 0o444)
    assert modes["pai/code/mnist/folder"] == (True, 0o555) and modes["pai/code/mnist/empty"] == (False, 0o444)
    assert mode == 0o600


def test_tasks_that_start_together_read_the_store_once(tmp_path: Path) -> None:
    flaky = Flaky(tmp_path / "store", 1000)
    put(flaky, "/shared/mnist", 20)
    read = flaky.read
    threads = [threading.Thread(target=lambda: spool(flaky, "/shared/mnist", "a1")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert flaky.read - read == 21  # one for each file that is not empty


def test_what_nobody_wants_any_more_is_cleaned_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, "/shared/mnist", 1)
    old = spool(store, "/shared/mnist", "a1")
    assert old.exists(), "tasks of the attempt that start a little later find it"
    monkeypatch.setattr(code_tar, "KEPT", -1.0)
    with code_tar.spooled(store, "/shared/mnist", "a2", quiet) as held:
        code_tar.clean_up()
        assert held.exists() and list(held.parent.glob("*.tar")) == [held]
    code_tar.clean_up()
    assert list(held.parent.iterdir()) == []


def test_beyond_its_room_the_oldest_go_and_what_a_killed_worker_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("/shared/mnist", [b"x" * 4000])
    first = spool(store, "/shared/mnist", "a1")
    left = first.with_name("a0.part")
    left.write_bytes(b"x" * 10_000)
    os.utime(left, (1, 1))
    os.utime(first, (time.time() - 5, time.time() - 5))
    monkeypatch.setattr(code_tar, "ROOM", 2 * first.stat().st_size - 1)
    second = spool(store, "/shared/mnist", "a2")
    code_tar.clean_up()
    assert not left.exists() and not first.exists() and second.exists()


@pytest.mark.parametrize("size", [5, 2_000_000])  # read ahead as a whole, and piece by piece
@pytest.mark.parametrize("change", [lambda store, path: store.truncate(path, 3), LocalStore.delete])
def test_code_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, size: int, change: Callable[[Store, str], None]
) -> None:
    class Changing(LocalStore):
        def exact(self, entries: Sequence[Entry]) -> list[Entry]:
            if self.changes:  # after the folder was listed
                change(self, "/shared/mnist/a")
            return super().exact(entries)

        changes = True

    store = Changing(tmp_path / "store")
    store.write("/shared/mnist/a", [b"x" * size])
    with pytest.raises(StoreUnavailable, match="changed while it was read"):
        spool(store, "/shared/mnist", "a1")
    assert [file.suffix for file in (tmp_path / "spool" / "code").iterdir()] == [".lock"]
    store.changes = False
    store.write("/shared/mnist/a", [b"x" * size])
    assert spool(store, "/shared/mnist", "a1").stat().st_size > size


def test_a_long_reading_tells_how_far_it_is_and_can_be_given_up(store: Store) -> None:
    store.write("/shared/mnist/a", [b"x" * 5_000_000])
    told: list[tuple[int, int]] = []
    with code_tar.spooled(store, "/shared/mnist", "a1", lambda done, total: told.append((done, total))):
        pass
    assert told[0] == (0, 0) and told[-1] == (5_000_000, 5_000_000)
    assert len(told) > 50, "within a file too, so that its claim is renewed in time"

    def give_up(done: int, total: int) -> None:
        if done > 1_000_000:
            raise RuntimeFault("It is no longer wanted.", reason=FaultReason.WITHDRAWN)

    with pytest.raises(RuntimeFault), code_tar.spooled(store, "/shared/mnist", "a2", give_up):
        pass


def test_nobody_gets_folders_of_others_by_naming_what_they_are_in(cluster: Cluster, store: Store) -> None:
    cluster.owner.is_admin = False
    cluster.owner.save()
    store.write("/users/somebody/secret", [b"s"])
    store.write(f"/users/{cluster.owner.username}/own", [b"o"])
    runtime = cluster.add_node()
    job = cluster.submit(codeDir="/users")
    cluster.tick()
    cluster.work()
    files = runtime.files_of(cluster.task(job).container_name)
    assert [path for path in files if path.startswith("/pai/code")] == [f"/pai/code/users/{cluster.owner.username}/own"]


def missing(cluster: Cluster, store: Store) -> dict[str, Any]:
    return {"codeDir": "/shared/gone"}


def foreign(cluster: Cluster, store: Store) -> dict[str, Any]:
    put(store, "/users/somebody/mnist", 1)
    return {"codeDir": "$PAI_DEFAULT_FS_URI/users/somebody/mnist"}


def outside(cluster: Cluster, store: Store) -> dict[str, Any]:
    return {"codeDir": "hdfs://nn:9000/shared/../../etc"}


def large(cluster: Cluster, store: Store) -> dict[str, Any]:
    store.write("/shared/large/a", [b"x" * 600])
    store.write("/shared/large/b", [b"x" * 401])
    return {"codeDir": "/shared/large"}


def no_auth(cluster: Cluster, store: Store) -> dict[str, Any]:
    return {"authFile": "/shared/auth"}


def bad_auth(cluster: Cluster, store: Store) -> dict[str, Any]:
    store.write("/shared/auth", [b"registry.lab\nonly-a-user\n"])
    return {"authFile": "/shared/auth"}


@pytest.mark.parametrize("uri", ["hdfs://bob/shared", "hdfs://user/bob/model", "/user/bob/model"])
def test_what_is_said_of_a_folder_does_not_tell_whether_somebody_else_has_one(
    cluster: Cluster, store: Store, bob: User, uri: str
) -> None:
    cluster.owner.is_admin = False
    cluster.owner.save()
    cluster.add_node()
    said = []
    for at, path in enumerate(("", "/bob/shared/x", "/bob/model/x", "/user/bob/model/x")):
        if path:
            store.write(path, [b"x"])
        job = cluster.submit(name=f"j{at}", codeDir=uri)
        cluster.settle()
        said.append((cluster.task(job).exit["fault"], cluster.task(job).exit["sentence"]))
    assert len(set(said)) == 1, said


@pytest.mark.parametrize(
    ("make", "fault", "words"),
    [
        (missing, "code_missing", "Can not stat /shared/gone"),
        (foreign, "code_unreadable", "may not read"),
        (outside, "code_unreadable", "no path of the file store"),
        (large, "code_too_large", "/shared/large is larger than 0.001MB"),
        (no_auth, "auth_unreadable", "Read authFile failed"),
        (bad_auth, "auth_malformed", "three lines"),
    ],
)
def test_what_the_user_must_mend_ends_the_job_with_its_reason(
    cluster: Cluster, store: Store, settings: Any, make: Callable[[Cluster, Store], Any], fault: str, words: str
) -> None:
    settings.CODE_LIMIT = 1000
    cluster.owner.is_admin = False
    cluster.owner.save()
    cluster.add_node()
    job = cluster.submit(**make(cluster, store), retryCount=2)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("FAILED", 255)
    exit_ = cluster.task(job).exit
    assert exit_["fault"] == fault and words in exit_["sentence"] and exit_["remedy"]
    assert len(cluster.attempts(job)) == 1, "tried again it would end the same way"
    cluster.assert_clean()


def test_exactly_the_limit_is_allowed(cluster: Cluster, store: Store, settings: Any) -> None:
    settings.CODE_LIMIT = 1000
    store.write("/shared/just/a", [b"x" * 1000])
    cluster.add_node()
    job = cluster.submit(codeDir="/shared/just")
    cluster.tick()
    cluster.work()
    assert cluster.task(job).fault is None


def test_a_store_that_is_down_delays_the_job_and_says_so(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky = Flaky(tmp_path / "store", 1000)
    put(flaky, "/shared/mnist")
    flaky.healthy = flaky.read + 11
    monkeypatch.setattr(delivery, "open_store", lambda: flaky)
    runtime = cluster.add_node()
    waiting, other = cluster.submit(codeDir="/shared/mnist"), cluster.submit(name="other")
    cluster.tick()
    cluster.work()
    assert (cluster.task(waiting).state, cluster.task(waiting).fault) == ("STARTING", None)
    assert cluster.task(waiting).progress.startswith("waits for the file store: ")
    cluster.tick()
    assert cluster.task(other).state == "RUNNING", "a job that needs no file starts all the same"
    assert not list((tmp_path / "spool" / "code").glob("*.tar")), "half a tar is none"
    cluster.ahead(4)  # sooner than after an order that got lost
    flaky.healthy = 10**6
    cluster.tick()
    cluster.work()
    cluster.tick()
    assert cluster.task(waiting).state == "RUNNING"
    assert runtime.files_of(cluster.task(waiting).container_name)["/pai/code/mnist/part39/x.py"] == b"print(39)"


def test_a_full_disk_of_the_worker_s_host_delays_the_start_and_costs_no_attempt(
    cluster: Cluster, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_tar, "clean_up", lambda: None)  # it would take the old file for an old tar
    put(store, "/shared/mnist")
    cluster.add_node()
    job = cluster.submit(codeDir="/shared/mnist")
    cluster.tick()
    folder = tmp_path / "spool" / "code"
    folder.mkdir(parents=True)
    (folder / f"{Attempt.objects.get(job=job).app_id}.part").symlink_to("/dev/full")
    cluster.work()
    task = cluster.task(job)
    assert (task.state, task.fault) == ("STARTING", None)
    assert "no room" in task.progress
    assert not list(folder.glob("*.part")), "it takes nobody's room"
    cluster.tick()
    cluster.ahead(4)
    cluster.tick()
    cluster.work()
    cluster.tick()
    assert (cluster.task(job).state, Attempt.objects.count()) == ("RUNNING", 1)


def test_a_start_that_is_no_longer_wanted_stops_reading(cluster: Cluster, store: Store) -> None:
    put(store, "/shared/mnist")
    cluster.add_node()
    job = cluster.submit(codeDir="/shared/mnist")
    cluster.tick()
    Job.objects.filter(pk=job.pk).update(execution="STOP")
    cluster.tick()
    cluster.work()
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"
    assert cluster.containers() == []


@pytest.mark.parametrize(
    ("server", "image", "auth"),
    [
        ("registry.lab:5000", "registry.lab:5000/team/image", ("mira", "s3cret")),
        ("docker.io", "team/image", ("mira", "s3cret")),
        ("docker.io", "registry.lab:5000/team/image", None),
    ],
)
def test_a_password_goes_to_its_own_registry_only(
    alice: User, store: Store, server: str, image: str, auth: tuple[str, str] | None
) -> None:
    from jobs.config.spec import read_config
    from tests.cluster import config

    store.write("/users/alice/auth", [f"{server}\r\nmira\r\ns3cret\r\n\r\n".encode()])
    spec = read_config(config(authFile="$PAI_DEFAULT_FS_URI/users/alice/auth", image=image))
    with delivery.prepare(spec, "alice", "a1", lambda text: None) as delivered:
        assert delivered.auth == auth


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("registry.lab", "It refused the user and the password of the authFile /shared/auth."),
        ("docker.io", "The authFile /shared/auth is for docker.io, the image is from registry.lab."),
    ],
)
def test_a_registry_that_refuses_in_spite_of_the_auth_file_is_told(
    cluster: Cluster, store: Store, server: str, words: str
) -> None:
    store.write("/shared/auth", [f"\ufeff{server}\nmira\ns3cret".encode()])
    refusal = RuntimeFault("Image may not be pulled.", reason=FaultReason.IMAGE_DENIED, permanent=True)
    cluster.add_node().behave(Behaviour(pull_fault=refusal), image="registry.lab/a:1")
    job = cluster.submit(authFile="/shared/auth", image="registry.lab/a:1", retryCount=2)
    cluster.settle()
    assert cluster.job(job).exit_code == 255 and len(cluster.attempts(job)) == 1
    exit_ = cluster.task(job).exit
    assert exit_["fault"] == "auth_refused" and words in exit_["sentence"] and "authFile" in exit_["remedy"]
    assert "s3cret" not in str(exit_)
