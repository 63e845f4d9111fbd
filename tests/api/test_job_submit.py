"""POST /user/:u/jobs, POST /jobs, PUT /user/:u/jobs/:j, PUT /jobs/:j (v1 contract, 1.2, 1.3, 3.8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from base.models import User
from clusters.models import VirtualCluster
from jobs.models import Job
from tests.helpers import examples
from tests.submitting import config, config_text, submitted

Api = Callable[[User | None], APIClient]
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
POST = "/api/v1/user/alice/jobs"


def test_it_answers_201_with_the_place_and_the_detail(api: Api, alice: User) -> None:
    answer = api(alice).post(POST, config_text("mnist-a1"), content_type=JSON)
    assert answer.status_code == 201
    assert answer["Location"] == "http://testserver/api/v1/user/alice/jobs/mnist-a1"
    assert "X-Warning" not in answer
    body = answer.json()
    assert (body["name"], body["taskRoles"]) == ("mnist-a1", {})
    assert (body["jobStatus"]["state"], body["jobStatus"]["appId"]) == ("WAITING", None)


@pytest.mark.parametrize("url", ["/api/v1/jobs", "/rest-server/api/v1/user/alice/jobs", POST + "/"])
def test_it_takes_a_job_at_every_address(api: Api, alice: User, url: str) -> None:
    assert api(alice).post(url, config_text(), content_type=JSON).status_code == 201


def test_it_keeps_the_config_exactly_as_sent(api: Api, alice: User) -> None:
    text = '\n{ // a comment\n "jobName":"a","image":"i","taskRoles":[{"name":"w","taskNumber":"2","command":"x"},]}'
    assert api(alice).post(POST, text, content_type=JSON).status_code == 201
    assert Job.objects.get().config == text


def test_it_takes_a_nested_form(api: Api, alice: User) -> None:
    form = {
        "jobName": "form",
        "image": "i",
        "taskRoles[0][name]": "w",
        "taskRoles[0][taskNumber]": "2",
        "taskRoles[0][command]": "echo a+b & wait",
        "taskRoles[0][portList][0][label]": "tb",
        "taskRoles[1][name]": "ps",
        "taskRoles[1][command]": "x",
        "jobEnvs[lr]": "0.1",
    }
    assert api(alice).post(POST, urlencode(form), content_type=FORM).status_code == 201
    spec = Job.objects.get().spec
    assert [(role["name"], role["taskNumber"]) for role in spec["taskRoles"]] == [("w", 2), ("ps", 1)]
    assert spec["taskRoles"][0]["command"] == "echo a+b & wait"
    assert spec["taskRoles"][0]["portList"][0]["label"] == "tb"
    assert spec["jobEnvs"] == {"lr": "0.1"}


@pytest.mark.parametrize("kind", ["text/plain", "text/yaml; charset=utf-8", ""])
def test_it_takes_json_under_any_other_type(api: Api, alice: User, kind: str) -> None:
    assert api(alice).generic("POST", POST, config_text(), content_type=kind).status_code == 201


def test_it_warns_of_the_old_completion_rule(api: Api, alice: User) -> None:
    answer = api(alice).post(POST, config_text(killAllOnCompletedTaskNumber=1), content_type=JSON)
    assert answer["X-Warning"].startswith("killAllOnCompletedTaskNumber has been obsoleted, please use")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", 'child "jobName" fails because ["jobName" is required]'),
        ("", 'child "jobName" fails because ["jobName" is required]'),
        ("[]", '"value" must be an object'),
        (json.dumps({**config(), "foo": 1}), '"foo" is not allowed'),
        (
            config_text().replace("longshore/sample", ""),
            'child "image" fails because ["image" is not allowed to be empty]',
        ),
    ],
)
def test_it_answers_the_first_violation_in_v1_words(api: Api, alice: User, body: str, message: str) -> None:
    answer = api(alice).generic("POST", POST, body, content_type=JSON)
    assert answer.status_code == 400
    assert answer.json() == {"code": "InvalidParametersError", "message": message}


def test_it_answers_broken_json_without_a_code(api: Api, alice: User) -> None:
    answer = api(alice).post(POST, '{"jobName": }', content_type=JSON)
    assert answer.status_code == 400
    assert answer.json() == {"message": "Unexpected token } in JSON at position 12"}


@pytest.mark.parametrize("kind", [JSON, FORM, "text/plain"])
def test_it_refuses_more_than_100_kB(api: Api, alice: User, kind: str) -> None:
    answer = api(alice).post(POST, "a" * 102_401, content_type=kind)
    assert answer.status_code == 413
    assert answer.json() == {"message": "request entity too large"}


def test_it_refuses_a_taken_name(api: Api, alice: User) -> None:
    submitted(alice)
    answer = api(alice).post(POST, config_text(), content_type=JSON)
    assert answer.status_code == 409
    assert answer.json() == {"code": "ConflictJobError", "message": "Job name hello already exists"}


def test_it_asks_for_the_token_first_then_reads_then_looks_at_the_name(api: Api, alice: User) -> None:
    submitted(alice)
    assert api(None).post(POST, "{", content_type=JSON).json() == {
        "code": "UnauthorizedUserError",
        "message": "Guest is not allowed to do this operation.",
    }
    bad = config_text(virtualCluster="nowhere", retryCount=-3)
    assert api(alice).post(POST, bad, content_type=JSON).status_code == 400
    assert api(alice).post(POST, config_text(virtualCluster="nowhere"), content_type=JSON).status_code == 409


def test_it_refuses_a_virtual_cluster_that_is_missing_or_not_granted(api: Api, alice: User) -> None:
    text = config_text(virtualCluster="vision")
    answer = api(alice).post(POST, text, content_type=JSON)
    assert answer.status_code == 404
    assert answer.json() == {"code": "NoVirtualClusterError", "message": "Virtual cluster vision is not found."}
    VirtualCluster.objects.create(name="vision")
    answer = api(alice).post(POST, text, content_type=JSON)
    assert answer.status_code == 403
    message = "User alice is not allowed to do operation in vision"
    assert answer.json() == {"code": "ForbiddenUserError", "message": message}


def test_it_refuses_a_job_in_the_name_of_another(api: Api, admin: User) -> None:
    answer = api(admin).post(POST, config_text(), content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")


def test_a_job_in_the_name_of_another_tells_nothing_of_their_jobs(api: Api, alice: User, bob: User) -> None:
    api(alice).post(POST, config_text(), content_type=JSON)
    for name in ("hello", "no-such-job"):
        text = config_text(jobName="other", extras={"dependsOn": [name]})
        answer = api(bob).post("/api/v1/user/alice/jobs", text, content_type=JSON)
        assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")


@pytest.mark.parametrize("url", ["/api/v1/user/alice/jobs/mnist", "/api/v1/jobs/mnist"])
def test_put_takes_the_name_of_the_url(api: Api, alice: User, url: str) -> None:
    answer = api(alice).put(url, config_text("other"), content_type=JSON)
    assert (answer.status_code, answer.json()["name"]) == (201, "mnist")
    assert Job.objects.get().name == "mnist"


def test_no_two_jobs_without_a_user_in_their_address_share_a_name(api: Api, alice: User, bob: User) -> None:
    taken = {"code": "ConflictJobError", "message": "Job name one already exists"}
    assert api(alice).post("/api/v1/jobs", config("one"), format="json").status_code == 201
    for answer in (
        api(bob).post("/api/v1/jobs", config("one"), format="json"),
        api(bob).put("/api/v1/jobs/one", config("one"), format="json"),
        api(None).put("/api/v1/jobs/one", {}, format="json"),
    ):
        assert (answer.status_code, answer.json()) == (409, taken)
    assert api(bob).post("/api/v1/user/bob/jobs", config("one"), format="json").status_code == 201
    assert api(None).get("/api/v1/jobs/one").json()["jobStatus"]["username"] == "alice"


def test_put_answers_409_even_without_a_token(api: Api, alice: User) -> None:
    submitted(alice)
    assert api(None).put("/api/v1/user/alice/jobs/hello", "{", content_type=JSON).status_code == 409
    assert api(None).put("/api/v1/user/alice/jobs/other", "{", content_type=JSON).status_code == 401
    assert api(alice).put("/api/v1/user/alice/jobs/other", "{", content_type=JSON).status_code == 400


def test_put_says_nothing_of_jobs_to_who_may_read_nothing(api: Api, alice: User, settings: Settings) -> None:
    settings.ANONYMOUS_READ = "none"
    submitted(alice)
    assert api(None).put("/api/v1/user/alice/jobs/hello", config_text(), content_type=JSON).status_code == 401


@pytest.mark.parametrize("name", ["a%20b", "alice~x", "x" * 256, "%00", "%ff"])
def test_put_refuses_a_bad_name(api: Api, alice: User, name: str) -> None:
    assert api(alice).put(f"/api/v1/user/alice/jobs/{name}", config_text(), content_type=JSON).status_code == 400


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
_FIELDS = st.sampled_from(
    [*config(), "virtualCluster", "retryCount", "gpuType", "jobEnvs", "extras", "minFailedTaskCount"]
)
_CONFIGS = st.dictionaries(_FIELDS | st.text(max_size=5), _VALUES, max_size=5).map(lambda odd: {**config(), **odd})
_MANGLED = st.tuples(st.integers(0, 150), st.text(max_size=4)).map(lambda cut: _insert(config_text(), *cut))


def _insert(text: str, at: int, more: str) -> str:
    return text[:at] + more + text[at:]


_FUZZ = limits(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FUZZ
@given(
    body=_CONFIGS.map(json.dumps).map(str.encode)
    | _MANGLED.map(lambda text: text.encode(errors="replace"))
    | st.binary()
)
def test_it_never_fails_on_a_body(api: Api, alice: User, body: bytes) -> None:
    answer = api(alice).generic("POST", POST, body, content_type=JSON)
    assert answer.status_code in {201, 400, 404, 409}, answer.content
    if answer.status_code == 201:
        job = Job.objects.latest("id")
        client = api(alice)
        assert client.get(f"/api/v1/user/alice/jobs/{job.name}/config").status_code == 200
        assert client.get(f"/api/v1/user/alice/jobs/{job.name}").status_code == 200
        assert "\\u0000" not in json.dumps(job.spec) and "\0" not in job.config  # PostgreSQL keeps neither
        Job.objects.all().delete()


@pytest.mark.parametrize("extras", [{"secrets": {"\ud800": "x"}}, {"secrets\ud800": 1}])
def test_half_of_a_surrogate_pair_in_a_name_is_refused(api: Api, alice: User, extras: object) -> None:
    answer = api(alice).post("/api/v1/jobs", json.dumps(config(extras=extras)), content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
    assert "\\ud800" in answer.json()["message"]


_KEYS = st.text("ab[]01", max_size=12) | st.sampled_from(["jobName", "taskRoles[0][name]", "taskRoles[]", "taskRoles"])


@_FUZZ
@given(pairs=st.lists(st.tuples(_KEYS, st.text(max_size=5)), max_size=8))
def test_it_never_fails_on_a_form(api: Api, alice: User, pairs: list[tuple[str, str]]) -> None:
    body = urlencode(pairs, errors="surrogatepass")
    assert api(alice).post(POST, body, content_type=FORM).status_code in {201, 400, 404, 409}
