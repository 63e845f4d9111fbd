"""What a user sees of somebody else's job, by every way in: all of it, or with LONGSHORE_JOB_PRIVACY=owner no more
than that there is one. MARK is in all that tells of the job's inside: config, log, events, reasons; CODE is its exit
code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory
from django.urls import URLResolver, get_resolver
from django.utils import timezone
from rest_framework.test import APIClient

from base.accounts import tokens
from base.core.errors import LongshoreError
from base.files.store import open_store
from base.models import User
from clusters.engines import schemes
from jobs.logs.follow import hub
from jobs.models import Attempt, Job, Sweep
from jobs.planning import exits
from portal.page_urls import LIVE
from portal.shared.api import openapi
from portal.shared.live.page import open_page
from portal.webhdfs.messages import Request
from portal.webhdfs.operations import respond
from tests import builders
from tests.cluster import Clock, Cluster
from tests.helpers import in_gate, until
from tests.http import Client

pytestmark = pytest.mark.django_db(transaction=True)

Api = Callable[[User | None], APIClient]
Browse = Callable[[User | None], Client]
MARK = "MARK-of-alice"
CODE = 61173
RUNS, FAILED, RETRIED = "hello", "ended", "retried"
VALUES = {"username": "alice", "role": "worker", "index": "0", "stream": "stdout", "attempt": "1", "number": "1"}
MORE = (
    "/submit?from=alice/{job}",
    "/jobs/alice/{job}/config?download=1",
    "/jobs/alice/{job}/logs/rows?task=worker-0",
    "/jobs/alice/{job}/logs?task=worker-0&attempt=1",
    "/jobs/alice/{job}?attempt=1",
    "/jobs?username=alice",
)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.HOME = tmp_path
    yield
    hub.close()


@pytest.fixture
def job(alice: User) -> Iterator[Job]:
    """Runs on node n1; another one of alice's has failed, a third one is tried again."""
    cluster = Cluster(alice, Clock())
    cluster.add_node()
    ports = [{"label": MARK.replace("-", "_"), "beginAt": 0, "portNumber": 1}]
    job = cluster.submit(name=RUNS, jobEnvs={"TOKEN": MARK}, roles=[{"command": f"echo {MARK}", "portList": ports}])
    cluster.settle()
    cluster.engines["n1"].print(cluster.task(job).container_name, f"{MARK}\n".encode())
    builders.add_event(job, "task.noted", MARK)
    ended = {"state": "FAILED", "task_state": "FAILED", "exit_code": CODE, "exit": exits.exit_for(CODE, MARK)}
    builders.make_job("alice", FAILED, text=f"// {MARK}\n{{}}", **ended)
    sweep = Sweep.objects.create(username="alice", name=FAILED, config="{}", parameters=[], created_at=timezone.now())
    Job.objects.filter(name=FAILED).update(sweep=sweep)
    again = builders.make_job("alice", RETRIED, attempt_number=2)
    first = Attempt.objects.get(job__name=FAILED)
    first.pk, first.job, first.number, first.app_id = None, again, 1, "application_0_0"
    first.save(force_insert=True)
    yield job
    schemes.set_engine_factory(None)


def routes(patterns: Any, prefix: str = "/") -> Iterator[str]:
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from routes(each.url_patterns, prefix + str(each.pattern))
        else:
            yield prefix + str(each.pattern)


def addresses() -> list[str]:
    """Every route there is, with alice's jobs where it takes one. Streams, which do not end, are looked at below;
    what is below /rest-server is the same views again, and the API's document is the same for all."""
    same = ("/rest-server", "/api/schema", "/api/docs")
    found = [each for each in routes(get_resolver().url_patterns) if not each.startswith(same)]
    found += MORE
    filled = []
    for job in (RUNS, FAILED, RETRIED):
        filled += [_filled(each, {**VALUES, "job": job, "name": job}) for each in found if "^" not in each]
    # Routes of v2 have the owner in the job's name.
    v2 = {"job": f"alice~{RUNS}", "name": f"alice~{RUNS}"}
    filled += [_filled(each, {**VALUES, **v2}) for each in found if "/v" in each and "username" not in each]
    return [each for each in dict.fromkeys(filled) if not each.startswith("/stream/")]


def _filled(route: str, values: dict[str, str]) -> str:
    route = re.sub(r"<(?:\w+:)?(\w+)>", lambda m: values.get(m[1], "1"), route)
    return route.replace("{job}", values["job"])


