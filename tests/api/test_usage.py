"""GET /usage: JSON and CSV, and what is refused."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable

import pytest

from base.models import User
from tests.history import HOUR, held
from tests.http import ApiClient

Api = Callable[[User | None], ApiClient]
pytestmark = pytest.mark.django_db
NOW = time.time_ns() // 1_000_000


def test_it_adds_up_by_user(api: Api, admin: User) -> None:
    held(NOW - 3 * HOUR, NOW - HOUR, gpus=4, waited=1500)
    held(NOW - 2 * HOUR, NOW - HOUR, username="bob", outcome="FAILED", waited=500)
    answer = api(admin).get(f"/api/v1/usage?from={NOW - 5 * HOUR}&to={NOW}&by=user").json()
    assert (answer["from"], answer["to"], answer["by"]) == (NOW - 5 * HOUR, NOW, "user")
    assert answer["rows"] == [
        {
            "key": "alice",
            "gpuHours": 8.0,
            "cpuHours": 4.0,
            "jobs": 1,
            "waited": {"mean": 1500, "p95": 1500},
            "wasted": {"failed": 0.0, "evicted": 0.0, "lost": 0.0},
        },
        {
            "key": "bob",
            "gpuHours": 1.0,
            "cpuHours": 2.0,
            "jobs": 1,
            "waited": {"mean": 500, "p95": 500},
            "wasted": {"failed": 1.0, "evicted": 0.0, "lost": 0.0},
        },
    ]
    assert (answer["total"]["gpuHours"], answer["total"]["jobs"]) == (9.0, 2)


def test_others_have_no_name(api: Api, alice: User) -> None:
    held(NOW - 2 * HOUR, NOW - HOUR, username="bob")
    answer = api(alice).get("/api/v1/usage")
    assert [row["key"] for row in answer.json()["rows"]] == [None]
    assert b"bob" not in answer.content


def test_by_day_has_every_day(api: Api, admin: User) -> None:
    rows = api(admin).get("/rest-server/api/v1/usage?from=2026-01-30&to=2026-02-01&by=day").json()["rows"]
    assert [row["key"] for row in rows] == ["2026-01-30", "2026-01-31", "2026-02-01"]


def test_the_csv_has_the_same_numbers_and_no_formulas(api: Api, admin: User) -> None:
    held(NOW - 2 * HOUR, NOW - HOUR, vc='=HYPERLINK("x")', waited=2500)
    answer = api(admin).get("/api/v1/usage?by=vc&format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="usage-by-vc.csv"'
    head, row = csv.reader(io.StringIO(answer.content.decode()))
    assert head[:6] == ["vc", "gpu_hours", "cpu_hours", "jobs", "waited_mean_s", "waited_p95_s"]
    assert row[:6] == ['\'=HYPERLINK("x")', "1.0", "2.0", "1", "2.5", "2.5"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("from=never", "from is not a time"),
        ("to=%00", "holds a NUL character"),
        ("from=2026-01-02&to=2026-01-01", "The range is empty"),
        ("from=1990-01-01", "The range is too long"),
        ("by=gpu", "by must be user, vc, state or day."),
        ("format=xml", "format must be json or csv."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(api: Api, alice: User, query: str, says: str) -> None:
    answer = api(alice).get(f"/api/v1/usage?{query}")
    assert answer.status_code == 400
    assert says in answer.json()["message"]


def test_guests_and_the_curious_are_refused(api: Api, alice: User) -> None:
    assert api(None).get("/api/v1/usage").status_code == 401
    assert api(alice).get("/api/v1/usage?username=bob").status_code == 403
