"""What ``longshore run`` uploaded goes with its job, and nothing that anybody else put there."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_q.models import OrmQ

from base.files.store import open_store
from base.files.store.base import Store, find
from jobs import services
from jobs.containers import discard
from jobs.containers.code import uploads
from jobs.models import Discarded, Job, Template
from jobs.scheduling import orders
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db

FILES = {"project/train.py": b"print()", "project/lib/a.py": b"1", "project/lib/empty": b""}
LONG_AGO = timedelta(days=2)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, settings: Any) -> Store:
    settings.HOME = tmp_path
    return open_store()


def code(cluster: Cluster, name: str = "train") -> str:
    return f"/users/{cluster.owner.username}/code/{name}"


def uploaded(
    store: Store, cluster: Cluster, name: str = "train", arrived: dict[str, bytes] = FILES, age: timedelta = LONG_AGO
) -> str:
    """The folder, with a list of all files, as client/running.py leaves them."""
    files = {each: (len(content), hashlib.sha1(content).hexdigest()) for each, content in FILES.items()}
    listed = f"/users/{cluster.owner.username}/code/.longshore/{name}"
    folders = ["project", "project/lib", "project/none"]
    store.write(listed, [json.dumps({"folders": folders, "files": files}).encode()])
    store.change(listed, modified_at=timezone.now() - age)
    for each, content in arrived.items():
        store.write(f"{code(cluster, name)}/{each}", [content])
    store.mkdirs(f"{code(cluster, name)}/project/none")
    return code(cluster, name)


def submitted(cluster: Cluster, name: str = "train", of: str = "train") -> Job:
    return cluster.submit(name=name, codeDir=f"{code(cluster, of)}/project")


def purge(cluster: Cluster, job: Job) -> None:
    """Delete it, as its owner does, and let a worker remove its files."""
    purge_rows(cluster, job)
    discarded()


def purge_rows(cluster: Cluster, job: Job) -> None:
    services.delete(cluster.owner, job)
    cluster.settle()
    assert not Job.objects.filter(pk=job.pk).exists()


def discarded() -> None:
    discard.discard_all(list(Discarded.objects.values_list("id", flat=True)))
    assert not Discarded.objects.exists()


def left(store: Store, path: str) -> list[str]:
    """The files below a path."""
    if find(store, path) is None:
        return []
    found = store.list(path)
    return [name for each in found for name in (left(store, each.path) if each.is_dir else [each.path])]


def lists(store: Store, cluster: Cluster) -> list[str]:
    return [each.name for each in store.list(f"/users/{cluster.owner.username}/code/.longshore")]


def test_a_folder_goes_with_its_job_and_its_list_too(cluster: Cluster, store: Store) -> None:
    folder = uploaded(store, cluster, age=timedelta(seconds=5))
    other = uploaded(store, cluster, "other", age=timedelta(seconds=5))
    job, _ = submitted(cluster), submitted(cluster, "other", "other")
    uploads.clean_up()
    assert len(left(store, folder)) == 3, "its job is there"
    purge(cluster, job)
    assert find(store, folder) is None and len(left(store, other)) == 3
    assert lists(store, cluster) == ["other"]


def test_it_stays_as_long_as_a_job_that_was_made_of_it_names_it(cluster: Cluster, store: Store) -> None:
    folder = uploaded(store, cluster)
    first, again = submitted(cluster), submitted(cluster, "train-2")
    purge(cluster, first)
    uploads.clean_up()
    assert len(left(store, folder)) == 3
    purge(cluster, again)
    uploads.clean_up()
    assert find(store, folder) is None


def test_an_upload_that_began_after_its_job_was_gone_is_not_of_it(cluster: Cluster, store: Store) -> None:
    """A new run of the same name uploads while the files of the job before it are removed."""
    folder = uploaded(store, cluster, age=timedelta(hours=-1))
    purge(cluster, submitted(cluster))
    assert len(left(store, folder)) == 3


def test_an_upload_that_began_before_its_namesake_was_purged_is_not_of_it(cluster: Cluster, store: Store) -> None:
    """Who deletes a job that runs and calls the next one the same uploads while the first one ends."""
    job = cluster.submit(name="train")
    Job.objects.update(created_at=timezone.now() - timedelta(hours=1))
    folder = uploaded(store, cluster, age=timedelta(minutes=1))
    purge(cluster, job)
    assert len(left(store, folder)) == 3 and lists(store, cluster) == ["train"]


@pytest.mark.parametrize(
    ("name", "asked", "stays"),
    [
        ("other", {"command": "cp -r /mnt/users/mira/code/train . && ls"}, True),
        ("other", {"command": "See /users/mira/code/train."}, True),
        ("other", {"codeDir": "/users/mira/code//train/project"}, True),
        ("other", {"codeDir": "$PAI_DEFAULT_FS_URI/users/$PAI_USERNAME/code/train"}, True),
        ("train", {"codeDir": "/users/mira/code/$PAI_JOB_NAME/project"}, True),
        ("train", {"command": "ls /mnt/users/mira/code/${PAI_JOB_NAME}"}, True),
        ("other", {"codeDir": "/users/mira/code/$PAI_JOB_NAME/project"}, False),
        ("train-2", {"codeDir": "/users/mira/code/train-2/project"}, False),
        ("other", {"codeDir": "/users/mira/code/Train/project"}, False),
    ],
)
def test_a_job_names_it_in_many_ways(
    cluster: Cluster, store: Store, name: str, asked: dict[str, str], stays: bool
) -> None:
    folder, first = uploaded(store, cluster), submitted(cluster)
    purge_rows(cluster, first)
    command = asked.pop("command", "true")
    cluster.submit(name=name, roles=[{"command": command}], **asked)
    discarded()
    assert bool(find(store, folder)) == stays


def test_a_template_names_it_also_as_other_programs_write_json(cluster: Cluster, store: Store) -> None:
    folder, config = uploaded(store, cluster), r'{"codeDir": "\/users\/mira\/code\/train\/project"}'
    Template.objects.create(user=cluster.owner, name="mine", config=config, changed_at=timezone.now())
    uploads.clean_up()
    assert len(left(store, folder)) == 3


@pytest.mark.parametrize("what", ["job", "template"])
def test_what_names_it_while_it_is_read_keeps_it(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    folder, sha1 = uploaded(store, cluster), uploads._sha1

    def reads(*file: Any) -> str:
        monkeypatch.setattr(uploads, "_sha1", sha1)
        config = f'{{"codeDir": "{folder}/project"}}'
        if what == "job":
            submitted(cluster, "again")
        else:
            Template.objects.create(user=cluster.owner, name="mine", config=config, changed_at=timezone.now())
        return sha1(*file)

    monkeypatch.setattr(uploads, "_sha1", reads)
    uploads.clean_up()
    assert len(left(store, folder)) == 3 and lists(store, cluster) == ["train"]


def test_the_specs_are_gone_through_once_for_however_many(cluster: Cluster, store: Store) -> None:
    names = [f"train-{at}" for at in range(9)]
    for name in names:
        uploaded(store, cluster, name)
        submitted(cluster, f"of-{name}", name)
    with CaptureQueriesContext(connection) as queries:
        uploads.clean_up()
    assert lists(store, cluster) == names and len(queries) <= 5
    Job.objects.all().delete()
    with CaptureQueriesContext(connection) as queries:
        uploads.clean_up()
    assert lists(store, cluster) == []
    assert len([each for each in queries if '"username" IN' in each["sql"]]) == 1


def test_a_job_that_is_deleted_and_still_runs_keeps_it(cluster: Cluster, store: Store) -> None:
    cluster.add_node()
    folder, job = uploaded(store, cluster), submitted(cluster)
    cluster.tick()
    cluster.work()
    services.delete(cluster.owner, job)
    uploads.clean_up()
    assert len(left(store, folder)) == 3


def test_a_template_and_a_live_job_of_somebody_else_keep_it(cluster: Cluster, store: Store) -> None:
    folder = uploaded(store, cluster)
    template = Template.objects.create(
        user=cluster.owner, name="mine", config=f'{{"codeDir": "{folder}/project"}}', changed_at=timezone.now()
    )
    uploads.clean_up()
    template.delete()
    job = submitted(cluster)
    Job.objects.filter(pk=job.pk).update(username="somebody", name="theirs")
    uploads.clean_up()
    assert len(left(store, folder)) == 3
    Job.objects.filter(pk=job.pk).update(state="FAILED")
    uploads.clean_up()
    assert find(store, folder) is None


def test_what_became_no_job_goes_a_day_later(cluster: Cluster, store: Store) -> None:
    young = uploaded(store, cluster, "young", age=timedelta(hours=23))
    part = "project/.train.py.0123456789ab-77.pai-fs-part"
    killed = uploaded(store, cluster, "killed", {"project/lib/a.py": b"1", part: b"pri"})
    nothing = uploaded(store, cluster, "nothing", {})
    uploads.clean_up()
    uploads.clean_up()
    assert [bool(find(store, each)) for each in (young, killed, nothing)] == [True, False, False]
    assert lists(store, cluster) == ["young"]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("project/train.py", b"print(1)"),
        ("project/train.py", b"prinT()"),
        ("project/results.csv", b"7"),
        ("results.csv", b"7"),
        ("project/.mine.py.0123456789ab.pai-fs-part", b"7"),
        ("project/own/x", b""),
    ],
)
def test_where_anything_was_added_or_changed_all_of_it_stays_for_good(
    cluster: Cluster, store: Store, path: str, content: bytes
) -> None:
    folder = uploaded(store, cluster)
    store.write(f"{folder}/{path}", [content])
    before = left(store, folder)
    purge(cluster, submitted(cluster))
    assert left(store, folder) == before and path in " ".join(before)
    assert lists(store, cluster) == []


def test_an_empty_folder_that_somebody_made_stays_too(cluster: Cluster, store: Store) -> None:
    folder = uploaded(store, cluster)
    store.mkdirs(f"{folder}/project/mine")
    uploads.clean_up()
    assert len(left(store, folder)) == 3 and find(store, f"{folder}/project/mine")


def test_what_comes_into_the_folder_while_it_is_removed_stays(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, delete = uploaded(store, cluster), type(store).delete

    def comes(self: Store, path: str, *, recursive: bool = False) -> None:
        monkeypatch.setattr(type(store), "delete", delete)
        self.write(f"{folder}/project/lib/mine", [b"x"])
        delete(self, path, recursive=recursive)

    monkeypatch.setattr(type(store), "delete", comes)
    uploads.clean_up()
    assert left(store, folder) == [f"{folder}/project/lib/mine"]


@pytest.mark.parametrize("content", [b"print(1)", b"print()"])
def test_a_file_that_is_written_anew_while_others_are_removed_stays(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Also where it is as it was: the next run uploads while a second host is still at what was there before."""
    folder, delete = uploaded(store, cluster), type(store).delete
    for each in left(store, folder):
        store.change(each, modified_at=timezone.now() - LONG_AGO)

    def comes(self: Store, path: str, *, recursive: bool = False) -> None:
        monkeypatch.setattr(type(store), "delete", delete)
        self.write(f"{folder}/project/train.py", [content])
        self.write(f"/users/{cluster.owner.username}/code/.longshore/train", [b"anew"])
        delete(self, path, recursive=recursive)

    monkeypatch.setattr(type(store), "delete", comes)
    uploads.clean_up()
    assert f"{folder}/project/train.py" in left(store, folder) and lists(store, cluster) == ["train"]


