from __future__ import annotations

import pytest
from django.conf import settings

from base.wakes import processes
from portal import health
from tests.helpers import LIMIT
from tests.http import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/", "/rest-server/api/v1/"])
def test_it_names_itself_at_the_root(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (200, b"<pre>PAI RESTful API</pre>")


@pytest.mark.parametrize("path", ["/api/v1/xx?a=1", "/api/v1/jobs/a/b/c/d/e/f/g", "/rest-server/api/v1/xx"])
def test_it_answers_an_unknown_route_as_v1_does(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json() == {"code": "NoApiError", "message": f"API {path} is not found."}


def test_it_answers_a_method_that_is_not_there_as_an_unknown_route(client: Client) -> None:
    assert client.get("/api/v1/token").json()["code"] == "NoApiError"


def test_it_reports_the_health_of_all_processes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_FIRST_LOOK", LIMIT)
    monkeypatch.setattr(processes, "portal_age", lambda: LIMIT)
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "degraded",
        "database": True,
        "store": True,
        "room": True,
        "hosts": {"alive": 0, "silent": 0},
        "secondsSinceSeen": {"scheduler": None, "workers": None, "sampler": None},
        "version": settings.VERSION,
        "instance": settings.INSTANCE,
    }
