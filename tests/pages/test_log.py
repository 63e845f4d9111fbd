"""The log page in a real browser: follows, scrolls, searches, and is fit for eyes and keyboards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from base.models import User
from clusters.models import Node
from jobs.logs import read
from jobs.logs.together import sources
from jobs.models import Job
from portal.logs import views
from tests.cluster import Cluster
from tests.helpers import LIMIT, box_of, until
from tests.logs import cluster_with_logs, write

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
URL = "/jobs/alice/hello/logs"


@pytest.fixture
def cluster(alice: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A page waits for the logs of an engine in memory until it has them, and searches them to their end."""
    for module, limit in ((read, "PATIENCE"), (sources, "_GLANCE"), (views, "_SEARCH_SECONDS")):
        monkeypatch.setattr(module, limit, LIMIT)
    with cluster_with_logs(alice, settings, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def job(cluster: Cluster) -> Job:
    """Two tasks run; worker-0 has written 2,000 lines."""
    cluster.add_node()
    job = cluster.submit(name="hello", roles=[{"taskNumber": 2}])
    cluster.settle()
    write(cluster, job, "".join(f"line {n} of the log\n" for n in range(1, 2001)))
    return job


def at_end(page: Page) -> bool:
    left = "b.scrollHeight - b.scrollTop - b.clientHeight"
    return bool(page.evaluate(f"(() => {{ const b = document.getElementById('log-box'); return {left} < 30 }})()"))


def shown(page: Page) -> list[int]:
    """Line numbers on the page, which must have no gap."""
    look = "links => links.map(link => link.parentNode.className === 'wait' ? 0 : Number(link.textContent))"
    numbers = [0]

    def are_there() -> bool:
        nonlocal numbers
        numbers = page.eval_on_selector_all("#log-lines > li > a", look)
        return bool(numbers) and 0 not in numbers

    until(are_there)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return list(numbers)


def test_it_follows_on_when_its_window_grows_and_shrinks(tab: Callable[..., Any], alice: User, job: Job) -> None:
    page = tab(alice).open(URL)
    for height in (500, 900, 400, 800):
        page.set_viewport_size({"width": 1280, "height": height})
        until(lambda: at_end(page))
    expect(page.locator("#log-follow")).to_have_text("Following")


def test_on_a_phone_a_line_begins_beside_its_number_and_has_the_width(
    tab: Callable[..., Any], alice: User, job: Job
) -> None:
    page = tab(alice).open(URL)
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.locator("#L2000 time")).to_be_hidden()
    assert box_of(page.locator("#L2000 code"))["width"] > 250


def test_a_silent_node_is_said_and_the_next_attempt_is_led_to(
    tab: Callable[..., Any], alice: User, cluster: Cluster
) -> None:
    cluster.add_node()
    job = cluster.submit(name="hello", retryCount=1)
    cluster.settle()
    page = tab(alice).open(f"{URL}?task=worker-0")
    note = page.locator("#log-note")
    expect(page.locator("#log-state")).to_have_text("Live")
    Node.objects.update(health=Node.Health.UNREACHABLE)
    expect(note).to_have_text("Node n1 does not answer. What is written there comes when it does.")
    Node.objects.update(health=Node.Health.READY)
    expect(note).to_be_hidden()
    cluster.finish(job, code=1)
    cluster.settle()
    expect(page.locator("#log-state")).to_have_text("All there is")
    expect(note).to_have_text("The job goes on with attempt 2. Open its log")
    note.locator("a").click()
    page.wait_for_url("**/logs?task=worker-0&attempt=2")


def test_that_a_node_is_silent_is_said_before_what_its_connection_broke_of(
    tab: Callable[..., Any], alice: User, cluster: Cluster
) -> None:
    cluster.add_node()
    job = cluster.submit(name="hello")
    cluster.settle()
    write(cluster, job, "it began\n")
    cluster.engines["n1"].damage_log(cluster.task(job).container_name)
    page = tab(alice).open(URL)
    note = page.locator("#log-note")
    expect(note).to_contain_text("cannot read the log")
    Node.objects.update(health=Node.Health.UNREACHABLE)
    expect(note).to_have_text("Node n1 does not answer. What is written there comes when it does.")
    Node.objects.update(health=Node.Health.READY)
    expect(note).to_contain_text("cannot read the log")


