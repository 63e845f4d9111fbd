"""GET .../ssh: v1's answer, and who gets the key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from base.accounts import tokens
from base.files.store import delegation, open_store
from base.models import User
from jobs import queries
from jobs.containers import publish, ssh
from jobs.models import Job, Task
from portal.webhdfs.messages import Request, params_in
from portal.webhdfs.operations import respond
from tests.builders import make_job
from tests.helpers import LIMIT

pytestmark = pytest.mark.django_db
Api = Callable[[User | None], APIClient]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sshd is a thread of this process, and may be slow to greet."""
    monkeypatch.setattr(ssh, "PATIENCE", LIMIT)
    monkeypatch.setattr(ssh, "_ALTOGETHER", LIMIT)


@pytest.fixture
def sshd() -> Iterator[int]:
    """The port of something that greets as an sshd does."""
    server = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        while True:
            try:
                wire, _ = server.accept()
            except OSError:
                return
            with wire:
                wire.sendall(b"SSH-2.0-test\r\n")

    thread = threading.Thread(target=greet)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


@pytest.fixture
def job(alice: User, sshd: int, tmp_path: Path, settings: Any) -> Job:
    settings.DEFAULT_FS_URI = "hdfs://nn:9000"
    cache.clear()
    job = make_job("alice", "train", state="RUNNING", task_state="RUNNING", tasks=2)
    first, second = Task.objects.filter(job=job).order_by("id")
    Task.objects.filter(pk=first.pk).update(address="127.0.0.1", ports={"ssh": [sshd]})
    Task.objects.filter(pk=second.pk).update(address="127.0.0.1", ports={"ssh": [9]})  # nobody is there
    return job


def test_it_names_the_containers_that_answer_and_where_the_key_is(api: Api, alice: User, job: Job, sshd: int) -> None:
    for path in ("user/alice/jobs/train", "jobs/alice~train"):
        answer = api(alice).get(f"/api/v1/{path}/ssh")
        assert answer.status_code == 200
        (container,) = answer.json()["containers"]
        assert (container["sshIp"], container["sshPort"]) == ("127.0.0.1", str(sshd))
        assert container["id"].startswith("container_e03_") and container["id"].endswith("_000002")
        keys = answer.json()["keyPair"]
        assert keys["folderPath"] == "hdfs://nn:9000/Container/alice/alice~train/ssh/keyFiles"
        assert (keys["privateKeyFileName"], keys["publicKeyFileName"]) == ("alice~train", "alice~train.pub")


def test_the_link_opens_the_key_and_nothing_else(api: Api, alice: User, job: Job) -> None:
    link = api(alice).get("/api/v1/user/alice/jobs/train/ssh").json()["keyPair"]["privateKeyDirectDownloadLink"]
    parts = urlsplit(link)
    assert (parts.scheme, parts.netloc) == ("http", "testserver")
    path = "/Container/alice/alice~train/ssh/keyFiles/alice~train"
    assert parts.path == f"/webhdfs/v1{path}"
    query = parse_qs(parts.query)
    found = delegation.read(query["delegation"][0])
    assert "&" not in link and found is not None and found.user == alice
    assert found.allows("OPEN", path) and not found.allows("OPEN", path + ".pub")
    assert found.expires_at is not None


def test_the_link_is_enough_as_it_stands_and_the_key_is_where_the_first_releases_had_it(
    api: Api, alice: User, bob: User, job: Job, settings: Any, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    for end in ("", ".pub"):
        open_store().write(publish.key_path("alice", "alice~train") + end, [b"KEY"])
    link = api(alice).get("/api/v1/user/alice/jobs/train/ssh").json()["keyPair"]["privateKeyDirectDownloadLink"]
    parts = urlsplit(link)
    key = respond(Request("GET", parts.path.removeprefix("/webhdfs/v1"), params_in(parts.query.encode())))
    assert key.status == 200 and b"".join(key.body) == b"KEY"
    app = queries.current_attempt(job).app_id
    asked = [(alice, "train", 200), (alice, "alice~train", 200), (alice, "other", 404), (bob, "train", 403)]
    for user, name, status in asked:
        headers = {"authorization": f"Bearer {tokens.issue(user, 3600)}"}
        for end in ("", ".pub"):
            path = f"/Container/alice/{name}/ssh/{app}/.ssh/{app}{end}"
            assert respond(Request("GET", path, {"op": "OPEN"}, headers)).status == status, (user, path)


def test_others_see_where_but_get_no_token_for_the_key(api: Api, bob: User, admin: User, job: Job) -> None:
    link = api(bob).get("/api/v1/user/alice/jobs/train/ssh").json()["keyPair"]["privateKeyDirectDownloadLink"]
    assert "delegation" not in link
    link = api(admin).get("/api/v1/user/alice/jobs/train/ssh").json()["keyPair"]["privateKeyDirectDownloadLink"]
    assert "delegation" in link
    assert api(None).get("/api/v1/user/alice/jobs/train/ssh").status_code == 401


def test_guests_get_a_link_that_opens_where_the_gateway_believes_a_name(
    api: Api, alice: User, job: Job, settings: Any
) -> None:
    settings.ANONYMOUS_READ = "all"
    for network, is_admin, opens in (
        ("10.0.0.0/8", False, False),
        ("127.0.0.0/8", False, True),
        ("127.0.0.1/32", True, False),
    ):
        settings.WEBHDFS_TRUST = [ip_network(network)]
        User.objects.filter(username="alice").update(is_admin=is_admin)
        keys = api(None).get("/api/v1/user/alice/jobs/train/ssh").json()["keyPair"]
        assert ("delegation" in keys["privateKeyDirectDownloadLink"]) is opens, network


def test_a_job_whose_containers_do_not_answer_has_no_ssh_info(api: Api, alice: User, job: Job) -> None:
    cache.clear()
    Task.objects.filter(job=job).update(ports={"ssh": [9]})
    answer = api(alice).get("/api/v1/user/alice/jobs/train/ssh")
    assert answer.status_code == 404
    assert answer.json() == {"code": "NoJobSshInfoError", "message": "SSH info of job train is not found."}


def test_who_answered_once_is_not_asked_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = job.attempts.get()
    assert [login.answers for login in ssh.logins(job, attempt)] == [True, False]
    asked: list[int] = []
    monkeypatch.setattr(ssh, "_is_sshd", lambda address, port: asked.append(port))
    assert [login.answers for login in ssh.logins(job, attempt)] == [True, False]
    assert asked == [9]
