"""A day with a notebook, with the real JupyterLab and the real VS Code in containers of a real engine: opened with one
click, used, given back by itself when nobody uses it, and opened again with its file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.acceptance.portal import Portal, portal_on
from tests.acceptance.test_web_pages import browser as browser
from tests.acceptance.test_web_pages import password, signed_in
from tests.bed import code_image, jupyter_image
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT, until

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.timed]
NAME, FOLDER = "notebook-jupyter", "/users/admin/notebooks"
CELL = "open('made.txt', 'a').write('by a cell ')"


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    address = f"{docker_engine.bed.network}.1"  # of the bed's bridge: containers reach it
    bound = {"LONGSHORE_APPS_BIND": "any"}
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine, address=address, **bound) as one:
        yield one
        one.stop_all()
        one.wait_clean(docker_engine)


def test_it_is_opened_used_given_back_when_idle_and_opened_again_with_its_file(
    portal: Portal, browser: Browser, docker_engine: BedNode
) -> None:
    if reason := jupyter_image.missing():
        pytest.skip(reason)
    jupyter_image.ensure_jupyter_image(docker_engine)
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


def test_vs_code_is_opened_used_given_back_when_idle_and_opened_again_as_it_was(
    portal: Portal, browser: Browser, docker_engine: BedNode
) -> None:
    if reason := code_image.missing():
        pytest.skip(reason)
    image, folder, name = code_image.ensure_code_image(docker_engine), "/users/admin/project", "notebook-code"
    minutes = portal.http.put(f"{portal.url}/api/v2/virtual-clusters/default", json={"notebookMinutes": 1})
    assert minutes.is_success, minutes.text
    portal.write(f"{folder}/train.py", b"print(1)\n")
    with signed_in(browser, portal.url, "admin", password(portal)) as context:
        page = context.new_page()
        page.goto(f"{portal.url}/notebooks?folder={folder}")
        page.get_by_text("VS Code", exact=True).click()
        page.get_by_label("Image").fill(image)
        page.get_by_role("button", name="Open", exact=True).click()
        page.get_by_role("treeitem", name="train.py").dblclick(timeout=LIMIT * 1000)
        page.locator(".view-line").first.click()
        page.keyboard.type("# typed, and not saved ")
        command(page, "Terminal: Create New Terminal")
        page.locator(".terminal-wrapper.active .xterm-helper-textarea").wait_for(state="attached")
        page.keyboard.type("echo by a terminal > made.txt\n")
        until(lambda: made(portal, folder) == b"by a terminal\n", what="what the terminal wrote is in the store")
        stranger = browser.new_context()  # who has no cookie of it
        node = portal.wait_running(name, index=0, role="code")
        address = f"http://{node['containerIp']}:{node['containerPorts']['code']}/"
        assert "login" in stranger.new_page().goto(address).url
        stranger.close()
        # That a browser has it open is no use.
        assert portal.wait_state(name, timeout=180)["state"] == "SUCCEEDED"
    said = portal.log(name, "code")
    assert "It ends at" in said and "it is saved and given back." in said

    with signed_in(browser, portal.url, "admin", password(portal)) as context:
        page = context.new_page()
        page.goto(f"{portal.url}/notebooks")
        page.get_by_role("button", name=f"Start {name} again").click()
        page.get_by_role("treeitem", name="made.txt").wait_for(timeout=LIMIT * 1000)
        page.get_by_role("treeitem", name="train.py").dblclick()
        page.get_by_text("# typed, and not saved").first.wait_for()
        page.goto(f"{portal.url}/notebooks")
        page.get_by_role("button", name="Save").click()
    assert portal.wait_state(f"{name}-2")["state"] == "STOPPED"


def command(page: Page, name: str) -> None:
    """Run a command of VS Code by its name."""
    page.keyboard.press("F1")
    page.locator(".quick-input-widget input[type=text]").first.fill(f">{name}")
    page.locator(".quick-input-list-row").first.wait_for()
    page.keyboard.press("Enter")


def made(portal: Portal, folder: str = FOLDER) -> bytes:
    """What cells have written, as it is in the store; empty where nothing is."""
    answer = portal.http.get(f"{portal.url}/webhdfs/v1{folder}/made.txt", params={"op": "OPEN"})
    return answer.content if answer.is_success else b""


def run_cell(page: Page, text: str) -> None:
    """Type it into the first cell, and run that once a kernel is there: JupyterLab runs nothing before."""
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.keyboard.type(text)
    page.keyboard.press("Shift+Enter")
