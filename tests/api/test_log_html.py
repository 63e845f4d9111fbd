"""containerLog + a file's name is the page that old portals take apart (v1 contract, 5.10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.models import User
from jobs.models import Job
from tests.cluster import Cluster
from tests.logs import cluster_with_logs, write

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("patient_logs")]

Api = Callable[[User | None], APIClient]
LOG = "/api/v1/user/alice/jobs/hello/taskRoles/worker/0/logs/1/"
NAMES = ["stdout", "stderr", "user.pai.stdout", "user.pai.stderr"]


@pytest.fixture
def cluster(alice: User, settings: Any, tmp_path: Path) -> Iterator[Cluster]:
    with cluster_with_logs(alice, settings, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def job(cluster: Cluster) -> Job:
    cluster.add_node()
    job = cluster.submit(name="hello")
    cluster.settle()
    return job


class Portal(HTMLParser):
    """As the portal of v0.11 does it: in ``.content`` the first <pre>, and the links of the element before it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.links, self._in_content, self._in_pre, self._done = "", [""], False, False, False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("class") == "content":
            self._in_content = True
        elif self._in_content and tag == "pre" and not self._done:
            self._in_pre = True
        elif self._in_content and tag == "p" and not self._done:
            self.links = []
        elif self._in_content and tag == "a" and not self._done:
            self.links.append(values["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._in_pre, self._done = False, True

    def handle_data(self, data: str) -> None:
        if self._in_pre:
            self.text += data


def page(client: APIClient, url: str) -> Portal:
    answer = client.get(url)
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/html; charset=utf-8")
    return Portal(b"".join(answer.streaming_content).decode())


def test_it_shows_the_last_4096_bytes_and_leads_to_all_of_it(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    whole = "".join(f"line {number} <b>&amp;\n" for number in range(1000))
    write(cluster, job, whole.encode())
    detail = api(alice).get("/api/v1/user/alice/jobs/hello").json()
    prefix = detail["taskRoles"]["worker"]["taskStatuses"][0]["containerLog"]
    assert prefix == f"http://testserver{LOG}"
    seen = page(api(alice), f"{prefix}stdout")
    assert seen.text == whole[-4096:]
    assert seen.links == [f"{LOG}stdout?start=0"]
    assert page(api(alice), seen.links[0]).text == whole
    assert page(api(alice), f"{LOG}stdout?start=-10").text == whole[-10:]
    assert page(api(alice), f"{LOG}stdout?start={len(whole) - 3}").text == whole[-3:]


@pytest.mark.parametrize("name", NAMES)
def test_it_knows_the_names_of_every_release(api: Api, alice: User, cluster: Cluster, job: Job, name: str) -> None:
    write(cluster, job, b"hello\n")
    assert page(api(alice), LOG + name).text == ("hello\n" if "out" in name else "")
    missing = api(alice).get(f"{LOG}other.log")
    assert (missing.status_code, missing.json()["code"]) == (404, "NoLogError")


def test_it_cuts_no_character_in_two(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    write(cluster, job, "ä€x".encode())
    assert page(api(alice), f"{LOG}stdout?start=-3").text == "x"
    assert page(api(alice), f"{LOG}stdout?start=-4").text == "€x"


def test_it_keeps_a_newline_at_the_beginning(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    write(cluster, job, b"\nhello")
    assert page(api(alice), f"{LOG}stdout").text == "\n\nhello"  # a browser takes the first for markup


def test_it_lists_the_logs_at_the_prefix(api: Api, alice: User, job: Job) -> None:
    answer = api(alice).get(LOG)
    text = b"".join(answer.streaming_content).decode()
    assert answer.status_code == 200
    assert [name for name in NAMES if f'<a href="{LOG}{name}">' in text] == NAMES


def test_it_asks_who_wants_to_read(api: Api, job: Job) -> None:
    assert api(None).get(f"{LOG}stdout").status_code == api(None).get(LOG).status_code == 401


def test_it_gives_plain_text_to_who_asks_for_it(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    write(cluster, job, b"<hello>\n")
    for answer in (
        api(alice).get(f"{LOG}stdout?tail=1"),
        api(alice).get(f"{LOG}stdout", headers={"Accept": "text/plain"}),
    ):
        assert b"".join(answer.streaming_content) == b"<hello>\n"
    assert api(alice).get(f"{LOG}stdout?start=x").status_code == 400
