"""The pages of docs/ in the portal: there, linked, and true to the settings."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.test import Client

from base.models import User
from jobs.containers.tasks import STOP_GRACE
from portal.docs.views import titles
from tests.builders import make_job, make_node


def test_every_guide_can_be_read_by_everybody(browse: Callable[[User | None], Client]) -> None:
    client = browse(None)
    groups = client.get("/guides").context["groups"]
    guides = [guide for _, shown in groups for guide in shown]
    assert {"use/ending", "run/settings", "examples", "examples/sweep"} <= {name for name, _ in guides}
    assert sorted(guides) == sorted(titles())
    for name, title in guides:
        assert client.get(f"/guides/{name}").context["title"] == title
    for name in ("nothing", "use", "../README", "examples/../ending", "examples/code/ddp.py"):
        assert client.get(f"/guides/{name}").status_code == 404


# The addresses that guides had before docs/ had a folder for each reader.
OLD = (
    *("backup", "code", "compatibility", "debugging", "diagnosis", "ending", "examples", "examples/hdfs", "extras"),
    *("files", "hdfs", "health", "https", "kubernetes", "logs", "metrics", "pai-fs", "performance", "rewind"),
    *("security", "several-hosts", "stores", "submitting", "sweeps", "terminal", "trials", "virtual-clusters"),
    "web-pages",
)


def test_an_address_of_earlier_releases_leads_to_the_guide(browse: Callable[[User | None], Client]) -> None:
    client = browse(None)
    answers = {name: client.get(f"/guides/{name}", follow=True) for name in OLD}
    found = {name: (answer.status_code, answer.request["PATH_INFO"]) for name, answer in answers.items()}
    assert [each for each in found.items() if each[1][0] != 200 or not each[1][1].endswith(f"/{each[0]}")] == []


def test_the_page_of_a_job_leads_to_how_it_is_told_to_end(browse: Callable[[User | None], Client], alice: User) -> None:
    make_job("alice", "train", state="RUNNING", node=make_node())
    assert 'href="/guides/use/ending"' in browse(alice).get("/jobs/alice/train").content.decode()
    told = browse(alice).get("/guides/use/ending").content.decode()
    assert f"stops or deletes the job</td><td>{STOP_GRACE} seconds" in told
    assert 'href="/guides/use/files"' in told and "<h1>How a job is told to end, and goes on where it was</h1>" in told
    assert f"</code>: {settings.EVICTION_GRACE} seconds, unless an admin" in told
