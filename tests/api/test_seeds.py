"""The complete examples of the documents that users have, sent as they are printed, comments included."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rest_framework.test import APIClient

from base.models import User
from clusters.models import VirtualCluster
from jobs.config import jsonc

Api = Callable[[User | None], APIClient]
SEEDS = sorted((Path(__file__).parents[1] / "unit" / "seeds").glob("*.jsonc"))
each_seed = pytest.mark.parametrize("seed", SEEDS, ids=[path.stem for path in SEEDS])
API = "/rest-server/api/v1"


@pytest.fixture(autouse=True)
def your_virtual_cluster(db: None) -> None:
    VirtualCluster.objects.create(name="your_virtual_cluster", capacity=0, max_capacity=100)


def test_there_is_one_of_each_document() -> None:
    assert [path.stem for path in SEEDS] == ["000", "001", "002", "003", "004"]


@each_seed
@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_it_is_accepted_verbatim(api: Api, admin: User, seed: Path, kind: str) -> None:
    text = seed.read_text()
    answer = api(admin).post(f"{API}/user/admin/jobs", text, content_type=kind)
    assert answer.status_code == 201, answer.content
    assert answer.json()["jobStatus"]["state"] == "WAITING"
    obsolete = "killAllOnCompletedTaskNumber" in text
    assert answer.headers.get("X-Warning", "").startswith("killAllOnCompletedTaskNumber has been obsoleted") == obsolete


@each_seed
def test_it_is_accepted_by_put_and_its_config_comes_back(api: Api, admin: User, seed: Path) -> None:
    assert api(admin).put(f"{API}/jobs/mine", seed.read_text(), content_type="application/json").status_code == 201
    config = api(admin).get(f"{API}/user/admin/jobs/mine/config").json()
    assert config == jsonc.parse(seed.read_text()).value


@each_seed
def test_it_is_accepted_without_its_comments(api: Api, admin: User, seed: Path) -> None:
    plain = json.dumps(jsonc.parse(seed.read_text()).value)
    assert api(admin).post(f"{API}/jobs", plain, content_type="application/json").status_code == 201


@each_seed
def test_it_has_no_problem(api: Api, admin: User, seed: Path) -> None:
    found = api(admin).post(f"{API}/jobs/validate", seed.read_text(), content_type="application/json").json()
    assert (found["valid"], found["errors"]) == (True, [])