def test_who_clicks_into_the_jump_box_keeps_the_log(tab: Callable[..., Any], alice: User, job: Job) -> None:
    page = tab(alice).open(URL)
    expect(page.locator("#L2000")).to_be_visible()
    with page.expect_response("**/jump/near**"):
        page.locator("input[hx-get*='/jump/near']").focus()
    expect(page.locator(".ls-near .ls-nearlist")).to_be_attached()
    expect(page.locator("#log-state")).to_have_text("Live")
    expect(page.locator("#L2000")).to_be_visible()


def test_why_there_is_no_log_goes_with_the_first_line(tab: Callable[..., Any], alice: User, cluster: Cluster) -> None:
    job = cluster.submit(name="hello")
    page = tab(alice).open(URL)
    expect(page.locator("#log-note")).to_contain_text("waits for its turn")
    cluster.add_node()
    cluster.settle()
    write(cluster, job, "it began\n")
    expect(page.locator("#log-lines")).to_contain_text("it began")
    expect(page.locator("#log-note")).to_be_hidden()


def test_it_is_fit_for_everybody(tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job) -> None:
    write(cluster, job, "ERROR it broke\nWARNING take care\n10 %\r100 %\n" + "x" * 20_000 + "\n")
    write(cluster, job, COLOURS)
    opened = tab(alice)
    page = opened.open(URL)
    expect(page.locator("#log-state")).to_have_text("Live")
    opened.check_here("log")


COLOURS = (
    "".join(f"\x1b[38;5;{n}mtext\x1b[0m \x1b[48;5;{n}mground\x1b[0m " for n in range(0, 256, 15))
    + "\x1b[2mdim\x1b[0m \x1b[7minverse\x1b[0m \x1b[38;2;255;254;200mpale\x1b[0m \x1b[1;4;48;2;9;99;9mdeep\x1b[0m\n"
)


