"""GET and POST /cluster/replay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from base.models import User
from jobs.replay import run
from tests.builders import make_node
from tests.history import HOUR, held
from tests.http import ApiClient

Api = Callable[[User | None], ApiClient]
pytestmark = pytest.mark.django_db
URL = "/api/v1/cluster/replay"


def a_day() -> None:
    now = time.time_ns() // 1_000_000
    make_node("gpu-01", gpus=2)
    held(now - 5 * HOUR, now - 3 * HOUR, gpus=2, gpu_ids="0,1")
    held(now - 3 * HOUR, now - 2 * HOUR, gpus=1, gpu_ids="0", waited=HOUR)


def test_a_day_is_asked_for_played_and_read(api: Api, admin: User) -> None:
    a_day()
    asked = api(admin).post(URL, {"from": "6h", "policy": "fifo", "nodes": 2}, format="json")
    assert asked.status_code == 202
    shown = asked.json()
    assert (shown["policy"], shown["nodes"], shown["progress"], shown["result"]) == ("fifo", 2, 0, None)
    assert shown["to"] - shown["from"] == 6 * HOUR and shown["askedBy"] == "admin"
    while run.play_next():
        pass
    done = api(admin).get(f"{URL}/{shown['id']}").json()
    before, after = done["result"]["before"], done["result"]["after"]
    assert (done["progress"], done["error"], done["result"]["jobs"]) == (100, "", 2)
    assert before["waits"]["1 GPU"]["mean"] == pytest.approx(3600) and after["waits"]["1 GPU"]["mean"] < 60
    assert done["result"]["whole"] == {"before": 2, "after": 4}
    [listed] = api(admin).get(URL).json()
    assert (listed["id"], listed["progress"], listed["result"]) == (shown["id"], 100, None)


def test_without_a_body_it_is_the_last_day_under_the_own_policy(api: Api, admin: User) -> None:
    shown = api(admin).post(URL).json()
    assert (shown["policy"], shown["to"] - shown["from"]) == ("longshore", 24 * HOUR)


@pytest.mark.parametrize(
    "body",
    [
        *(
            {"policy": "x"},
            {"nodes": 11},
            {"nodes": {}},
            {"nodes": "many"},
            {"nodes": "nan"},
            {"nodes": 10**400},
            {"nodes": -(10**400)},
            {"from": []},
            {"more": 1},
        ),
        *({"changes": ["job:a~b:stop"]}, {"changes": "vc:a:+1"}, {"changes": [1]}, {"changes": 5}, []),
    ],
)
def test_what_is_wrong_is_said(api: Api, admin: User, body: Any) -> None:
    answer = api(admin).post(URL, body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


def test_one_that_is_not_there(api: Api, admin: User) -> None:
    assert api(admin).get(f"{URL}/{2**63}").status_code == 404
    assert api(admin).get(f"{URL}/7").status_code == 404


def test_it_is_for_admins(api: Api, alice: User) -> None:
    for client, status in ((api(alice), 403), (api(None), 401)):
        assert client.post(URL, {}, format="json").status_code == status
        assert client.get(URL).status_code == status
        assert client.get(f"{URL}/1").status_code == status
