"""/api/auth and /api/job of the very first release (v1 contract, 3.12)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.models import User
from jobs.models import Job
from tests.conftest import PASSWORD
from tests.http import Client
from tests.submitting import config, submitted

Api = Callable[[User | None], APIClient]
NOBODY = (401, {"error": "NotAuthorized", "message": "not authorized"})


def seen(answer: Any) -> tuple[int, Any]:
    return answer.status_code, answer.json()


@pytest.mark.parametrize("root", ["/api", "/rest-server/api"])
def test_it_gives_a_token_for_a_form(alice: User, root: str) -> None:
    form = f"username=alice&password={PASSWORD}&expiration=4000"
    answer = Client().post(f"{root}/auth", form, content_type="application/x-www-form-urlencoded").json()
    assert set(answer) == {"token", "user"}
    listed = Client(headers={"Authorization": f"Bearer {answer['token']}"}).get("/api/v1/jobs")
    assert listed.status_code == 200


def test_it_refuses_a_wrong_password_in_its_own_words(alice: User) -> None:
    body = {"username": "alice", "password": "wrong one"}
    failed = (401, {"error": "AuthenticationFailed", "message": "authentication failed"})
    assert seen(Client().post("/api/auth", body, content_type="application/json")) == failed
    body["username"] = "nobody"
    assert seen(Client().post("/api/auth", body, content_type="application/json")) == failed


def test_admins_make_change_and_remove_users(api: Api, admin: User, alice: User) -> None:
    body = {"username": "carol", "password": "secret1", "admin": False, "modify": False}
    assert seen(api(None).put("/api/auth", body, format="json")) == NOBODY
    assert seen(api(alice).put("/api/auth", body, format="json")) == NOBODY
    done = (200, {"message": "update successfully"})
    assert seen(api(admin).put("/api/auth", body, format="json")) == done
    status, answer = seen(api(admin).put("/api/auth", body, format="json"))
    assert (status, answer["error"]) == (500, "UpdateFailed")
    assert seen(api(admin).put("/api/auth", {**body, "modify": True, "password": "secret2"}, format="json")) == done
    assert User.objects.get(username="carol").check_password("secret2")
    gone = api(admin).delete("/api/auth", {"username": "carol"}, format="json")
    assert seen(gone) == (200, {"message": "remove successfully"})
    again = api(admin).delete("/api/auth", {"username": "carol"}, format="json")
    assert again.json()["error"] == "RemoveFailed"


def test_it_lists_jobs_with_the_raw_state(api: Api, alice: User) -> None:
    empty = (500, {"error": "JobListNotFound", "message": "could not find job list"})
    assert seen(api(None).get("/api/job")) == empty
    submitted(alice, "one")
    answer = api(None).get("/api/job")
    [item] = json.loads(b"".join(answer.streaming_content))
    assert set(item) == {
        *("name", "username", "state", "retries", "createdTime", "completedTime", "appTrackingUrl", "appExitType")
    }
    assert (item["name"], item["state"], item["appExitType"]) == ("one", "FRAMEWORK_WAITING", None)


def test_it_goes_through_the_life_of_a_job(api: Api, alice: User, bob: User) -> None:
    url = "/api/job/one"
    missing = (500, {"error": "JOB_NOT_FOUND", "message": "could not find job one"})
    assert seen(api(None).get(url)) == missing
    assert seen(api(None).put(url, config("one"), format="json")) == NOBODY
    done = (200, {"message": "update job one successfully"})
    assert seen(api(alice).put(url, config("other"), format="json")) == done
    twice = (500, {"error": "DuplicateJobSubmission", "message": "duplicate job submission"})
    assert seen(api(alice).put(url, config("one"), format="json")) == twice
    status, refused = seen(api(alice).put("/api/job/two", {}, format="json"))
    assert (status, refused["error"]) == (500, "ParameterValidationError")
    elsewhere = api(alice).put("/api/job/two", config("two", virtualCluster="mars"), format="json")
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (500, "JobUpdateError")
    detail = api(None).get(url).json()
    assert (detail["name"], detail["username"], detail["appId"]) == ("one", "alice", None)
    assert "taskRoles" not in detail
    assert api(bob).delete(url).json()["error"] == "JobDeleteError"
    assert api(bob).delete(url).status_code == 401
    assert seen(api(alice).delete(url)) == (200, {"message": "deleted job one successfully"})
    assert seen(api(None).get(url)) == missing


def test_it_tells_how_a_job_ended(api: Api, alice: User) -> None:
    submitted(alice, "one")
    Job.objects.update(state="SUCCEEDED", exit_code=0)
    detail = api(None).get("/api/job/one").json()
    assert (detail["state"], detail["appExitType"], detail["appExitCode"]) == ("FRAMEWORK_COMPLETED", "SUCCEEDED", 0)
