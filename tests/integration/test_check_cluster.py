"""A check of the cluster from its first job to its last: who may, what it says, and that it leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django_q.models import OrmQ

from base.core.errors import Forbidden
from base.models import AuditEvent, User
from clusters.engines import schemes
from clusters.engines.runtime import LABEL_JOB, Phase
from clusters.models import Node, VirtualCluster
from jobs import queries
from jobs.checking import run
from jobs.checking.plan import ON_PURPOSE, PREFIX
from jobs.models import Job
from tests.cluster import Clock, Cluster, config
from tests.helpers import LIMIT

pytestmark = pytest.mark.django_db(transaction=True)
AMPLE = int(LIMIT)  # seconds for a check that ends by itself
Browse = Callable[[User | None], Client]


class Checked(Cluster):
    """Two nodes, whose second jobs print what ``prints`` says and fail as they are to."""

    def __init__(self, owner: User) -> None:
        super().__init__(owner, Clock())
        self.prints: dict[str, str] = {}
        for name in ("n1", "n2"):
            self.add_node(name)

    def go_on(self) -> None:
        self.settle()
        for node, engine in self.engines.items():
            for status in engine.list():
                if status.phase is Phase.RUNNING and "-look-" in status.labels[LABEL_JOB]:
                    engine.print(status.name, f"{self.prints.get(node, '')}\ngpus 0\nseen by {node}\n".encode())
                    engine.finish(status.name, ON_PURPOSE)


@pytest.fixture
def cluster(admin: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checked]:
    """Its world goes on while the check waits."""
    cluster = Checked(admin)
    monkeypatch.setattr(run, "_pause", lambda _: cluster.go_on())
    yield cluster
    schemes.set_engine_factory(None)


def test_it_says_what_works_and_leaves_nothing(cluster: Checked, admin: User) -> None:
    cluster.prints["n1"] = "peer n2 ok"
    cluster.prints["n2"] = "peer n1 ok"
    rows = run.check(admin, seconds=AMPLE)
    assert [(row.node, row.works, row.says) for row in rows] == [("n1", True, []), ("n2", True, [])]
    assert not queries.visible_jobs().filter(name__startswith=PREFIX).exists()
    cluster.settle()
    assert not any(engine.list() for engine in cluster.engines.values())
    assert AuditEvent.objects.filter(action=run.ENDED).get().data["works"] == 2


def test_it_is_cleaned_up_when_it_is_interrupted(cluster: Checked, admin: User, monkeypatch: Any) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_pause", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.check(admin, seconds=AMPLE)
    assert Job.objects.filter(name__startswith=PREFIX, deleted_at__isnull=False).count() == 2
    assert not queries.visible_jobs().filter(name__startswith=PREFIX).exists()


def test_a_node_of_a_virtual_cluster_is_checked_by_its_jobs(cluster: Checked, admin: User) -> None:
    Node.objects.filter(name="n2").update(dedicated_to=VirtualCluster.objects.create(name="vision", capacity=0))
    rows = {row.node: row for row in run.check(admin, seconds=AMPLE)}
    assert "start" not in rows["n2"].failed


def test_a_job_that_waits_says_what_for(cluster: Checked, admin: User, monkeypatch: Any) -> None:
    passed = [0.0]

    def pause(seconds: float) -> None:
        passed[0] += seconds
        cluster.go_on()

    monkeypatch.setattr(run, "_pause", pause)
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: passed[0]))  # time passes in pauses alone
    VirtualCluster.objects.filter(name="default").update(user_jobs=1)
    said = [sentence for row in run.check(admin, seconds=2) for sentence in row.says]
    assert any("Its job still waits: A user may run 1 job at once in VC default." in sentence for sentence in said)


@pytest.mark.parametrize("name,stays", [("mine", True), ("101112-serve-n1", False)])
def test_what_an_earlier_check_has_left_goes_and_other_jobs_stay(
    cluster: Checked, admin: User, name: str, stays: bool
) -> None:
    cluster.submit(config(f"{PREFIX}{name}"))
    run.check(admin, seconds=AMPLE)
    assert queries.visible_jobs().filter(name=f"{PREFIX}{name}").exists() is stays


def test_a_second_check_leaves_the_jobs_of_the_first_one_alone(cluster: Checked, admin: User) -> None:
    cluster.submit(config(f"{PREFIX}101112-serve-n1"))
    AuditEvent.objects.create(actor="admin", action=run.BEGUN, data={"seconds": 3600})
    run.check(admin, seconds=AMPLE)
    assert queries.visible_jobs().filter(name=f"{PREFIX}101112-serve-n1").exists()


def test_the_command_tells_a_script_by_its_exit_code(cluster: Checked, admin: User, capsys: Any) -> None:
    cluster.prints["n1"] = "peer n2 failed"
    cluster.prints["n2"] = "peer n1 ok"
    with pytest.raises(SystemExit) as ended:
        call_command("check_cluster", seconds=AMPLE, json=True)
    assert ended.value.code == 1
    told = {row["node"]: row for row in json.loads(capsys.readouterr().out)}
    assert [name for name, row in told.items() if not row["works"]] == ["n2"], "nobody reaches it"
    with pytest.raises(CommandError):
        call_command("check_cluster", "nowhere")


def test_nodes_that_are_not_offered_are_told_and_not_checked(cluster: Checked, admin: User) -> None:
    Node.objects.filter(name="n2").update(status="cordoned")
    rows = {row.node: row for row in run.check(admin, seconds=AMPLE)}
    assert rows["n2"].says == ["Not checked: cordoned."]
    assert rows["n1"].works


def test_only_admins_check(browse: Browse, admin: User, alice: User) -> None:
    with pytest.raises(Forbidden):
        run.check(alice)
    assert browse(alice).post("/check-cluster").status_code == 403
    assert browse(None).get("/check-cluster").status_code == 302
    assert "No check so far" in browse(admin).get("/check-cluster").content.decode()
    before = OrmQ.objects.count()
    assert browse(admin).post("/check-cluster").status_code == 302
    assert OrmQ.objects.count() == before + 1


def test_the_page_shows_what_failed(browse: Browse, admin: User) -> None:
    row = {"node": "n1", "failed": {"gpu": "It has none."}, "untried": {}, "skipped": ""}
    AuditEvent.objects.create(actor="admin", action=run.ENDED, data={"rows": [row], "nodes": 2, "works": 1})
    shown = browse(admin).get("/check-cluster").content.decode()
    assert "1 of 2 nodes work" in shown
    assert "It has none. Install nvidia-container-toolkit" in shown