def by_api(address: str) -> bool:
    return address.startswith("/api/")


def told(page: Client, api: APIClient, among: Collection[str] = ()) -> set[str]:
    """The addresses whose answers show the mark; of all there are, unless some are named. Pages are asked by a session,
    the API by a token: who may see what is decided behind both by the same functions."""
    marks = (MARK.encode(), MARK.replace("-", "_").encode(), str(CODE).encode(), f"{CODE:,}".encode())
    found = set()
    for address in among or addresses():
        answer = (api if by_api(address) else page).get(address)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
        assert answer.status_code != 500, address
        if any(mark in body for mark in marks):
            found.add(address)
    return found


INSIDE = {
    "/jobs/alice/hello",
    "/jobs/alice/hello/config",
    "/jobs/alice/hello/events",
    "/jobs/alice/hello/logs",
    "/jobs/alice/hello/logs/rows?task=worker-0",
    "/jobs/alice/ended",
    "/jobs/alice/retried",
    "/api/v1/user/alice/jobs/retried",
    "/jobs/alice/ended/attempts",
    "/jobs",
    "/submit?from=alice/hello",
    "/api/v1/user/alice/jobs/hello",
    "/api/v1/user/alice/jobs/hello/config",
    "/api/v1/user/alice/jobs/hello/events",
    "/api/v1/user/alice/jobs/hello/taskRoles/worker/0/logs/stdout",
    "/api/v1/user/alice/jobs/hello/taskRoles/worker/0/logs/1/stdout",
    "/api/v1/jobs/ended/attempts",
    "/api/v2/jobs/alice~hello/config",
    "/api/job/ended",
}


def test_everybody_reads_everything_unless_that_is_set(api: Api, browse: Browse, job: Job, bob: User) -> None:
    log = "/api/v1/user/alice/jobs/hello/taskRoles/worker/0/logs/stdout"
    until(lambda: told(browse(bob), api(bob), [log]), what="the log to be followed, which a busy machine does later")
    assert told(browse(bob), api(bob), INSIDE) == INSIDE


def test_others_see_nothing_of_the_inside_when_jobs_are_their_owners(
    settings: Any, api: Api, browse: Browse, job: Job, bob: User, admin: User, alice: User
) -> None:
    settings.JOB_PRIVACY = "owner"
    assert told(browse(bob), api(bob)) == set()
    for anonymous in ("all",) if in_gate() else ("all", "jobs"):  # what "jobs" lets guests read, "all" does too
        settings.ANONYMOUS_READ = anonymous
        assert told(browse(None), api(None)) == set(), anonymous
    for insider in (alice, admin):
        assert told(browse(insider), api(insider), INSIDE) == INSIDE, insider


HIDDEN = ("appExitCode", "appExitSpec", "appExitType", "appExitTriggerTaskRoleName", "containerExitCode", "exitReason")


def test_no_route_tells_others_why_a_job_failed(settings: Any, api: Api, job: Job, bob: User, alice: User) -> None:
    settings.JOB_PRIVACY = "owner"
    owner, other = api(alice), api(bob)
    told_of = {each for each in addresses() if by_api(each) and any(_fields_of(owner.get(each), HIDDEN))}
    assert {"/api/v1/jobs", "/api/v1/user/alice/jobs/ended", "/api/v2/jobs", "/api/job/ended"} <= told_of
    assert not {each for each in told_of if any(_fields_of(other.get(each), HIDDEN))}


def _fields_of(answer: Any, names: Collection[str]) -> Iterator[Any]:
    """The values of those names anywhere in an answer of JSON, but null."""
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    rest = [json.loads(body)] if "json" in answer.headers.get("Content-Type", "") else []
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield from (value[name] for name in names if value.get(name) is not None)
            rest += value.values()
        elif isinstance(value, list):
            rest += value


def test_others_still_see_name_state_and_resources(
    settings: Any, api: Api, browse: Browse, job: Job, bob: User
) -> None:
    settings.JOB_PRIVACY = "owner"
    status = api(bob).get("/api/v1/user/alice/jobs/hello").json()
    (task,) = status["taskRoles"]["worker"]["taskStatuses"]
    assert (status["jobStatus"]["state"], task["nodeName"], task["containerPorts"]) == ("RUNNING", "n1", {})
    assert {each["name"] for each in api(bob).get("/api/v1/jobs").json()} == {RUNS, FAILED, RETRIED}
    page = browse(bob).get("/jobs/alice/hello").content.decode()
    assert "Running" in page and "The rest of it is for alice" in page and "/jobs/alice/hello/config" not in page


