"""The web pages of a job by the API: which there are, who may open them, and for how long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from base.models import ApiToken, AuditEvent, User
from clusters.models import VcGrant, VirtualCluster
from jobs.models import Job, Task
from jobs.web_pages import shown as looks
from jobs.web_pages import visits
from jobs.web_pages.models import PageShare, PageVisit
from portal.web_pages import opening
from tests.builders import make_job, make_node
from tests.helpers import LIMIT
from tests.hosts import Hosts
from tests.http import ApiClient, Client
from tests.web_app import Page, Server

Api = Callable[[User | None], ApiClient]
Browse = Callable[[User | None], Client]
PORTS = {"jupyter": [30000], "web": [30001], "http": [30002], "ssh": [30003]}
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are threads of this process, and may be slow to answer; a ticket is good for as long as the test takes."""
    monkeypatch.setattr(looks, "PATIENCE", LIMIT)
    monkeypatch.setattr(visits, "TICKET_SECONDS", 2 * LIMIT)


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    """A real page in this process."""
    server = Server(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "127.0.0.1", server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def job(hosts: Hosts, alice: User) -> Job:
    """Alice's, of one task that runs on n1 with these ports."""
    hosts.add("unix:///n1")
    node = make_node("n1", endpoint="unix:///n1")
    labels = [{"label": label, "beginAt": 0, "portNumber": 1} for label in ("jupyter", "web", "ps")]
    roles = [{"name": "w", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "command": "true", "portList": labels}]
    job = make_job("alice", "one", state="RUNNING", node=node, config={"taskRoles": roles})
    Task.objects.filter(job=job).update(ports={**PORTS, "ps": [30004]})
    return job


def address(page: str = "web", what: str = "ticket") -> str:
    return f"/api/v1/user/alice/jobs/one/services/w/0/{page}/{what}"


def ticket(client: ApiClient, page: str = "web") -> tuple[str, str]:
    """The key of the page and its ticket."""
    answer = client.post(address(page), SERVER_NAME="localhost")
    assert answer.status_code == 201, answer.content
    url = urlsplit(answer.json()["url"])
    return str(url.hostname).partition(".")[0], parse_qs(url.query)["ticket"][0]


def opened(client: ApiClient, page: str = "web") -> str:
    """The cookie of a visit."""
    key, given = ticket(client, page)
    cookie = visits.redeem(given, key, None)
    assert cookie is not None
    return cookie


def test_it_lists_what_the_labels_promise_and_what_answers(
    api: Api, alice: User, job: Job, hosts: Hosts, listening: tuple[str, int]
) -> None:
    hosts["unix:///n1"].listening = {30001: listening, 30004: listening}
    found = api(alice).get("/api/v1/user/alice/jobs/one/services").json()["services"]
    assert [(one["label"], one["state"], one["status"]) for one in found] == [
        ("jupyter", "refused", 0),
        ("web", "answers", 200),
        ("ps", "answers", 200),
    ]
    assert found[1] | {"milliseconds": 0} == {
        **{"role": "w", "index": 0, "label": "web", "title": "Web", "node": "n1", "port": 30001, "state": "answers"},
        **{"status": 200, "milliseconds": 0, "mayOpen": True, "url": "/jobs/alice/one/web/w/0/web", "shares": []},
    }


def test_it_tells_a_port_without_http_from_one_where_nothing_listens(
    api: Api, alice: User, job: Job, hosts: Hosts
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts["unix:///n1"].listening = {30001: silent.getsockname()}
        threading.Thread(target=lambda: silent.accept()[0].close(), daemon=True).start()
        found = api(alice).get("/api/v1/user/alice/jobs/one/services").json()["services"]
    assert [(one["label"], one["state"]) for one in found] == [("jupyter", "refused"), ("web", "other")]


def test_a_node_that_is_away_is_named_as_such(api: Api, alice: User, job: Job, hosts: Hosts) -> None:
    hosts["unix:///n1"].cut()
    found = api(alice).get("/api/v1/user/alice/jobs/one/services").json()["services"]
    assert {one["state"] for one in found} == {"away"}


def test_a_ticket_opens_the_page_once(api: Api, alice: User, job: Job) -> None:
    key, given = ticket(api(alice))
    assert visits.redeem(given, f"other-{key}", None) is None
    cookie = visits.redeem(given, key, None)
    assert cookie is not None
    assert visits.redeem(given, key, None) is None
    visit = visits.check([cookie, "none"])[cookie]
    assert (visit.key, visit.viewer, visit.target and visit.target.port) == (key, "alice", 30001)


def test_a_ticket_is_good_for_seconds(api: Api, alice: User, job: Job) -> None:
    key, given = ticket(api(alice))
    PageVisit.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert visits.redeem(given, key, None) is None


def test_where_pages_share_a_host_a_ticket_works_in_the_browser_that_asked_for_it(
    api: Api, browse: Browse, alice: User, bob: User, job: Job
) -> None:
    sessions = [browse(user).cookies["longshore"].value for user in (bob, alice)]
    key, given = ticket(api(alice))
    assert [visits.redeem(given, key, session) is not None for session in ("", *sessions)] == [False, False, True]


def test_neither_ticket_nor_cookie_stands_in_the_database(api: Api, alice: User, job: Job) -> None:
    _, given = ticket(api(alice))
    cookie = opened(api(alice))
    assert not PageVisit.objects.filter(ticket=given).exists()
    assert not PageVisit.objects.filter(cookie=cookie).exists()


@pytest.mark.parametrize("page", ["ssh", "nothing"])
def test_what_is_no_page_is_not_found(api: Api, alice: User, job: Job, page: str) -> None:
    answer = api(alice).post(address(page))
    assert (answer.status_code, answer.json()["code"]) == (404, "NoWebPageError")


def test_others_may_not_open_it(api: Api, bob: User, job: Job) -> None:
    assert api(None).post(address()).status_code == 401
    answer = api(bob).post(address())
    assert (answer.status_code, "Ask alice" in answer.json()["message"]) == (403, True)
    assert not PageVisit.objects.exists()


def test_an_admin_may_and_it_is_recorded(api: Api, admin: User, job: Job) -> None:
    opened(api(admin))
    assert list(AuditEvent.objects.values_list("actor", "action", "object")) == [
        ("admin", "web page opened", "alice/one w-0 web")
    ]


def test_a_share_opens_it_to_that_user_until_it_ends(api: Api, alice: User, bob: User, job: Job) -> None:
    share = address("web", "shares/user/bob")
    assert api(alice).put(share).status_code == 201
    cookie = opened(api(bob))
    assert api(bob).post(address("jupyter")).status_code == 403
    assert cookie in visits.check([cookie])
    assert api(alice).delete(share).status_code == 200
    assert visits.check([cookie]) == {}
    assert [one.action for one in AuditEvent.objects.order_by("id")] == [
        *("web page shared", "web page opened", "refused", "web page share ended")
    ]


def test_only_the_owner_shares_it(api: Api, bob: User, job: Job) -> None:
    assert api(bob).put(address("web", "shares/user/bob")).status_code == 403
    assert not PageShare.objects.exists()


def test_a_share_with_a_virtual_cluster_is_for_those_it_was_granted_to(
    api: Api, alice: User, bob: User, job: Job
) -> None:
    vc = VirtualCluster.objects.create(name="nlp")
    assert api(alice).put(address("web", "shares/vc/nlp")).status_code == 201
    assert api(bob).post(address()).status_code == 403
    grant = VcGrant.objects.create(vc=vc, username="bob")
    cookie = opened(api(bob))
    grant.delete()
    assert visits.check([cookie]) == {}


@pytest.mark.parametrize(
    "page, share, says",
    [
        ("jupyter", "vc/nlp", "runs commands as you"),
        ("web", "vc/default", "Everybody is in"),
        ("web", "vc/none", "no virtual cluster"),
        ("web", "user/nobody", "no user"),
        ("web", "user/alice", "owns the job"),
        ("web", "group/x", "must be"),
    ],
)
def test_what_cannot_be_shared_is_said(api: Api, alice: User, job: Job, page: str, share: str, says: str) -> None:
    VirtualCluster.objects.create(name="nlp")
    answer = api(alice).put(address(page, f"shares/{share}"))
    assert (answer.status_code, says in answer.json()["message"]) == (400, True)


def _log_out(client: Client, user: User) -> None:
    client.post("/logout")


def _disable(client: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _new_password(client: Client, user: User) -> None:
    user.set_password("another horse")
    user.save()


def _end_all(client: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(epoch=user.epoch + 1)


@pytest.mark.parametrize("withdraw", [_log_out, _disable, _new_password, _end_all])
def test_a_visit_ends_with_the_session_that_began_it(
    browse: Browse, alice: User, job: Job, withdraw: Callable[[Client, User], None]
) -> None:
    client = browse(alice)
    url = urlsplit(client.get("/jobs/alice/one/web/w/0/web", SERVER_NAME="localhost")["Location"])
    cookie = visits.redeem(parse_qs(url.query)["ticket"][0], str(url.hostname).partition(".")[0], None)
    assert cookie in visits.check([str(cookie)])
    withdraw(client, alice)
    assert visits.check([str(cookie)]) == {}


def test_a_visit_ends_with_the_token_that_began_it(api: Api, alice: User, job: Job) -> None:
    cookie = opened(api(alice))
    ApiToken.objects.update(revoked_at=timezone.now())
    assert visits.check([cookie]) == {}


def test_a_visit_leads_nowhere_but_to_the_port_of_a_running_task(api: Api, alice: User, job: Job) -> None:
    cookie = opened(api(alice))
    Task.objects.update(state="STOPPING")
    assert visits.check([cookie])[cookie].target is None
    Job.objects.update(state="SUCCEEDED")
    assert visits.check([cookie])[cookie].says == "The job has ended."
    Job.objects.update(deleted_at=timezone.now())
    assert visits.check([cookie]) == {}


def test_it_is_asked_in_as_many_queries_for_one_visit_as_for_many(
    api: Api, alice: User, job: Job, django_assert_num_queries: Any
) -> None:
    cookies = [opened(api(alice)) for _ in range(5)]
    for some in (cookies[:1], cookies):
        with django_assert_num_queries(6):
            assert len(visits.check(some)) == len(some)


def test_where_pages_share_a_host_only_one_s_own_open(api: Api, alice: User, admin: User, job: Job) -> None:
    assert api(alice).post(address(), SERVER_NAME="gpu-master").status_code == 201
    answer = api(admin).post(address(), SERVER_NAME="gpu-master")
    assert (answer.status_code, "LONGSHORE_APPS_DOMAIN" in answer.json()["message"]) == (403, True)


def test_an_admin_may_lift_that(api: Api, admin: User, job: Job, settings: Any) -> None:
    settings.APPS_ON_ONE_HOST = "all"
    assert api(admin).post(address(), SERVER_NAME="gpu-master").status_code == 201


def test_switched_off_nothing_opens(api: Api, alice: User, job: Job, settings: Any) -> None:
    settings.APPS_BIND = None
    answer = api(alice).post(address())
    assert (answer.status_code, "switched off" in answer.json()["message"]) == (404, True)


def test_one_click_serves_the_output_of_an_ended_job(api: Api, alice: User) -> None:
    make_job("alice", "done", state="SUCCEEDED", config={"outputDir": "$PAI_DEFAULT_FS_URI/Output/alice/deep/it's"})
    answer = api(alice).post("/api/v1/user/alice/jobs/done/tensorboard")
    assert (answer.status_code, answer.json()) == (201, {"name": "done-tensorboard"})
    made = Job.objects.get(name="done-tensorboard")
    assert (made.username, made.spec["image"]) == ("alice", "longshore/run.tensorboard:1")
    assert "TB_FOLDER='/Output/alice/deep/it'\"'\"'s'" in made.spec["taskRoles"][0]["command"]
    assert api(alice).post("/api/v1/user/alice/jobs/done/tensorboard").json() == {"name": "done-tensorboard-2"}


@pytest.mark.parametrize("folder", ["hdfs://elsewhere:9000/a", "Output", "/a\nb", "http://[x", "/a/../b"])
def test_a_folder_of_another_store_is_refused(api: Api, alice: User, folder: str) -> None:
    make_job("alice", "done", state="FAILED")
    answer = api(alice).post("/api/v1/user/alice/jobs/done/tensorboard", {"folder": folder}, format="json")
    assert answer.status_code == 400, answer.content


@pytest.mark.parametrize("state", ["WAITING", "RUNNING"])
def test_curves_of_a_job_that_has_not_ended_are_not_served(api: Api, alice: User, state: str) -> None:
    make_job("alice", "live", state=state)
    answer = api(alice).post("/api/v1/user/alice/jobs/live/tensorboard")
    assert (answer.status_code, answer.json()["code"]) == (409, "ConflictError")
    assert "has not ended" in answer.json()["message"] and Job.objects.count() == 1


def test_curves_are_served_to_who_may_read_them(api: Api, alice: User, bob: User, admin: User) -> None:
    make_job("alice", "done", state="SUCCEEDED")

    def served(user: User, folder: str = "") -> Any:
        asked = {"folder": folder} if folder else {}
        return api(user).post("/api/v1/user/alice/jobs/done/tensorboard", asked, format="json")

    for folder in ("", "/Output/alice/done", "//Output/alice", "/.longshore"):
        refused = served(bob, folder)
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenUserError"), folder
    assert "/Output/alice/done" in served(bob).json()["message"]
    assert Job.objects.count() == 1
    assert {served(bob, "/Output/bob").status_code, served(bob, "/shared/a").status_code} == {201}
    assert served(admin).status_code == 403, "a job of theirs could not read it either"
    assert served(alice).status_code == 201


def link(client: ApiClient, page: str = "web", seconds: int = 3600, **more: Any) -> Any:
    return client.post(address(page, "links"), {"seconds": seconds}, format="json", SERVER_NAME="localhost", **more)


def by_link(client: Client, url: str) -> str:
    """The cookie of a visit of somebody who has only the link."""
    answer = client.get(urlsplit(url).path, SERVER_NAME="localhost")
    assert (answer.status_code, answer["Referrer-Policy"]) == (302, "no-referrer")
    found = urlsplit(answer["Location"])
    cookie = visits.redeem(parse_qs(found.query)["ticket"][0], str(found.hostname).partition(".")[0], None)
    assert cookie is not None
    return cookie


def test_a_link_opens_the_page_without_signing_in(api: Api, browse: Browse, alice: User, job: Job) -> None:
    made = link(api(alice)).json()
    cookie = by_link(browse(None), made["url"])
    [visit] = visits.check([cookie]).values()
    assert (visit.viewer, visit.target and visit.target.port) == (f"link {PageShare.objects.get().pk}", 30001)
    assert AuditEvent.objects.get(action="web page opened by link").object == "alice/one w-0 web"
    assert made["name"] not in PageVisit.objects.values_list("ticket", "cookie").get()


@pytest.mark.parametrize("how", ["ends", "is taken back", "is switched off", "has no owner", "has no job"])
def test_what_came_by_a_link_closes_when_that(
    api: Api, browse: Browse, alice: User, job: Job, settings: Any, how: str
) -> None:
    made = link(api(alice)).json()
    cookie = by_link(browse(None), made["url"])
    if how == "ends":
        PageShare.objects.update(expires_at=timezone.now())
    elif how == "is taken back":
        assert api(alice).delete(address("web", f"shares/link/{made['name']}")).status_code == 200
    elif how == "is switched off":
        settings.APPS_LINKS = "none"
    elif how == "has no owner":
        User.objects.filter(username="alice").update(is_active=False)
    else:
        Job.objects.update(deleted_at=timezone.now())
    assert visits.check([cookie]) == {}
    assert browse(None).get(urlsplit(made["url"]).path, SERVER_NAME="localhost").status_code == 404


def test_a_link_opens_no_other_page_and_nothing_by_its_name_alone(
    api: Api, browse: Browse, alice: User, job: Job
) -> None:
    made = link(api(alice)).json()
    cookie = by_link(browse(None), made["url"])
    PageVisit.objects.update(label="ps")
    assert visits.check([cookie]) == {}
    for path in (f"/s/{made['name']}", f"/s/{made['name']}.x", f"{urlsplit(made['url']).path}x", "/s/."):
        assert browse(None).get(path, SERVER_NAME="localhost").status_code == 404
    PageShare.objects.update(kind="vc")
    assert browse(None).get(urlsplit(made["url"]).path, SERVER_NAME="localhost").status_code == 404


def test_links_have_their_limits(api: Api, alice: User, bob: User, job: Job, settings: Any) -> None:
    assert link(api(bob)).status_code == 403
    assert link(api(None)).status_code == 401
    assert "runs commands as you" in link(api(alice), "jupyter").json()["message"]
    for seconds in (1, 8 * 86_400, -1, True, "1", None):
        assert link(api(alice), seconds=seconds).status_code == 400  # type: ignore[arg-type]
    shared = api(alice).post(address("web", "links"), SERVER_NAME="gpu-master")
    assert (shared.status_code, "LONGSHORE_APPS_DOMAIN" in shared.json()["message"]) == (403, True)
    settings.APPS_LINKS = "none"
    assert link(api(alice)).status_code == 403
    assert not PageShare.objects.exists()


def test_a_visit_by_link_opens_nothing_where_pages_share_a_host(
    api: Api, browse: Browse, alice: User, job: Job
) -> None:
    made = link(api(alice)).json()
    assert browse(None).get(urlsplit(made["url"]).path, SERVER_NAME="gpu-master").status_code == 403
    browse(None).get(urlsplit(made["url"]).path, SERVER_NAME="localhost")
    row = PageVisit.objects.get()
    PageVisit.objects.update(ticket=visits._hash("known"))
    assert visits.redeem("known", visits._key(row), "") is None


def test_who_has_a_link_fills_no_table(
    api: Api, browse: Browse, alice: User, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MOST_VISITS", 2)
    path = urlsplit(link(api(alice)).json()["url"]).path
    assert [browse(None).get(path, SERVER_NAME="localhost").status_code for _ in range(4)] == [302, 302, 409, 409]
    PageVisit.objects.update(expires_at=timezone.now())
    assert browse(None).get(path, SERVER_NAME="localhost").status_code == 302
    assert PageVisit.objects.count() == 1


def test_a_share_may_last_for_a_time(api: Api, alice: User, bob: User, job: Job) -> None:
    to_bob = address("web", "shares/user/bob")
    assert api(alice).put(to_bob, {"seconds": 3600}, format="json").status_code == 201
    cookie = opened(api(bob))
    PageShare.objects.update(expires_at=timezone.now())
    assert visits.check([cookie]) == {}
    assert api(bob).post(address(), SERVER_NAME="localhost").status_code == 403
    assert api(alice).put(to_bob).status_code == 201
    assert PageShare.objects.get().expires_at is None


def test_the_tab_makes_a_link_shows_it_again_and_takes_it_back(browse: Browse, alice: User, job: Job) -> None:
    client, page = browse(alice), {"role": "w", "index": "0", "label": "web", "kind": "link"}
    client.post("/jobs/alice/one/web/share", {**page, "seconds": "3600"}, SERVER_NAME="localhost")
    shown = client.get("/jobs/alice/one/web?share=w/0/web", SERVER_NAME="localhost").content.decode()
    name = PageShare.objects.get().name
    assert f"http://localhost/s/{name}." in shown and "Take back" in shown
    client.post("/jobs/alice/one/web/share", {**page, "name": name, "end": "1"})
    assert not PageShare.objects.exists()
    assert client.post("/jobs/alice/one/web/share", {**page, "seconds": "x"}).status_code == 302
