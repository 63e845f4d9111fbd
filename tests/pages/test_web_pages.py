"""The tab of web pages: looks, shares, the way in, and the card of an ended job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from base.models import User
from jobs.models import Job, Task
from jobs.web_pages import shown as shown_pages
from tests.builders import make_job, make_node
from tests.helpers import LIMIT
from tests.hosts import Hosts
from tests.http import Client
from tests.pages.conftest import Tab
from tests.web_app import Page, Server

Browse = Callable[[User | None], Client]
URL = "/jobs/alice/one/web"


@pytest.fixture
def job(hosts: Hosts, alice: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """Alice's, with a page that answers and one that does not."""
    monkeypatch.setattr(shown_pages, "PATIENCE", LIMIT)
    server = Server(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hosts.add("unix:///n1").listening = {30001: ("127.0.0.1", server.server_address[1])}
    node = make_node("n1", endpoint="unix:///n1")
    labels = [{"label": label, "beginAt": 0, "portNumber": 1} for label in ("jupyter", "web")]
    role = {"name": "w", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "command": "true", "portList": labels}
    job = make_job("alice", "one", state="RUNNING", node=node, config={"taskRoles": [role]})
    Task.objects.filter(job=job).update(ports={"jupyter": [30000], "web": [30001], "http": [30002]})
    yield job
    server.shutdown()
    server.server_close()


@pytest.mark.browser
def test_it_looks_right(tab: Callable[..., Tab], alice: User, job: Job) -> None:
    with_shares = tab(alice)
    page = with_shares.open(f"{URL}?share=w/0/jupyter")
    page.wait_for_selector("text=answers")
    page.wait_for_selector("text=Nothing listens on port 30000.")
    with_shares.check_here("web pages")


@pytest.mark.django_db
def test_who_may_open_it_is_led_there(browse: Browse, alice: User, bob: User, job: Job) -> None:
    answer = browse(alice).get(f"{URL}/w/0/web", SERVER_NAME="localhost")
    assert (answer.status_code, answer["Referrer-Policy"]) == (302, "no-referrer")
    assert (urlsplit(answer["Location"]).hostname or "").endswith(".localhost")
    assert browse(None).get(f"{URL}/w/0/web")["Location"] == f"/login?next={URL}/w/0/web"
    assert browse(bob).get(f"{URL}/w/0/web", SERVER_NAME="localhost").status_code == 403


@pytest.mark.django_db
def test_a_share_is_given_and_taken_back_without_a_script(browse: Browse, alice: User, bob: User, job: Job) -> None:
    fields = {"role": "w", "index": "0", "label": "web", "kind": "user", "name": "bob"}
    client = browse(alice)
    shown = client.post(f"{URL}/share", fields, follow=True).content.decode()
    assert "Web is shared with bob." in shown and "Take back" in shown
    assert "Open" in browse(bob).get(URL).content.decode()
    shown = client.post(f"{URL}/share", {**fields, "end": "1"}, follow=True).content.decode()
    assert "Web is not shared with bob any more." in shown and "Take back" not in shown
    assert "There is no user" in client.post(f"{URL}/share", {**fields, "name": "x"}, follow=True).content.decode()
    assert "ask alice" in browse(bob).get(URL).content.decode()


@pytest.mark.django_db
def test_what_is_no_page_is_not_found(browse: Browse, alice: User, job: Job) -> None:
    for path in (f"{URL}/w/0/ssh", f"{URL}/w/1/web", f"{URL}/x/0/web", f"{URL}?share=w/0/nothing"):
        assert browse(alice).get(path).status_code == 404, path


@pytest.mark.django_db
def test_an_ended_job_offers_to_show_its_curves(browse: Browse, alice: User, bob: User) -> None:
    make_job("alice", "done", state="FAILED")
    shown = browse(alice).get("/jobs/alice/done/web").content.decode()
    assert 'value="/Output/alice/done"' in shown and 'value="longshore/run.tensorboard:1"' in shown
    answer = browse(alice).post("/jobs/alice/done/web/serve", {"folder": "", "image": "mine:1"})
    assert answer["Location"] == "/jobs/alice/done-tensorboard/web"
    assert Job.objects.get(name="done-tensorboard").spec["image"] == "mine:1"
    assert browse(None).post("/jobs/alice/done/web/serve").status_code in (302, 403)


@pytest.mark.django_db
def test_curves_are_offered_only_where_they_are_served(browse: Browse, alice: User, bob: User) -> None:
    make_job("alice", "done", state="FAILED")
    make_job("alice", "live", state="RUNNING")
    make_job("alice", "odd", state="FAILED", config={"outputDir": "/Output/alice/../bob"})
    assert "Serve TensorBoard" in browse(bob).get("/jobs/alice/odd/web").content.decode()  # of a folder that he names
    for user, name, status in ((alice, "live", 409), (bob, "done", 403)):
        assert "Serve TensorBoard" not in browse(user).get(f"/jobs/alice/{name}/web").content.decode()
        assert browse(user).post(f"/jobs/alice/{name}/web/serve").status_code == status
    assert Job.objects.count() == 3
