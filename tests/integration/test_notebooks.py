"""The page Notebooks: what it offers, what one click submits, and how the tool is reached and given back."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from base.models import User
from clusters.models import VirtualCluster
from jobs import queries, secrets
from jobs.config.spec import JobSpec
from jobs.models import Job
from jobs.web_pages import notebooks, shown
from jobs.web_pages.shown import State
from portal.web_pages.serving.proxy import _TOKEN
from tests.builders import make_node
from tests.http import Browser

pytestmark = pytest.mark.django_db
FOLDER = "/users/alice/notebooks"


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path


@pytest.fixture
def browser(alice: User) -> Browser:
    browser = Browser()
    browser.force_login(alice)
    return browser


def opened(browser: Browser, **fields: str) -> Job:
    answer = browser.post("/notebooks", fields)
    assert answer.status_code == 302, answer.content.decode()
    return queries.get_job("alice", answer["Location"].removeprefix("/notebooks/").removesuffix("?opened"))


def test_one_click_opens_jupyter_as_usual(browser: Browser) -> None:
    make_node()
    job = opened(browser)
    role = JobSpec.from_json(job.spec).task_roles[0]
    assert (job.name, role.gpu_number, role.cpu_number, role.memory_mb) == ("notebook-jupyter", 0, 2, 4096)
    assert f"NOTEBOOK_FOLDER={FOLDER} NOTEBOOK_IDLE=7200" in role.command
    token = secrets.of(job.pk)["JUPYTER_TOKEN"]
    assert _TOKEN.fullmatch(token) and token not in job.config and token not in str(job.spec)
    page = browser.get("/notebooks/notebook-jupyter")
    assert (
        page["Refresh"] == "2; url=/notebooks/notebook-jupyter"
        and "notebook-jupyter opens here" in page.content.decode()
    )


def test_while_it_waits_its_page_says_for_what(browser: Browser) -> None:
    node = make_node()
    opened(browser)
    node.delete()
    page = browser.get("/notebooks/notebook-jupyter").content.decode()
    assert "It waits: No node" in page and "for room" not in page


def test_sizes_are_those_of_the_nodes_and_say_what_is_free(browser: Browser) -> None:
    make_node(cpus=32, memory_mb=131_072, gpus=2)
    page = browser.get("/notebooks").content.decode()
    assert "1 × A100" in page and "2 × A100" in page and "4 × A100" not in page
    assert page.count("fits now") == 3 and "16 cores, 64 GB" in page
    job = opened(browser, size="2 A100", folder="/shared/course")
    spec = JobSpec.from_json(job.spec)
    assert (spec.gpu_type, spec.task_roles[0].gpu_number, spec.task_roles[0].cpu_number) == ("A100", 2, 16)
    again = browser.get("/notebooks").content.decode()
    assert 'value="/shared/course"' in again, "as last time"
    assert re.search(r'value="2 A100"\s+checked', again)


def test_vs_code_is_opened_with_the_image_of_jupyterlab_and_a_key_of_its_own(browser: Browser) -> None:
    make_node()
    before = opened(browser, image="lab/jupyter:2", folder="/shared/one")
    browser.post(f"/notebooks/{before.name}/give-back")
    job = opened(browser, tool="code", size="1 A100")
    spec = JobSpec.from_json(job.spec)
    assert (job.name, spec.task_roles[0].name, spec.image) == ("notebook-code", "code", "lab/jupyter:2")
    assert "NOTEBOOK_TOOL=code NOTEBOOK_FOLDER=/shared/one" in spec.task_roles[0].command
    assert list(secrets.of(job.pk)) == ["CODE_TOKEN"]
    page = browser.get("/notebooks").content.decode()
    assert re.search(r'value="code"\s+checked', page) and "as last time: VS Code, 1 × A100" in page


def test_an_image_that_stood_there_for_another_tool_is_not_taken_for_this_one(browser: Browser) -> None:
    make_node()
    offered = "jupyter lab/jupyter:2"
    board = opened(browser, tool="tensorboard", image="lab/jupyter:2", offered=offered)
    assert JobSpec.from_json(board.spec).image == "longshore/run.tensorboard:1"
    mine = opened(browser, tool="tensorboard", image="lab/board:1", offered=offered, folder="/shared/two")
    assert JobSpec.from_json(mine.spec).image == "lab/board:1", "somebody has typed it"
    again = opened(browser, tool="tensorboard", offered=offered, folder="/shared/three")
    assert JobSpec.from_json(again.spec).image == "lab/board:1", "as last time"
    lab = opened(browser, tool="jupyter", image="lab/board:1", offered="tensorboard lab/board:1")
    assert JobSpec.from_json(lab.spec).image == "longshore/run.jupyter:1"


def test_what_runs_and_what_ended_has_its_tool_and_can_be_deleted(browser: Browser) -> None:
    make_node()
    opened(browser, tool="code")
    page = browser.get("/notebooks").content.decode()
    assert "<b>1</b> runs" in page and 'VS Code: <span class="ls-mono">/users/alice/notebooks</span>' in page
    Job.objects.update(state="STOPPED")
    page = browser.get("/notebooks").content.decode()
    assert "<b>0</b> run<" in page and 'href="/jobs/alice/notebook-code/delete"' in page


def test_tensorboard_reads_a_folder_and_takes_no_gpu(browser: Browser) -> None:
    make_node(gpus=1)
    job = opened(browser, tool="tensorboard", size="1 A100", folder="/Output/alice/bert")
    role = JobSpec.from_json(job.spec).task_roles[0]
    assert (job.name, role.gpu_number) == ("notebook-tensorboard", 0) and "TB_FOLDER=/Output/alice/bert" in role.command
    [mine] = notebooks.of(User.objects.get(username="alice"))
    assert (mine.asked.tool, mine.asked.folder) == ("tensorboard", "/Output/alice/bert")


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"folder": "/users/bob/x"}, 403, "You may not read /users/bob/x"),
        ({"folder": "/"}, 400, "Name a tool, and a folder"),
        ({"folder": "../bob"}, 400, "Name a tool, and a folder"),
        ({"tool": "bash"}, 400, "Name a tool, and a folder"),
        ({"folder": "/data/x"}, 403, "You may not write into /data/x"),
        ({"vc": "a\0b"}, 400, "virtualCluster"),
        ({"vc": "nowhere"}, 404, "nowhere"),
        ({"image": "a b"}, 400, "image"),
    ],
)
def test_what_cannot_be_is_said_on_the_form(
    browser: Browser, bob: User, fields: dict[str, str], status: int, says: str
) -> None:
    make_node()
    answer = browser.post("/notebooks", fields)
    assert answer.status_code == status and says in answer.content.decode()
    assert not Job.objects.exists()


def test_it_ends_after_what_its_virtual_cluster_allows(browser: Browser) -> None:
    make_node()
    VirtualCluster.objects.filter(name="default").update(notebook_minutes=30)
    assert "After 30 min without use" in browser.get("/notebooks").content.decode()
    assert "NOTEBOOK_IDLE=1800 " in JobSpec.from_json(opened(browser).spec).task_roles[0].command
    board = opened(browser, tool="tensorboard")
    assert "TB_IDLE=1800\n" in JobSpec.from_json(board.spec).task_roles[0].command


def test_one_that_runs_already_is_opened_again(browser: Browser) -> None:
    make_node()
    assert opened(browser).pk == opened(browser, size="0").pk != opened(browser, folder="/shared/other").pk
    same = {opened(browser, folder=written).pk for written in ("/shared/one", "/shared/one/", "//shared//one")}
    assert len(same) == 1, "two of one folder would write over each other"


def test_in_one_folder_one_works_with_one_tool(browser: Browser) -> None:
    make_node()
    job = opened(browser, tool="jupyter", folder="/shared/one")
    answer = browser.post("/notebooks", {"tool": "code", "folder": "/shared//one/"})
    assert answer.status_code == 409
    assert f"JupyterLab is open in /shared/one, as {job.name}, and" in answer.content.decode()
    opened(browser, tool="tensorboard", folder="/shared/one")
    browser.post(f"/notebooks/{job.name}/give-back")
    opened(browser, tool="code", folder="/shared/one")


def test_an_admin_s_notebook_reads_no_more_than_a_job_of_theirs(alice: User, bob: User) -> None:
    make_node()
    alice.is_admin = True
    alice.save()
    (browser := Browser()).force_login(alice)
    for tool in ("jupyter", "tensorboard"):
        answer = browser.post("/notebooks", {"tool": tool, "folder": "/users/bob/x"})
        assert (answer.status_code, Job.objects.count()) == (403, 0)


def test_a_folder_with_a_quote_stays_one_word_of_the_command(browser: Browser) -> None:
    make_node()
    job = opened(browser, folder="/shared/it's; rm -rf $HOME")
    command = JobSpec.from_json(job.spec).task_roles[0].command
    assert command.startswith(
        "export NOTEBOOK_TOOL=jupyter NOTEBOOK_FOLDER='/shared/it'\"'\"'s; rm -rf $HOME' NOTEBOOK_IDLE=7200 "
    )


def test_a_folder_into_which_others_write_is_not_the_user_s_own(browser: Browser) -> None:
    make_node()
    commands = [
        JobSpec.from_json(opened(browser, tool="code", folder=folder).spec).task_roles[0].command.splitlines()[0]
        for folder in ("/users/alice/one", "/alice/one", "/shared/alice", "/tmp/one")
    ]
    assert [line.rpartition("NOTEBOOK_IS_OWN=")[2] for line in commands] == ["yes", "yes", "", ""]


@pytest.mark.parametrize("tool", ["jupyter", "code"])
def test_it_leads_to_the_tool_once_that_answers_and_the_owner_s_key_alone_goes_along(
    browser: Browser, alice: User, admin: User, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    make_node()
    job = opened(browser, tool=tool)
    listed = shown.listed

    def answering(*of: Any, **more: Any) -> Any:
        return [each.__class__(each.page, "node-1", State("answers", 200), True, each.url) for each in listed(*of)]

    monkeypatch.setattr(shown, "listed", answering)
    first = browser.get(f"/notebooks/notebook-{tool}?opened")
    assert (first.status_code, first["Refresh"]) == (200, f"0; url=/notebooks/notebook-{tool}")
    answer = browser.get(f"/notebooks/notebook-{tool}")
    if tool == "jupyter":
        key = f"&token={secrets.of(job.pk)['JUPYTER_TOKEN']}"
    else:
        key = f"&session={hashlib.sha256(secrets.of(job.pk)['CODE_TOKEN'].encode()).hexdigest()}"
    assert answer.status_code == 302 and answer["Location"].endswith(key)
    assert answer["Referrer-Policy"] == "no-referrer"
    assert notebooks.key_of(admin, job, tool) == {}


def test_what_is_given_back_is_offered_again_as_it_was(browser: Browser) -> None:
    make_node()
    opened(browser, folder="/shared/one")
    assert browser.post("/notebooks/notebook-jupyter/give-back").status_code == 302
    job = queries.get_job("alice", "notebook-jupyter")
    assert job.execution == Job.Execution.STOP
    Job.objects.filter(pk=job.pk).update(state="STOPPED")
    page = browser.get("/notebooks").content.decode()
    assert "Start notebook-jupyter again" in page
    assert "has ended" in (ended := browser.get("/notebooks/notebook-jupyter")).content.decode()
    assert "Refresh" not in ended


def test_others_have_none_of_it(browser: Browser, bob: User) -> None:
    make_node()
    opened(browser)
    other = Browser()
    assert other.get("/notebooks")["Location"] == "/login?next=/notebooks"
    other.force_login(bob)
    assert other.get("/notebooks/notebook-jupyter").status_code == 404
    assert other.post("/notebooks/notebook-jupyter/give-back").status_code == 404
    assert "notebook-jupyter" not in other.get("/notebooks").content.decode()


def test_a_job_of_a_like_name_is_no_notebook(browser: Browser, alice: User) -> None:
    make_node()
    from jobs import services

    role = {"name": "main", "taskNumber": 1, "command": "true"}
    for name, extras in (("notebook-mine", {}), ("notebook-odd", {"notebook": ["x"], "serves": 7})):
        services.submit(alice, {"jobName": name, "image": "busybox", "taskRoles": [role], "extras": extras})
    assert notebooks.of(alice) == []
    assert browser.get("/notebooks").status_code == 200