def test_a_file_where_the_folder_was_stays(cluster: Cluster, store: Store) -> None:
    folder = uploaded(store, cluster)
    store.delete(folder, recursive=True)
    store.write(folder, [b"mine"])
    purge(cluster, submitted(cluster))
    assert left_is_file(store, folder) and lists(store, cluster) == []


def left_is_file(store: Store, path: str) -> bool:
    found = find(store, path)
    return found is not None and not found.is_dir


@pytest.mark.parametrize("path", ["code/.longshore", "code", ""])
def test_a_file_where_somebodys_lists_would_be_is_in_nobodys_way(cluster: Cluster, store: Store, path: str) -> None:
    folder = uploaded(store, cluster)
    store.write(f"/users/aaa/{path}".rstrip("/"), [b"x"])
    uploads.clean_up()
    assert find(store, folder) is None


def test_while_one_is_at_it_another_does_nothing(cluster: Cluster, store: Store) -> None:
    folder = uploaded(store, cluster)
    purge_rows(cluster, submitted(cluster))
    with discard._discarding, uploads._cleaning:
        uploads.clean_up()
        discard.discard_all(list(Discarded.objects.values_list("id", flat=True)))
        assert len(left(store, folder)) == 3 and Discarded.objects.count() == 1
    discarded()
    assert find(store, folder) is None


