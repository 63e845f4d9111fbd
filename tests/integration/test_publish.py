"""What a job leaves in the store beside its logs, also when the store was away for a while."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key
from django.db import connection
from django_q.models import OrmQ

from base.files.store import open_store
from base.files.store.base import PathNotFound
from base.models import UserKey
from jobs.containers import publish, sshkeys, tasks
from jobs.models import JobKey
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path
    settings.DEFAULT_FS_URI = "hdfs://nn:9000"


def test_config_keys_and_output_folder_are_there_before_the_command_runs(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit(name="mnist")
    cluster.tick()
    cluster.work()
    store, user = open_store(), cluster.owner.username
    folder = f"/Container/{user}/{user}~mnist"
    with store.open_read(f"{folder}/JobConfig.json") as file:
        assert json.loads(file.read())["jobName"] == "mnist"
    assert {entry.name for entry in store.list(folder)} == {"JobConfig.json", "log", "ssh", "tmp"}
    assert {(e.owner, e.mode) for e in store.list(folder) if e.name in ("log", "tmp")} == {(user, 0o755)}
    private = store.stat(f"{folder}/ssh/keyFiles/{user}~mnist")
    assert (private.owner, private.mode) == (user, 0o600)
    assert store.stat(f"/Output/{user}/mnist").owner == user
    assert store.stat("/Container").mode == 0o777
    assert cluster.job(job).published_at is not None


def test_the_config_in_the_store_is_plain_json_whatever_was_sent(cluster: Cluster) -> None:
    cluster.add_node()
    role = '{"name": "main", "command": "echo \\"é\\" // none", "taskNumber": "1",}'
    job = cluster.submit('{"jobName": "mnist", /* mine */ "image": "i", "taskRoles": [' + role + "]} // end")
    cluster.tick()
    cluster.work()
    user = cluster.owner.username
    sent = {"name": "main", "command": 'echo "é" // none', "taskNumber": "1"}
    expected = json.dumps({"jobName": "mnist", "image": "i", "taskRoles": [sent]}, indent=2, ensure_ascii=False)
    assert open_store().open_read(f"/Container/{user}/{user}~mnist/JobConfig.json").read().decode() == expected
    assert "/* mine */" in cluster.job(job).config


def test_a_folder_for_output_that_the_user_names_is_his_own_business(cluster: Cluster) -> None:
    cluster.add_node()
    cluster.submit(name="mnist", outputDir="$PAI_DEFAULT_FS_URI/elsewhere")
    cluster.tick()
    cluster.work()
    for path in ("/elsewhere", f"/Output/{cluster.owner.username}"):
        with pytest.raises(PathNotFound):
            open_store().stat(path)


def test_a_store_that_is_down_delays_only_the_files(cluster: Cluster, settings: Any) -> None:
    cluster.add_node()
    settings.STORE_URL = "webhdfs://127.0.0.1:9"
    job = cluster.submit(name="mnist")
    cluster.tick()
    cluster.work()
    cluster.tick()
    assert cluster.task(job).state == "RUNNING"
    assert cluster.job(job).published_at is None
    settings.STORE_URL = ""
    publish.order_due()
    assert OrmQ.objects.count() == 0, "a young job publishes itself"
    cluster.ahead(11)
    publish.order_due()
    publish.publish_all([job.pk])
    assert open_store().stat(f"/Container/{job.username}/{job.full_name}/JobConfig.json").size
    assert cluster.job(job).published_at is not None
    cluster.lose_orders()
    publish.order_due()
    assert OrmQ.objects.count() == 0, "once is enough"


@pytest.mark.django_db(transaction=True)
def test_a_gang_that_starts_together_is_published_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    job, written = cluster.submit(), []
    store = open_store()

    class Counting(type(store)):  # type: ignore[misc]
        def write(self, path: str, *args: Any, **more: Any) -> int:
            written.append(path)
            return int(super().write(path, *args, **more))

    monkeypatch.setattr(publish, "open_store", lambda: Counting(store.root))

    def start() -> None:
        publish.publish_job(job.pk)
        connection.close()

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == len(set(written)) == 3
    assert cluster.job(job).published_at is not None


def test_a_job_that_only_waits_leaves_nothing_and_one_that_started_is_published_when_it_is_due(
    cluster: Cluster,
) -> None:
    job = cluster.submit(name="mnist")  # there is no node
    cluster.ahead(11)
    publish.order_due()
    assert OrmQ.objects.count() == 0
    cluster.add_node()
    cluster.tick()
    cluster.lose_orders()
    cluster.ahead(11)
    publish.order_due()
    (row,) = OrmQ.objects.all()
    assert row.func() == "jobs.containers.tasks.publish"
    tasks.publish_all([job.pk])
    assert cluster.job(job).published_at is not None


def test_every_attempt_has_the_same_key_and_the_user_s_own_beside_it(cluster: Cluster) -> None:
    UserKey.objects.create(user=cluster.owner, name="laptop", text="ssh-ed25519 AAAA laptop", fingerprint="SHA256:x")
    runtime = cluster.add_node()
    job = cluster.submit(retryCount=1)
    found = []
    for _ in range(2):
        cluster.tick()
        cluster.work()
        files = runtime.files_of(cluster.task(job).container_name)
        found.append((files["/pai/secrets/ssh.key"], files["/pai/bootstrap/ssh.authorized"].decode()))
        cluster.tick()
        cluster.finish(job, 3)
        cluster.tick()
        cluster.work()  # the next attempt waits for the diagnosis of this one
        cluster.tick()
    assert found[0] == found[1]
    job_line, own = found[0][1].splitlines()
    assert job_line.endswith(job.full_name) and own == "ssh-ed25519 AAAA laptop"


def test_the_private_key_lies_sealed_in_the_database_and_goes_with_the_job(cluster: Cluster) -> None:
    job = cluster.submit()
    pair = sshkeys.key_of(job.pk, "a~b")
    assert pair == sshkeys.key_of(job.pk, "a~b")
    assert "PRIVATE" not in JobKey.objects.get(pk=job.pk).private
    job.delete()
    assert not JobKey.objects.exists()


def test_keys_are_of_the_form_that_was_asked_for() -> None:
    modern, old = sshkeys.generate("ed25519", "c"), sshkeys.generate("rsa", "c")
    assert modern.public.startswith("ssh-ed25519 ") and modern.public.endswith(" c")
    assert modern.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    load_ssh_private_key(modern.private.encode(), None)
    assert old.public.startswith("ssh-rsa ") and old.private.startswith("-----BEGIN RSA PRIVATE KEY-----")
    load_pem_private_key(old.private.encode(), None)


@pytest.mark.parametrize("length", [250, 246, 231])
def test_a_very_long_name_is_shortened_in_the_store_and_only_there(cluster: Cluster, length: int) -> None:
    """With the user's it may have 256 characters, one more than a file system takes."""
    cluster.add_node()
    job = cluster.submit(name="a" * length)
    cluster.tick()
    cluster.work()
    cluster.tick()
    cluster.finish(job)
    cluster.settle()
    assert cluster.job(job).published_at is not None
    assert cluster.containers() == [], "its log was kept"
    (folder,) = open_store().list(f"/Container/{cluster.owner.username}")
    assert folder.name.startswith(f"{job.full_name[:200]}a")
    assert {entry.name for entry in open_store().list(folder.path)} == {"JobConfig.json", "log", "ssh", "tmp"}