def test_colours_come_with_the_page_and_live_and_are_searched_across(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    line = "loss \x1b[32m0.\x1b[1;4m25\x1b[0m \x1b[38;2;1;200;3mtrue\x1b[0m\n"
    write(cluster, job, line)
    page = tab(alice).open(URL)
    expect(page.locator("#log-state")).to_have_text("Live")
    write(cluster, job, line)
    for number in (2001, 2002):
        expect(page.locator(f"#L{number} code")).to_have_text("loss 0.25 true")
        look = "node => [getComputedStyle(node).color, getComputedStyle(node).textDecorationLine, node.style.color]"
        green, under, true = [span.evaluate(look) for span in page.locator(f"#L{number} code span").all()]
        assert green[0] not in ("rgb(23, 33, 45)", true[0]) and under[1] == "underline"
        assert true[2].startswith("light-dark(")
    page.fill("#log-search [name=q]", r"s 0\.25 t")
    page.keyboard.press("Enter")
    expect(page.locator("#log-found")).to_contain_text("1 of 2 in 2,002 lines")
    expect(page.locator("#L2001 mark")).to_have_text(["s ", "0.", "25", " ", "t"], use_inner_text=True)
    page.fill("#log-search [name=q]", "")
    page.keyboard.press("Enter")
    expect(page.locator("#log-lines mark")).to_have_count(0)
    expect(page.locator("#L2001 code span")).to_have_count(3)


def test_lines_are_in_the_fixed_font_and_not_underlined_under_the_pointer(
    tab: Callable[..., Any], alice: User, job: Job
) -> None:
    page = tab(alice).open(URL)
    line = page.locator("#L2000 code")
    line.hover()
    look = "node => [getComputedStyle(node).fontFamily, getComputedStyle(node.closest('#log-box')).textDecorationLine]"
    font, line_under = line.evaluate(look)
    assert font.startswith("ui-monospace") and line_under == "none"


def test_it_follows_until_the_reader_scrolls_up_and_counts_what_is_new(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(URL)
    follow = page.locator("#log-follow")
    expect(follow).to_have_text("Following")
    write(cluster, job, "fresh\n")
    expect(page.locator("#L2001 code")).to_have_text("fresh")
    until(lambda: at_end(page))
    page.locator("#log-box").hover()
    page.mouse.wheel(0, -600)
    expect(follow).to_have_text("Follow")
    write(cluster, job, "one\ntwo\n")
    expect(follow).to_have_text("Follow, 2 new lines")
    assert not at_end(page)
    follow.click()
    expect(follow).to_have_text("Following")
    until(lambda: at_end(page))


def test_older_lines_come_on_scrolling_up_and_a_number_is_a_link(
    tab: Callable[..., Any], alice: User, job: Job
) -> None:
    page = tab(alice).open(URL)
    expect(page.locator("#log-state")).to_have_text("Live")
    assert shown(page)[-1] == 2000 and len(shown(page)) < 100
    page.locator("#log-box").hover()

    def scrolled_to_the_top() -> bool:
        page.mouse.wheel(0, -4000)
        return shown(page)[0] == 1

    until(scrolled_to_the_top, LIMIT, 0.05)
    page.goto(f"{page.url}#L777")
    expect(page.locator("#L777")).to_have_class("at")
    expect(page.locator("#L777")).to_be_in_viewport()


def test_a_link_to_a_line_far_above_loads_it(tab: Callable[..., Any], alice: User, job: Job) -> None:
    page = tab(alice).open(f"{URL}?task=worker-0#L42")
    expect(page.locator("#L42")).to_be_in_viewport()
    assert page.locator("#log-follow").inner_text() == "Follow"


def test_search_goes_over_the_whole_log_and_to_each_match(tab: Callable[..., Any], alice: User, job: Job) -> None:
    page = tab(alice).open(URL)
    page.keyboard.press("/")
    page.keyboard.type("line 12 of")
    page.keyboard.press("Enter")
    expect(page.locator("#log-found")).to_have_text("1 of 1 in 2,000 lines")
    expect(page.locator("#L12 mark.cur")).to_be_in_viewport()
    page.fill("#log-search [name=q]", "99 of")
    page.keyboard.press("Enter")
    expect(page.locator("#log-found")).to_have_text("1 of 20 in 2,000 lines")
    page.locator("#log-next").click()
    expect(page.locator("#L199 mark.cur")).to_be_in_viewport()


def test_it_says_when_all_is_there(tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job) -> None:
    page = tab(alice).open(URL)
    expect(page.locator("#log-state")).to_have_text("Live")
    write(cluster, job, "last words")
    cluster.finish(job)
    cluster.settle()
    expect(page.locator("#log-state")).to_have_text("All there is")
    expect(page.locator("#L2001 code")).to_have_text("last words")
    page.reload()
    expect(page.locator("#log-state")).to_have_text("All there is")
    expect(page.locator("#L2001 code")).to_have_text("last words")
    assert shown(page)[-1] == 2001


def test_progress_bars_and_long_lines_are_small_on_the_page(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(URL)
    write(cluster, job, "x" * (10 << 20) + "\n1 %\r2 %")
    expect(page.locator("#L2001 i")).to_have_text("… 10.0 MB line, download to see all")
    expect(page.locator("#L2002 code")).to_contain_text("2 %")
    write(cluster, job, "\r3 %\n")
    expect(page.locator("#L2002 code")).to_contain_text("3 %")
    assert page.locator("#L2002").count() == 1


def test_a_flood_is_skipped_and_can_still_be_read(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(URL)
    expect(page.locator("#log-state")).to_have_text("Live")
    write(cluster, job, "".join(f"flood {n}\n" for n in range(60_000)))
    expect(page.locator("#L62000 code")).to_have_text("flood 59999")
    expect(page.locator("#log-note")).to_contain_text("written too fast to show")
    assert page.locator("#log-lines > li").count() <= 100
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.locator("#L1")).to_be_in_viewport()
    page.keyboard.press("G")
    expect(page.locator("#L62000")).to_be_in_viewport()


def test_without_a_script_it_pages_and_searches_by_links(tab: Callable[..., Any], alice: User, job: Job) -> None:
    page = tab(alice, java_script_enabled=False).open(URL)
    expect(page.locator("#L2000")).to_have_count(1)
    page.get_by_role("link", name="Older lines").click()
    assert page.locator("#L1601").count() == 1 and page.locator("#L1801").count() == 0
    page.get_by_role("link", name="Newer lines").click()
    expect(page.locator("#L1801")).to_have_count(1)
    page.fill("#log-search [name=q]", "line 1234 of")
    page.locator("#log-search [name=q]").press("Enter")
    expect(page.locator("#log-found")).to_have_text("1 matching line")
    expect(page.locator("#L1234")).to_have_count(1)


def test_the_tab_key_passes_the_lines_by_and_j_and_k_go_among_them(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(f"{URL}?from=1000")
    expect(page.locator("#log-state")).to_have_text("Live")
    expect(page.locator("#log-lines > li > a:not([tabindex='-1'])")).to_have_count(0)
    page.keyboard.press("j")
    first = int(page.locator(":focus").inner_text())
    for key in ("j", "j", "k"):
        page.keyboard.press(key)
    expect(page.locator(":focus")).to_have_text(str(first + 1))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"#L{first + 1}$"))


def test_all_tasks_are_one_log_by_time_with_hits_by_task_and_ticks(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    names = [task.container_name for task in job.tasks.order_by("index")]
    for number in range(20):
        cluster.engines["n1"].print(names[number % 2], f"step {number}\n".encode())
    page = tab(alice).open(f"{URL}?tasks=all")
    expect(page.locator("#log-state")).to_have_text("Live")
    for number in (20, 21):
        cluster.engines["n1"].print(names[number % 2], f"step {number}\n".encode())
    last = page.locator("#log-lines > li code")
    expect(last.last).to_have_text("step 21")
    until(lambda: last.all_inner_texts()[-3:] == ["step 19", "step 20", "step 21"])
    page.fill("#log-search [name=q]", r"^step \d$")
    page.keyboard.press("Enter")
    expect(page.locator("#log-found")).to_contain_text("1 of 10 in 2,022 lines")
    assert page.locator("[data-hits]").all_inner_texts() == ["5 of ", "5 of "]
    page.get_by_label("Show worker-0, attempt 1").uncheck()
    expect(page.locator("#log-found")).to_contain_text("1 of 5 in 11 lines")
    page.goto(f"{page.url.split('?')[0]}?tasks=all#worker-0.1.o2003")
    expect(page.locator("#log-lines > li.at code")).to_have_text("step 4")


def test_a_wrong_expression_is_refused_under_the_box_and_the_old_search_stays(
    tab: Callable[..., Any], alice: User, job: Job
) -> None:
    page = tab(alice).open(f"{URL}?q=line+12+of")
    expect(page.locator("#log-found")).to_have_text("1 of 1 in 2,000 lines")
    page.fill("#log-search [name=q]", "(12")
    page.keyboard.press("Enter")
    expect(page.locator("#log-problem")).to_have_text(
        "This is no regular expression: missing ): (12. Put \\ before a sign that means itself."
    )
    expect(page.locator("#log-found")).to_have_text("1 of 1 in 2,000 lines")


def test_an_answer_that_is_older_than_what_was_streamed_meanwhile_takes_no_line_away(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(URL)
    expect(page.locator("#log-follow")).to_have_text("Following")

    held: list[tuple[Route, APIResponse]] = []
    page.route("**/logs/rows**", lambda route: held.append((route, route.fetch())))
    page.locator("#log-box").hover()
    page.mouse.wheel(0, -20_000)
    until(lambda: page.wait_for_timeout(20) or held)
    write(cluster, job, "fresh\n")
    expect(page.locator("#log-follow")).to_have_text("Follow, 1 new line")
    route, answer = held[0]
    route.fulfill(response=answer)
    page.unroute("**/logs/rows**")
    page.locator("#log-follow").click()
    write(cluster, job, "fresher\n")
    expect(page.locator("#L2002 code")).to_have_text("fresher")
    assert shown(page)[-1] == 2002


def test_an_answer_that_was_asked_for_before_a_search_takes_no_mark_away(
    tab: Callable[..., Any], alice: User, job: Job
) -> None:
    page = tab(alice).open(URL)
    expect(page.locator("#log-follow")).to_have_text("Following")
    held: list[tuple[Route, APIResponse]] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/logs/rows**", hold_the_first)
    page.locator("#log-box").hover()
    page.mouse.wheel(0, -20_000)
    until(lambda: page.wait_for_timeout(20) or held)
    page.keyboard.press("/")
    page.keyboard.type("line 1012 of")
    page.keyboard.press("Enter")
    expect(page.locator("#L1012 mark.cur")).to_be_in_viewport()
    route, answer = held[0]
    with page.expect_request_finished(lambda request: request == route.request):
        route.fulfill(response=answer)
    page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    expect(page.locator("#L1012 mark.cur")).to_be_in_viewport()


def test_a_line_that_is_half_written_grows_on_after_a_search(
    tab: Callable[..., Any], alice: User, cluster: Cluster, job: Job
) -> None:
    page = tab(alice).open(URL)
    write(cluster, job, "half a")
    expect(page.locator("#L2001 code")).to_have_text("half a")
    page.locator("#log-search input[name=q]").fill("half")
    page.keyboard.press("Enter")
    expect(page.locator("#L2001 mark")).to_have_text("half")
    write(cluster, job, " line\n")
    expect(page.locator("#L2001 code")).to_have_text("half a line")