def test_a_folder_without_a_list_is_none_of_ours(cluster: Cluster, store: Store) -> None:
    store.write(f"{code(cluster)}/project/train.py", [b"print()"])
    purge(cluster, submitted(cluster))
    uploads.clean_up()
    assert len(left(store, code(cluster))) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"folders": [], "files": {"a": 1}}', "[" * 100_000, "\x00"),
        *(f'{{"folders": [], "files": {{"a": [{size}, ""]}}}}' for size in ("1e999", "NaN", "9" * 5000)),
    ],
)
def test_a_list_that_is_none_removes_nothing_and_holds_up_nobody(cluster: Cluster, store: Store, text: str) -> None:
    folder = uploaded(store, cluster)
    listed = f"/users/{cluster.owner.username}/code/.longshore/train"
    store.write(listed, [text.encode()])
    store.change(listed, modified_at=timezone.now() - LONG_AGO)
    purge(cluster, submitted(cluster))
    assert len(left(store, folder)) == 3 and lists(store, cluster) == []


def test_more_than_a_job_takes_along_is_not_read_and_stays(cluster: Cluster, store: Store, settings: Any) -> None:
    folder, settings.CODE_LIMIT = uploaded(store, cluster), 7
    uploads.clean_up()
    assert len(left(store, folder)) == 3


def test_a_store_that_is_down_delays_it(cluster: Cluster, store: Store, settings: Any) -> None:
    folder, job = uploaded(store, cluster), submitted(cluster)
    services.delete(cluster.owner, job)
    cluster.settle()
    settings.STORE_URL = "webhdfs://127.0.0.1:9"
    discard.discard_all(list(Discarded.objects.values_list("id", flat=True)))
    uploads.clean_up()
    settings.STORE_URL = ""
    assert len(left(store, folder)) == 3 and Discarded.objects.count() == 1
    purge(cluster, submitted(cluster, "other"))
    assert find(store, folder) is None


def test_a_worker_is_ordered_to_look_for_what_is_left() -> None:
    orders.ask_to_clean_up_uploads()
    assert OrmQ.objects.get().func() == "jobs.containers.tasks.clean_up_uploads"
