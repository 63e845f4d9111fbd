"""A day with a notebook, with the real JupyterLab in a container of a real engine: opened with one click, used, given
back by itself when nobody uses it, and opened again with its file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.acceptance.portal import Portal, portal_on
from tests.acceptance.test_web_pages import browser as browser
from tests.acceptance.test_web_pages import password, signed_in
from tests.bed.docker_bed import BedNode
from tests.bed.jupyter_image import ensure_jupyter_image, missing
from tests.helpers import until

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.timed]
NAME, FOLDER = "notebook-jupyter", "/users/admin/notebooks"
CELL = "open('made.txt', 'a').write('by a cell ')"


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    if reason := missing():
        pytest.skip(reason)
    ensure_jupyter_image(docker_engine)
    address = f"{docker_engine.bed.network}.1"  # of the bed's bridge: containers reach it
    bound = {"LONGSHORE_APPS_BIND": "any"}
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine, address=address, **bound) as one:
        yield one
        one.stop_all()
        one.wait_clean(docker_engine)


def test_it_is_opened_used_given_back_when_idle_and_opened_again_with_its_file(
    portal: Portal, browser: Browser
) -> None:
    minutes = portal.http.put(f"{portal.url}/api/v2/virtual-clusters/default", json={"notebookMinutes": 1})
    assert minutes.is_success, minutes.text
    with signed_in(browser, portal.url, "admin", password(portal)) as context:
        page = context.new_page()
        page.goto(f"{portal.url}/notebooks")
        page.get_by_role("button", name="Open", exact=True).click()
        page.locator(".jp-LauncherCard[title^='Python 3']").first.click()
        run_cell(page, CELL)
        until(lambda: made(portal) == b"by a cell ", what="what the cell wrote is in the store")
        page.keyboard.press("Control+s")
        page.get_by_role("button", name="Rename and Save").click()  # it asks for a name at the first time
        written = f"{FOLDER}/Untitled.ipynb"
        until(lambda: "by a cell" in portal.read(written).decode(), what="the notebook itself is there too")
        page.close()
    assert portal.wait_state(NAME, timeout=180)["state"] == "SUCCEEDED"
    said = portal.log(NAME, "jupyter")
    assert "It ends at" in said and "it is saved and given back." in said

    with signed_in(browser, portal.url, "admin", password(portal)) as context:
        page = context.new_page()
        page.goto(f"{portal.url}/notebooks")
        page.get_by_role("button", name=f"Start {NAME} again").click()
        page.get_by_text("Untitled.ipynb").first.dblclick()
        run_cell(page, "")
        until(lambda: made(portal) == b"by a cell " * 2, what="its cell runs again, on its file")
        page.goto(f"{portal.url}/notebooks")
        page.get_by_role("button", name="Save").click()
    assert portal.wait_state(f"{NAME}-2")["state"] == "STOPPED"


def made(portal: Portal) -> bytes:
    """What cells have written, as it is in the store; empty where nothing is."""
    answer = portal.http.get(f"{portal.url}/webhdfs/v1{FOLDER}/made.txt", params={"op": "OPEN"})
    return answer.content if answer.is_success else b""


def run_cell(page: Page, text: str) -> None:
    """Type it into the first cell, and run that once a kernel is there: JupyterLab runs nothing before."""
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.keyboard.type(text)
    page.keyboard.press("Shift+Enter")
