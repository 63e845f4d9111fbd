"""Every operation of the API's document, asked in a portal in which much is going on: the answer has the fields that
the document names, all of them and no others, and a body is checked by the model that the document shows.

That an answer has no other fields is what the client asks of each (tests/document.py), here and in all other tests.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from pydantic import BaseModel

from base.accounts import services as accounts
from base.accounts import tokens
from base.core.values import milliseconds
from base.models import ApiToken, SignInRule, Ticket, User
from clusters import models
from clusters.appointments import services as appointments
from clusters.engines import schemes
from clusters.models import Appointment, Node, VirtualCluster
from clusters.users import groups
from clusters.users import services as users
from jobs import services
from jobs.containers import ssh
from jobs.containers.ssh import Login
from jobs.forecast import play, refresh
from jobs.forecast.play import starts
from jobs.models import Attempt, Job, NoticeDelivery, Replay
from jobs.replay import run
from jobs.submitting import sweeps
from jobs.waiting import why
from jobs.web_pages import rights, shown
from tests import document
from tests.api.test_metrics import write
from tests.builders import make_node
from tests.cluster import IMAGE, Clock, Cluster
from tests.conftest import PASSWORD
from tests.fakes.runtime import FakeRuntime
from tests.helpers import LIMIT
from tests.history import HOUR, a_past, held
from tests.http import ApiClient
from tests.integration.test_processes import row
from tests.integration.test_sweeps import text
from tests.notices import channel, told
from tests.pages.test_diagnosis import FOUND
from tests.submitting import config

pytestmark = pytest.mark.django_db
Case = tuple[str, Any]  # what is put for the end of the path and its query, and the body
NEW = config("new")
SOON = milliseconds(timezone.now() + timedelta(hours=1))
# What the parts of paths are called here.
NAMES = {
    **{"username": "alice", "job": "runs", "role": "worker", "index": "0", "attempt": "1", "number": "1"},
    **{"stream": "stdout", "vc": "default", "group": "team", "name": "n1", "label": "web", "kind": "user"},
    "sweep": "alice~train",
    "channel": "hook",
}
# What is sent to routes that write, and what is asked besides of routes that read. Those of a job are the same at its
# two addresses, and those of v2 the same as v1's.
VALIDATED = (
    *(NEW, {**NEW, "retrycount": 1}),
    *(config("more", gpus=4, extras=extras) for extras in ({"priority": 100}, {}, {"dependsOn": ["waits"]})),
)
SENT: dict[str, Any] = {
    "POST /jobs/validate": VALIDATED,
    "POST /jobs": NEW,
    "POST /jobs/stop": {"jobs": ["runs", "over"]},
    "PUT /jobs/{job}": NEW,
    "POST /token": {"username": "alice", "password": PASSWORD},
    "POST /token/code": {"code": "code", "verifier": "v" * 43},
    "POST /authn/basic/login": {"username": "alice", "password": PASSWORD},
    "POST /user": {"username": "eve", "password": PASSWORD},
    "PUT /user": {"username": "eve", "password": PASSWORD, "modify": False},
    "DELETE /user": {"username": "bob"},
    "PUT /user/{username}/virtualClusters": {"virtualClusters": "vision"},
    "PUT /user/{username}/password": {"newPassword": PASSWORD},
    "PUT /user/{username}/virtualcluster": {"virtualCluster": ["vision"]},
    "PUT /user/{username}/admin": {"admin": True},
    "PUT /user/{username}/storequota": {"storeQuota": "1g"},
    "PUT /user/{username}/grouplist": {"grouplist": ["team"]},
    "PUT /user/{username}/group": {"groupname": "team"},
    "DELETE /user/{username}/group": {"groupname": "team"},
    "PUT /user/{username}/githubPAT": {"githubPAT": "abc"},
    "POST /group": {"groupname": "other"},
    "POST /nodes": {"name": "spare", "endpoint": "unix:///spare"},
    "PUT /nodes/{name}": {"labels": {"rack": "7"}},
    "PUT /nodes/{name}/status": {"nodeStatus": "cordoned"},
    "PUT /virtual-clusters/{vc}": {"vcCapacity": 10},
    "PUT /virtual-clusters/{vc}/status": {"vcStatus": "stopped"},
    "PUT /jobs/{job}/executionType": {"value": "STOP"},
    "PUT /jobs/{job}/priority": {"value": -5},
    "PUT /jobs/{job}/position": {"before": "alice~waits"},
    "POST /appointments": {"title": "Talk", "begin": SOON, "end": SOON + HOUR, "nodes": ["n1"]},
    "PUT /appointments/{id}": {"title": "Talks"},
    "POST /cluster/what-if": {"changes": ["node:n9:add:8:A100:64:512", "job:alice~runs:evict"]},
    "POST /sweeps": json.loads(text("other")),
    "POST /sweeps/validate": json.loads(text("other")),
    "PUT /sweeps/{sweep}/executionType": {"value": "STOP"},
    "POST /service-accounts": {"username": "robot", "owner": "alice"},
    "POST /service-accounts/{username}/tokens": {"name": "new", "days": 3, "scopes": ["jobs:read"]},
    "PUT /sign-in/rules": {"rules": [{"group": "staff", "virtualClusters": ["vision"], "priority": 3}]},
    "PUT /notices/read": {"upTo": 1},
    "PUT /notices/hours": {"on": True, "timeZone": "Europe/Berlin"},
    "POST /notices/channels": {"name": "new", "kind": "webhook", "target": "https://hooks.example.org/x"},
    "PUT /notices/channels/{channel}/rules/{kind}": {"minutes": 10, "digest": True},
}
# Other names than NAMES has, where an operation needs them or is asked once more with them.
WITH: dict[str, list[dict[str, str]]] = {
    "GET /jobs/{job}": [{"job": name} for name in ("runs", "waits", "behind", "after", "failed", "kept", "ends")],
    "PUT /jobs/{job}": [{"job": "new"}],
    "DELETE /jobs/{job}": [{"job": "failed"}],
    "GET /jobs/{job}/logs": [{"job": "failed"}],
    "GET /jobs/{job}/taskRoles/{role}/{index}/logs/{stream}": [{"job": "failed"}],
    "GET /jobs/{job}/taskRoles/{role}/{index}/logs/{attempt}": [{"job": "failed"}],
    "GET /jobs/{job}/taskRoles/{role}/{index}/logs/{attempt}/{stream}": [{"job": "failed"}],
    "GET /jobs/{job}/attempts": [{"job": "failed"}],
    "GET /jobs/{job}/attempts/{number}": [{"job": "failed"}],
    "GET /jobs/{job}/rewind": [{"job": "failed"}],
    "POST /jobs/{job}/rewind": [{"job": "failed"}],
    "POST /jobs/{job}/tensorboard": [{"job": "failed"}],
    "GET /jobs/{job}/why": [{"job": "waits"}, {"job": "behind"}],
    "PUT /jobs/{job}/priority": [{"job": "behind"}],
    "PUT /jobs/{job}/position": [{"job": "behind"}],
    "PUT /jobs/{job}/release": [{"job": "kept"}],
    "GET /nodes/{name}": [{}, {"name": "lab"}],
    "PUT /nodes/{name}/gone": [{"name": "n3"}],
    "DELETE /nodes/{name}": [{"name": "n2"}],
    "PUT /virtual-clusters/{vc}": [{"vc": "nlp"}],
    "PUT /virtual-clusters/{vc}/status": [{"vc": "vision"}],
    "DELETE /virtual-clusters/{vc}": [{"vc": "vision"}],
    "DELETE /user/{username}": [{"username": "bob"}],
    "GET /service-accounts/{username}/tokens": [{"username": "ci"}],
    "POST /service-accounts/{username}/tokens": [{"username": "ci"}],
    "DELETE /service-accounts/{username}/tokens/{id}": [{"username": "ci"}],
    "PUT /jobs/{job}/services/{role}/{index}/{label}/shares/{kind}/{name}": [{"name": "admin"}],
    "DELETE /jobs/{job}/services/{role}/{index}/{label}/shares/{kind}/{name}": [{"name": "bob"}],
    "PUT /notices/channels/{channel}/rules/{kind}": [{"kind": "failed"}],
    "DELETE /notices/channels/{channel}/rules/{kind}": [{"kind": "failed"}],
}
QUERIES = {"GET /cluster/what-if": "?change=job:alice~waits:priority:5&change=node:n2:drain"}
IDS: dict[str, Any] = {
    "/appointments/{id}": Appointment.objects.all(),
    "/cluster/replay/{id}": Replay.objects.all(),
    "/service-accounts/{username}/tokens/{id}": ApiToken.objects.filter(name="runner"),
}
OF_ALICE = ("/jobs", "/sweeps")


@pytest.fixture
def busy(alice: User, bob: User, admin: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A portal in which a job runs, one waits for it and one behind that, one has failed, one is kept and one ends."""
    settings.APPS_DOMAIN = "pages.example.org"
    settings.HOME, settings.METRICS_DIR = tmp_path, tmp_path / "metrics"
    monkeypatch.setattr(why, "SECONDS", LIMIT)
    monkeypatch.setattr(ssh, "logins", lambda *_: [Login("worker-0", "container_1", "10.0.0.1", 2222, "n1", True)])
    now = timezone.now()
    opens = f"/token/code/{hashlib.sha256(b'v' * 43).hexdigest()}"
    credential = f"token:{tokens.hash_of(tokens.issue(alice, 3600))}"
    code = ApiToken.hash_id("code")
    Ticket.objects.create(id_hash=code, path=opens, credential=credential, expires_at=now + timedelta(hours=1))
    a_past()
    VirtualCluster.objects.create(name="vision", capacity=10, max_capacity=20)
    cluster = Cluster(alice, Clock())
    cluster.add_node("n1", gpus=4, gpu_type="A100", labels={"rack": "7"})
    cluster.engines["unix:///spare"] = FakeRuntime(hostname="spare", images=frozenset({IMAGE}))
    failed = cluster.submit(name="failed")
    cluster.settle()
    cluster.engines["n1"].print(cluster.task(failed).container_name, b"one\n")
    cluster.finish(failed, 1)
    cluster.settle()
    Attempt.objects.filter(job=failed).update(diagnosis=FOUND)
    ports = [{"label": "web", "beginAt": 0, "portNumber": 1}]
    runs = cluster.submit(name="runs", roles=[{"name": "worker", "gpuNumber": 3, "portList": ports}])
    kept = cluster.submit(name="kept", jobEnvs={"isDebug": True})
    ends = cluster.submit(name="ends")
    cluster.settle()
    Job.objects.filter(pk=ends.pk).update(saved_at=now)
    services.stop(alice, ends)
    task = cluster.task(kept)
    cluster.engines[task.node].hold(task.container_name, 3)
    for name in ("waits", "behind"):
        cluster.submit(name=name, roles=[{"gpuNumber": 4}])
    cluster.submit(name="after", extras={"dependsOn": ["waits"]})
    monkeypatch.setattr(refresh, "starts", partial(starts, most=1))
    monkeypatch.setattr(play, "DRAWS", play.LEAST_DRAWS)
    assert refresh.refresh(600.0)
    services.submit(alice, json.dumps(config("old")), legacy=True)
    sweeps.submit(alice, text("train"))
    cluster.tick()
    write(runs, 0, int(time.time()) // 10 * 10 - 20, cpu=1, memory=100, gpu=50)
    rights.share(alice, runs, shown.find(runs, "worker", 0, "web"), "user", "bob", None)
    models.Cluster.objects.create(name="lab", endpoint="kubernetes://lab/longshore", port_from=20000, port_to=20100)
    make_node("n3", health="unreachable", health_reason="It does not answer.")
    Node.objects.filter(name="n3").update(cluster=models.Cluster.objects.get())
    make_node("n2", marks={"gpus": {"sentence": "It has none.", "until": None, "since": now.isoformat()}})
    row("one", "web")
    ci = users.create_user(admin, username="ci", password="", owner="alice")
    accounts.create_token(ci, "runner", 30, ["jobs:read"])
    SignInRule.objects.create(place=1, group="everybody")
    groups.create_group(admin, "team", description="", external_name="", extension={})
    groups.add_member(admin, "alice", "team")
    appointments.write(admin, {"title": "Move", "nodes": ["n3"], "begin": now, "end": now + timedelta(hours=1)})
    held(SOON - 5 * HOUR, SOON - 3 * HOUR)
    run.ask(admin, run.read_asked(begin="6h"))
    while run.play_next():
        pass
    channel(admin, "https://hooks.example.org/x")
    told(admin)
    yield cluster
    schemes.set_engine_factory(None)


def cases(path: str, method: str) -> Iterator[tuple[str, Any]]:
    """The addresses at which an operation is asked, and the body."""
    key = (
        f"{method.upper()} {path}".replace("/api/v1", "")
        .replace("/api/v2", "")
        .replace("/user/{username}/jobs", "/jobs")
    )
    for names in WITH.get(key, [{}]):
        names = {**NAMES, **({"username": "bob"} if "/user/{username}/" in key and method != "get" else {}), **names}
        if "/api/v1/jobs/{job}" in path:
            names["job"] = names["job"] if method == "put" and key == "PUT /jobs/{job}" else f"alice~{names['job']}"
        if (rows := IDS.get(path.removeprefix("/api/v1"))) is not None:
            names["id"] = rows.latest("pk").pk
        if "{delivery}" in path:
            names["delivery"] = NoticeDelivery.objects.get().uid
        sent = SENT.get(key)
        for body in sent if isinstance(sent, tuple) else (sent,):
            yield path.format(**names) + QUERIES.get(key, ""), body


def test_every_operation_is_answered_as_its_document_says(
    busy: Cluster, api: Callable[[User | None], ApiClient], alice: User, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: set[str] = set()
    validate = BaseModel.model_validate.__func__  # type: ignore[attr-defined]

    def noting(model: type[BaseModel], *given: Any, **how: Any) -> Any:
        checked.add(model.__name__)
        return validate(model, *given, **how)

    monkeypatch.setattr(BaseModel, "model_validate", classmethod(noting))
    clients = {user: api(user) for user in (alice, admin)}
    wrong, answered = [], set()
    for path, methods in document.document()["paths"].items():
        for method, operation in methods.items() if path.startswith("/api/") else ():
            is_alices = "/jobs" in path or "/sweeps" in path
            client = clients[alice if is_alices and not path.endswith("/position") else admin]
            for url, body in cases(path, method):
                checked.clear()
                with transaction.atomic():
                    answer = getattr(client, method)(url, body, format="json") if method != "get" else client.get(url)
                    transaction.set_rollback(True)
                if not 200 <= answer.status_code < 300:
                    wrong.append((method, url, answer.status_code, answer.content[:200]))
                elif not answer.streaming and answer["Content-Type"].startswith("application/json"):
                    answered |= set(document.named(path, method, str(answer.status_code), answer.json()))
                if "requestBody" in operation and not document.bodies(operation) & checked:
                    wrong.append((method, url, "is checked by", sorted(checked)))
    assert wrong == []
    asked = clients[alice].get("/api/v1/jobs", {"with": "userExitCode"}).json()
    answered |= set(document.named("/api/v1/jobs", "get", "200", asked))
    # A SweepJob has what each job of a list has.
    assert document.all_named() - answered == {"SweepJob.legacy", "SweepJob.userExitCode"}
