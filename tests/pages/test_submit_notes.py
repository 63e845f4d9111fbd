"""The submit page says what is known of single fields: image, folders, numbers of GPUs, files left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from base.files.store import open_store
from base.files.store.base import StoreUnavailable
from base.models import User
from clusters.models import Node
from jobs.forecast import outlook
from jobs.submitting import folders
from tests.builders import make_config, make_job, make_node
from tests.helpers import LIMIT
from tests.pages.conftest import Tab
from tests.pages.test_submit import sent, typed

Browse = Callable[[User | None], Client]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to count the files of a folder, and to find when a job would start."""
    monkeypatch.setattr(folders, "PATIENCE", LIMIT)
    for limit in ("FORECAST", "CHANGES"):
        monkeypatch.setattr(outlook, limit, LIMIT)


def notes(client: Client, **more: Any) -> dict[str, tuple[str, str]]:
    plan = client.post("/submit/check", {"config": json.dumps(make_config("mine", **more))}).context["plan"]
    return {note.name: (note.kind, note.says) for note in plan.notes}


def test_it_says_which_nodes_have_the_image(browse: Browse, alice: User) -> None:
    make_node("n1", images=["ubuntu:22.04"])
    make_node("n2")
    make_node("small", cpus=1, images=["ubuntu:22.04"])
    role = {"name": "w", "cpuNumber": 2, "memoryMB": 100, "command": "x"}
    says = "on 1 of 2 nodes that fit; the others pull it first"
    assert notes(browse(alice), image="ubuntu:22.04", taskRoles=[role])["Image"] == ("yes", says)
    assert notes(browse(alice), image="other:1")["Image"][0] == "warn"
    Node.objects.update(images=["ubuntu:22.04"], images_at=timezone.now())
    assert notes(browse(alice), image="ubuntu:22.04")["Image"] == ("yes", "on n1, n2, small")


def test_it_looks_at_the_folders_with_the_user_s_rights(browse: Browse, alice: User, bob: User) -> None:
    make_node()
    store = open_store()
    store.write("/users/alice/code/a.py", [b"x" * 3000], owner="alice")
    store.write("/users/alice/code/deep/b.py", [b"x" * 3000], owner="alice")
    store.mkdirs("/users/alice/empty", owner="alice")
    client, root = browse(alice), "$PAI_DEFAULT_FS_URI/users/alice"
    found = notes(client, codeDir=f"{root}/code", dataDir=f"{root}/no", outputDir=f"{root}/out/$PAI_JOB_NAME")
    assert found["Code folder"] == ("yes", "found, 2 files, 5.9 KB")
    assert found["Data folder"] == ("warn", "There is no such folder.")
    assert found["Output folder"] == ("", "is not there yet")
    assert notes(client, codeDir=f"{root}/empty")["Code folder"][0] == "warn"
    for hidden in (f"{root}/code", f"{root}/nothing"):
        says = "There is no such folder that you may read."
        assert notes(browse(bob), codeDir=hidden)["Code folder"] == ("no", says)
    for odd in ("hdfs://[x", "/../x", "$NOWHERE/x", "relative"):
        sent = {"config": json.dumps(make_config("mine", codeDir=odd))}
        assert client.post("/submit/check", sent).status_code == 200


def test_a_store_that_is_away_costs_no_answer(browse: Browse, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise StoreUnavailable

    make_node()
    monkeypatch.setattr(folders, "open_store", away)
    assert notes(browse(alice), codeDir="/users/alice/x")["Folders"][0] == "warn"


def test_it_says_when_other_numbers_of_gpus_would_start(browse: Browse, alice: User) -> None:
    make_job("bob", state="RUNNING", gpus=2, node=make_node("n1", gpus=4))
    sent = {"config": json.dumps(make_config("mine", gpus=4)), "role": "0"}
    found = browse(alice).post("/submit/sizes", sent).context["sizes"]
    assert [(one.gpus, one.title, one.is_asked) for one in found] == [
        (1, "fits now", False),
        (2, "fits now", False),
        (4, "waits", True),
        (8, "never", False),
    ]
    assert found[0].says == "n1" and "8" in found[3].says
    for other in ({**sent, "role": "7"}, {**sent, "config": "{"}, {**sent, "role": "x", "config": ""}):
        assert browse(alice).post("/submit/sizes", other).context["sizes"] == []
    assert browse(None).post("/submit/sizes", sent).status_code == 302


def test_what_a_longshoreignore_leaves_out_is_answered(browse: Browse, alice: User) -> None:
    asked = {"patterns": "*.npy\n", "paths": json.dumps(["a.py", "b/c.npy"])}
    assert browse(alice).post("/submit/ignored", asked).json() == {"left": [1]}
    refused = browse(alice).post("/submit/ignored", {**asked, "patterns": "!"})
    assert (refused.status_code, refused.json()["message"]) == (400, "Line 1 of .longshoreignore cannot be read: !")
    assert browse(None).post("/submit/ignored", asked).status_code == 302


@pytest.mark.browser
def test_the_fields_say_what_is_known_and_gpus_are_chosen_from_the_table(tab: Callable[..., Tab], alice: User) -> None:
    make_job("bob", state="RUNNING", gpus=2, node=make_node("n1", gpus=4))
    shown = tab(alice)
    page = shown.open("/submit")
    typed(page, json.dumps(make_config("mine", gpus=4, image="other:1", codeDir="/users/alice/nothing"), indent=2))
    expect(page.locator("[data-noted='/codeDir']")).to_contain_text("There is no such folder")
    expect(page.locator("[data-noted='/image']")).to_contain_text("not known to be on a node yet")
    page.get_by_role("button", name="Use 2 GPUs each").click()
    expect(page.locator("#role-gpuNumber")).to_have_value("2")
    expect(page.locator("#plan")).to_contain_text("Starts")
    assert json.loads(sent(page))["taskRoles"][0]["gpuNumber"] == 2
    expect(page.locator("[data-sizes]")).not_to_have_class("dim")
    shown.check("the submit page with what is known of its fields")


@pytest.mark.browser
def test_a_longshoreignore_keeps_files_from_being_uploaded(
    tab: Callable[..., Tab], alice: User, tmp_path: Path
) -> None:
    for name, text in ((".longshoreignore", "*.npy\n"), ("a.py", "1"), ("deep/b.npy", "2"), ("__pycache__/c", "3")):
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text)
    page = tab(alice).open("/submit?template=hello-world")
    page.locator("#code-folder").set_input_files(tmp_path / "mine")
    expect(page.locator("#code-uploads")).to_contain_text("1 of .git, __pycache__ and the like, 1 by .longshoreignore")
    assert [entry.name for entry in open_store().list("/users/alice/code/hello-world/mine")] == [
        ".longshoreignore",
        "a.py",
    ]


@pytest.mark.browser
def test_a_field_says_what_is_wrong_with_it_and_mends_it_on_a_phone_too(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    shown = tab(alice)
    shown.page.set_viewport_size({"width": 390, "height": 800})
    page = shown.open("/submit?template=hello-world")
    page.locator("#job-name").fill("my job!")
    expect(page.locator("#job-name-why")).to_contain_text("it may only contain letters")
    assert page.locator("#job-name").get_attribute("aria-describedby") == "job-name-why"
    shown.check("a form with a problem")
    page.get_by_role("button", name='Rename to "my-job", job-name').click()
    expect(page.locator("#job-name")).to_have_value("my-job")
    expect(page.locator("#job-name-why")).to_have_count(0)
