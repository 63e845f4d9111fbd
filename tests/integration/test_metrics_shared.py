"""Hosts that share a store have the same metrics: one samples, the others fetch, and whoever is next goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from base.files.store import open_store, rules
from base.files.store.base import StoreUnavailable, find
from base.files.store_actor import KnownAccounts
from base.models import User
from jobs.metrics import janitor, latest, places, ring, sharing
from jobs.metrics.sharing import FOLDER, SharedRings, pack, unpack
from tests.builders import make_job, make_node
from tests.helpers import LIMIT

pytestmark = pytest.mark.django_db
AT = 1_800_000_000
COLUMNS = ("cpu", "memory")
Host = Callable[[str], None]


@pytest.fixture(autouse=True)
def on_host(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """``on_host("b")``: from now on the process is host b's. All hosts have one store."""
    monkeypatch.setattr(sharing, "is_shared", lambda: True)
    monkeypatch.setattr("base.files.store.local_root", lambda: tmp_path / "store")

    def switch(name: str) -> None:
        settings.METRICS_DIR = tmp_path / name / "metrics"

    switch("a")
    return switch


def done(act: Callable[[list[Path]], None], of: SharedRings, *folders: Path) -> None:
    of._due = 0.0
    act([*folders])
    of.wait(LIMIT)


def test_what_one_host_samples_another_has_with_the_next_fetch(on_host: Host) -> None:
    sampling, waiting = SharedRings(), SharedRings()
    task = places.of_task("alice~job-1 ü", "worker", 0)
    for number in range(5):
        ring.write(task, COLUMNS, AT + 10 * number, [number, 1.0])
    ring.write(places.of_node("n%1"), COLUMNS, AT, [1.0, 2.0])
    ring.write(places.of_cluster(), COLUMNS, AT, [3.0, 4.0])
    done(sampling.push, sampling, task.parent, places.of_node("n%1").parent, places.root())
    before = ring.read(task, AT, AT + 100)
    on_host("b")
    task = places.of_task("alice~job-1 ü", "worker", 0)
    assert ring.summary(task) is None
    done(waiting.pull, waiting)
    assert ring.read(task, AT, AT + 100) == before
    assert ring.summary(places.of_node("n%1")) and ring.summary(places.of_cluster())
    assert task.stat().st_blocks * 512 < task.stat().st_size / 2, "what was never written takes no room"
    on_host("a")
    ring.write(places.of_task("alice~job-1 ü", "worker", 0), COLUMNS, AT + 50, [5, 1.0])
    done(sampling.push, sampling, places.of_attempt("alice~job-1 ü"))
    on_host("b")
    done(waiting.pull, waiting, places.of_attempt("alice~job-1 ü"))
    assert (found := ring.summary(task)) and found.at == AT + 50


def test_an_older_file_takes_the_place_of_no_newer_one(on_host: Host) -> None:
    path = places.of_node("n1")
    latest.write("n1", AT, ring.write(path, COLUMNS, AT, [1.0, 1.0]), {}, {})
    older = pack(path.parent)
    latest.write("n1", AT + 10, ring.write(path, COLUMNS, AT + 10, [2.0, 2.0]), {}, {})
    newer = pack(path.parent)
    unpack(older, path.parent)
    assert (found := ring.summary(path)) and found.at == latest.read("n1").at == AT + 10
    unpack(b"nonsense", path.parent)
    assert sorted(os.listdir(path.parent)) == ["latest.json", "node.ring"]
    on_host("b")
    path = places.of_node("n1")
    for pack_of, at in ((older, AT), (newer, AT + 10)):
        unpack(pack_of, path.parent)
        assert (found := ring.summary(path)) and found.at == latest.read("n1").at == at


def test_a_store_that_is_down_stops_no_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> None:
        raise StoreUnavailable

    sampling = SharedRings()
    ring.write(places.of_node("n1"), COLUMNS, AT, [1.0, 1.0])
    with monkeypatch.context() as patch:
        patch.setattr(sharing, "open_store", down)
        done(sampling.push, sampling, places.of_node("n1").parent)
    done(sampling.push, sampling, places.of_node("n1").parent)
    assert find(open_store(), f"{FOLDER}/nodes/n1")


def test_what_belongs_to_no_attempt_goes_from_the_store_too() -> None:
    job = make_job("alice", "job", state="RUNNING", node=make_node("n1"))
    app_id = job.attempts.get().app_id
    sampling = SharedRings()
    for name in (app_id, "gone"):
        ring.write(places.of_task(name, "worker", 0), COLUMNS, AT, [1.0, 1.0])
    done(sampling.push, sampling, places.of_attempt(app_id), places.of_attempt("gone"))
    sharing.clean_up(janitor._known, 0.0)
    assert [entry.path for entry in open_store().list(f"{FOLDER}/attempts")] == [
        sharing._name(places.of_attempt(app_id))
    ]


def test_no_user_sees_what_the_portal_keeps_for_itself(alice: User) -> None:
    store, accounts = open_store(), KnownAccounts()
    alices = rules.Rights("alice", False, accounts)
    store.write(f"{FOLDER}/nodes/n1", [b"x"])
    for path in ("/.longshore", FOLDER, f"{FOLDER}/nodes/n1"):
        assert not alices.may_read(path) and rules.Rights("root", True, accounts).may_read(path)
        assert not alices.may_write(path)
    assert alices.visible(store.list("/")) == []
