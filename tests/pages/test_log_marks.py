"""The log page in a real browser: lines around matches alone, and marked lines as a link, a text and a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from base.models import User
from jobs.models import Job
from tests.cluster import Cluster
from tests.helpers import LIMIT, box_of, until
from tests.logs import write
from tests.pages.test_log import URL, cluster, job

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
__all__ = ["cluster", "job"]  # fixtures


def rows(page: Page) -> list[str]:
    """What is drawn: the number of each line, and "n lines" for a gap."""
    look = (
        "items => items.map(item => /^[^ ]+ (.*?) without/.exec(item.textContent)?.[1] ?? item.firstChild.textContent)"
    )
    found: list[str] = page.eval_on_selector_all("#log-lines > li", look)
    return found


def mark(page: Page, first: str, last: str) -> None:
    page.locator(f"[id='{first}'] > a").click()
    page.locator(f"[id='{last}'] > a").click(modifiers=["Shift"])


def test_only_around_matches_leaves_out_the_rest_which_opens_in_place(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(f"{URL}?task=worker-0&q=line+1%3F12+of&only=1")
    expect(page.locator("li.gap")).to_have_count(3)
    around = [*map(str, range(9, 16)), "93 lines", *map(str, range(109, 116))]
    until(lambda: rows(page) == ["8 lines", *around, "1,885 lines"])
    assert re.search(r"93 lines without a match, \d\d:\d\d:\d\d to \d\d:\d\d:\d\d\.", page.inner_text("#log-lines"))
    page.keyboard.press("n")
    expect(page.locator("#L112 mark.cur")).to_be_in_viewport()
    page.get_by_role("button", name="Show them").first.click()
    until(lambda: rows(page) == [*map(str, range(1, 9)), *around, "1,885 lines"])
    page.get_by_label("Only around matches").uncheck()
    expect(page.locator("li.gap")).to_have_count(0)
    assert "only" not in page.url
    page.goto(f"{page.url.split('?')[0]}?task=worker-0&q=line+12+of&only=1#L777")  # a link is to its line all the same
    until(
        lambda: (
            rows(page) == ["8 lines", *map(str, range(9, 16)), "758 lines", *map(str, range(774, 781)), "1,220 lines"]
        )
    )
    expect(page.locator("#L777.at")).to_be_in_viewport()


def test_a_range_is_marked_by_shift_and_becomes_a_link_a_text_and_a_file(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(f"{URL}?task=worker-0&from=1000")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Time").uncheck()
    mark(page, "L1004", "L1001")
    expect(page.locator("#log-marked b")).to_have_text("4 lines selected")
    assert page.url.endswith("#L1001-1004")
    page.get_by_role("button", name="Copy text").click()
    expect(page.locator("#said")).to_have_text("Copied")
    text = "".join(f"line {number} of the log\n" for number in range(1001, 1005))
    assert page.evaluate("navigator.clipboard.readText()") == text
    with page.expect_download() as download:
        page.locator("#log-marked").get_by_role("link", name="Download").click()
    lines = download.value.path().read_text().splitlines()
    assert [line.partition(" ")[2] + "\n" for line in lines] == text.splitlines(keepends=True)
    page.reload()
    expect(page.locator("#log-lines > li.at")).to_have_count(4)
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator("#log-marked b")).to_have_text("5 lines selected")
    page.keyboard.press("Escape")
    expect(page.locator("#log-lines > li.at")).to_have_count(0)


def test_ends_in_one_log_mark_its_lines_and_ends_in_two_all_between(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    names = [task.container_name for task in job.tasks.order_by("index")]
    for number in range(6):
        cluster.engines["n1"].print(names[number % 2], f"step {number}\n".encode())
    opened = tab(alice, width=390)
    page = opened.open(f"{URL}?tasks=all")
    expect(page.locator("[id='worker-1.1.o3']")).to_be_visible()
    mark(page, "worker-1.1.o1", "worker-1.1.o3")
    expect(page.locator("#log-marked b")).to_have_text("3 lines of worker-1 selected")
    assert page.locator("#log-lines > li.at code").all_inner_texts() == ["step 1", "step 3", "step 5"]
    page.locator("[id='worker-0.1.o2002'] > a").click()
    page.get_by_role("button", name="Up to another line").click()
    page.locator("[id='worker-1.1.o3'] > a").click()
    expect(page.locator("#log-marked b")).to_have_text("4 lines selected")
    href = page.locator("#log-marked a").get_attribute("href")
    said = page.request.get(href or "").text().splitlines()
    assert [line.rpartition("stdout ")[2] for line in said] == ["step 2", "step 3", "step 4", "step 5"]
    opened.check("a range on a phone")
    page.get_by_text("Tasks, attempts and download").click()
    page.get_by_label("Show worker-0, attempt 1").uncheck()
    expect(page.locator("#log-ticked")).to_have_text("1 of 2 shown")
    expect(page.locator("#log-marked")).to_be_hidden()


def test_every_line_is_reached_where_lines_are_higher_than_one(
    tab: Callable[..., Any], alice: User, cluster: Cluster
) -> None:
    cluster.add_node()
    job = cluster.submit(name="hello")
    cluster.settle()
    write(cluster, job, "".join(f"line {n} " + "long " * 24 + "\n" for n in range(220)))
    page = tab(alice, width=390).open(f"{URL}?task=worker-0&from=1")
    expect(page.locator("#L1")).to_be_in_viewport()
    assert box_of(page.locator("#L1 code"))["width"] > 250  # the lines have all the room there is
    page.locator("#log-box").hover()
    seen: set[str] = set()
    visible = """box => { const {top, bottom} = box.getBoundingClientRect();
        return [...box.querySelectorAll("li[id]")].filter(item => item.getBoundingClientRect().bottom > top
            && item.getBoundingClientRect().top < bottom).map(item => item.id) }"""

    # A turn of the wheel begins when the one before is through: a busy browser would make one large turn of both.
    at_rest = """box => new Promise(rests => {
        let at = -1, frames = 0;
        const look = () => {
            frames = box.scrollTop === at ? frames + 1 : 0;
            at = box.scrollTop;
            frames < 3 ? requestAnimationFrame(look) : rests();
        };
        requestAnimationFrame(look);
    })"""

    def at_the_end() -> bool:
        page.locator("#log-box").evaluate(at_rest)
        seen.update(page.locator("#log-box").evaluate(visible))
        page.mouse.wheel(0, 400)
        return "L220" in seen

    until(at_the_end, LIMIT, 0.05)
    assert len(seen) == 220, sorted({f"L{n}" for n in range(1, 221)} - seen)
