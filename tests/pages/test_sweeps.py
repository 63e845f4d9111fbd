"""Sweeps in the browser: written in the form, seen before they are sent, followed and stopped as one. Code by drag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from base.files.store import open_store
from base.models import User
from jobs.models import Job
from tests.builders import make_node
from tests.pages.conftest import Tab
from tests.pages.test_submit import sent

pytestmark = pytest.mark.browser


def test_a_sweep_is_written_in_the_form_submitted_and_stopped(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    shown = tab(alice)
    page = shown.open("/submit?template=hello-world")
    expect(page.locator("#job-name")).to_have_value("hello-world")
    page.click("[data-add-parameter]")
    page.fill("[aria-label='Values of lr']", "1e-4, 3e-4, 1e-3")
    page.press("[aria-label='Values of lr']", "Tab")
    page.fill("#at-once", "2")
    page.fill("#command", "train --lr $$lr$$")
    assert '"grid": {' in sent(page) and "[1e-4, 3e-4, 1e-3]" in sent(page) and "// The image" in sent(page)
    expect(page.locator("#submit")).to_have_text("Submit 3 jobs")
    expect(page.locator("#plan")).to_contain_text("hello-world-03")
    page.click("#submit")
    expect(page.locator("h1")).to_have_text("hello-world")
    expect(page.locator("main")).to_contain_text("The 3 jobs of hello-world were submitted.")
    page.goto(f"{shown.site}/jobs")
    expect(page.locator("tbody tr")).to_have_count(1)
    shown.check("a list with a sweep")
    page.get_by_role("link", name="Stop sweep hello-world").click()
    page.get_by_role("button", name="Stop 3 jobs").click()
    expect(page.locator("main")).to_contain_text("3 jobs were asked to stop")
    assert Job.objects.filter(execution="STOP").count() == 3


def test_a_sweep_is_fit_for_a_phone_in_the_dark(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    shown = tab(alice, width=390, dark=True)
    page = shown.open("/submit?template=hello-world")
    expect(page.locator("#job-name")).to_have_value("hello-world")
    page.click("[data-add-parameter]")
    page.fill("#command", "train --lr $$lr$$")
    submit = page.locator("[data-submit-too]")
    expect(submit).to_have_text("Submit 2 jobs")
    shown.check("the form of a sweep on a phone")
    page.click("[data-view=json]")
    shown.check("the JSON of a sweep on a phone")
    submit.click()
    expect(page.locator("h1")).to_have_text("hello-world")
    shown.check("a sweep on a phone")


def test_code_is_uploaded_into_a_folder_of_the_users_and_named(
    tab: Callable[..., Tab], alice: User, tmp_path: Path
) -> None:
    make_node()
    code = tmp_path / "proj"
    (code / "sub").mkdir(parents=True)
    (code / "__pycache__").mkdir()
    for name in ("train.py", "sub/net.py", "__pycache__/train.pyc"):
        (code / name).write_text("x")
    shown = tab(alice)
    page = shown.open("/submit?template=hello-world")
    expect(page.locator("#job-name")).to_have_value("hello-world")
    page.set_input_files("#code-folder", str(code))
    expect(page.locator("#code-dir")).to_have_value("$PAI_DEFAULT_FS_URI/users/alice/code/hello-world/proj")
    expect(page.locator("#code-uploads")).to_contain_text("uploaded, 2 files")
    expect(page.locator("#code-uploads")).to_contain_text("left out: 1 of")
    folder = "/users/alice/code/hello-world/proj"
    assert sorted(each.name for each in open_store().list(folder)) == ["sub", "train.py"]
    expect(page.locator("#plan")).not_to_have_class("dim")
    shown.check("uploaded code")