def test_who_may_not_is_told_so(settings: Any, api: Api, job: Job, bob: User) -> None:
    settings.JOB_PRIVACY = "owner"
    for part in ("config", "ssh", "events", "attempts", "taskRoles/worker/0/logs/stdout"):
        answer = api(bob).get(f"/api/v1/user/alice/jobs/hello/{part}")
        assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError"), part
        assert "alice" in answer.json()["message"]
        assert api(None).get(f"/api/v1/user/alice/jobs/hello/{part}").status_code == 401, part


def test_the_document_has_the_refusal_of_every_route_that_refuses(settings: Any, api: Api, job: Job, bob: User) -> None:
    settings.JOB_PRIVACY = "owner"
    document = openapi.document()
    reads = {path: methods["get"] for path, methods in document["paths"].items() if "get" in methods}
    refused = {path for path in reads if api(bob).get(_of_document(path)).status_code == 403}
    assert {path for path in refused if "403" not in reads[path]["responses"]} == set()
    assert {"/api/v1/user/{username}/jobs/{job}/why", "/api/v2/jobs/{job}/config", "/api/v1/hosts"} <= refused


def _of_document(path: str) -> str:
    job = f"alice~{RUNS}" if "/v2/" in path else RUNS
    return re.sub(r"{(\w+)}", lambda m: {**VALUES, "job": job}.get(m[1], "1"), path)


def _live(viewer: User, **params: str) -> str:
    request: HttpRequest = RequestFactory().get("/stream/page", params)
    request.user = viewer
    try:
        return " ".join(open_page(request, LIVE).parts().values())
    except LongshoreError as error:
        return str(error.status)


def test_live_streams_have_the_same_rule(settings: Any, browse: Browse, job: Job, bob: User, alice: User) -> None:
    pages = [{"page": "jobs", "top": "999"}, {"page": "home"}]
    pages += [
        {"page": "job", "user": "alice", "name": name, "tab": tab}
        for name in (RUNS, FAILED, RETRIED)
        for tab in ("tasks", "events")
    ]
    assert any(MARK in _live(bob, **each) for each in pages)
    settings.JOB_PRIVACY = "owner"
    assert not any(MARK in _live(bob, **each) or MARK.replace("-", "_") in _live(bob, **each) for each in pages)
    assert _live(bob, page="job", user="alice", name=RUNS, tab="events") == "403"
    assert MARK in _live(alice, page="job", user="alice", name=RUNS, tab="events")
    assert browse(bob).get(f"/stream/logs/alice/{RUNS}?task=worker-0").status_code == 403


def test_the_files_of_a_job_are_its_owner_s_by_their_place(job: Job, bob: User) -> None:
    path = f"/Container/alice/alice~{RUNS}/JobConfig.json"
    assert open_store().stat(path).size
    for op, params in (("OPEN", {}), ("LISTSTATUS", {}), ("GETFILESTATUS", {})):
        bearer = {"authorization": f"Bearer {tokens.issue(bob, 3600)}"}
        assert respond(Request("GET", path, {"op": op, **params}, bearer, "10.0.0.9", "http://x")).status == 403


def test_an_answer_for_the_owner_is_not_taken_for_one_for_others(
    settings: Any, api: Api, job: Job, bob: User, alice: User
) -> None:
    settings.JOB_PRIVACY = "owner"
    for address in (f"/api/v1/user/alice/jobs/{FAILED}", "/api/v1/jobs"):
        etag = api(alice).get(address)["ETag"]
        assert api(bob).get(address, HTTP_IF_NONE_MATCH=etag).status_code == 200
        assert api(alice).get(address, HTTP_IF_NONE_MATCH=etag).status_code == 304


def test_who_is_called_as_a_role_is_not_answered_as_those_who_have_it(settings: Any, api: Api, job: Job) -> None:
    settings.JOB_PRIVACY = "owner"
    User.objects.filter(pk=(eva := User.objects.create_user("eva")).pk).update(is_auditor=True)
    eva.refresh_from_db()
    for viewer, codes in ((eva, {CODE, None}), (User.objects.create_user("auditor"), {None})):
        assert {each["appExitCode"] for each in api(viewer).get("/api/v1/jobs").json()} == codes, viewer
