"""What a person sees who has a job's logs, a shell, its plots and its web page open in a real browser, when something
breaks in the middle: a sentence, then all goes on by itself; no line is lost, none comes twice."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.portal import Portal, config, portal_beside
from tests.acceptance.test_two_nodes import register
from tests.acceptance.test_web_pages import browser, password, signed_in
from tests.bed.docker_bed import Bed, BedNode
from tests.helpers import LIMIT, until

pytestmark = [pytest.mark.docker, pytest.mark.browser]
__all__ = ["browser"]
COMMAND = """mkdir /tmp/www && echo 'Here I am' >/tmp/www/index.html
httpd -h /tmp/www -p $PAI_CONTAINER_HOST_web_PORT_LIST
n=0; while :; do n=$((n + 1)); echo line $n; sleep 0.3; done"""
STATE = {"log": "#log-state", "all": "#log-state", "shell": "#terminal-state", "plots": "[data-live]"}


@pytest.fixture(scope="module")
def nodes(docker_nodes: list[BedNode]) -> dict[str, BedNode]:
    return dict(zip(("unix", "tls"), docker_nodes, strict=False))


@pytest.fixture(scope="module")
def portal(bed: Bed, nodes: dict[str, BedNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    settings = {"HOME": str(bed.folder / "home"), "LONGSHORE_APPS_BIND": "any", "LONGSHORE_NODE_LOST_AFTER": "600"}
    with portal_beside(*nodes.values(), home=tmp_path_factory.mktemp("portal"), **settings) as one:
        register(one, nodes)
        yield one
        one.stop_all()
        one.wait_clean(*nodes.values())


class Desk:
    """The pages of a job of two tasks. The log of one, the shell and the web page are of the task on ``tls``."""

    def __init__(self, portal: Portal, pages: dict[str, Page], index: int) -> None:
        self.portal, self.pages, self.index = portal, pages, index
        job = f"{portal.url}/jobs/admin/watched"
        pages["log"].goto(f"{job}/logs?task=main-{index}")
        pages["all"].goto(f"{job}/logs?tasks=all")
        pages["shell"].goto(f"{job}/terminal?task=main-{index}")
        pages["plots"].goto(f"{job}/metrics")
        pages["web"].goto(f"{job}/web/main/{index}/web")
        self.all_is_well()
        self.types("KEPT=yes-it-is")

    def all_is_well(self) -> None:
        for name, words in {"log": "Live", "all": "Live", "shell": "Connected", "plots": "Live"}.items():
            expect(self.pages[name].locator(STATE[name]).first).to_contain_text(re.compile(rf"^\s*{words}\s*$"))
        for name in ("log", "all"):
            expect(self.pages[name].locator("#log-note")).to_be_hidden()
            expect(self.pages[name].locator("#log-follow")).to_have_text("Following")
        until(lambda: self.web() == "Here I am", 30, 0.5, "its web page answers")
        newest = self.lines()[-1]
        until(lambda: self.lines()[-1] > newest, what="lines go on")

    def lines(self, name: str = "log") -> list[int]:
        """Of the log of one task, as far as they are on the page: each says its own number, and none is missing once
        none among them is on its way."""
        rows = until(lambda: self._rows(name), what="no line waits for its text")
        if rows == ["wait"]:
            return [0]
        numbers = [int(text.removeprefix("line ")) for _, text in rows]
        assert [id for id, _ in rows] == [f"L{number}" for number in numbers]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        return numbers

    def _rows(self, name: str) -> list[Any]:
        """Of each line its id and its text; none while one between two others waits for its text, and ["wait"] where
        there is no text at all."""
        rows = self.pages[name].eval_on_selector_all(
            "#log-lines > li",
            "rows => rows.map(row => row.matches('.wait') ? null : [row.id, row.querySelector('code').textContent])",
        )
        there = [at for at, row in enumerate(rows) if row]
        if not there:
            return ["wait"]
        among = rows[there[0] : there[-1] + 1]
        return [] if None in among else among

    def has_whole(self, line: int) -> None:
        """The log of one task, around the line at which something broke; in a page of its own, as who goes to a line
        follows no more."""
        self.pages["line"].goto(f"{self.pages['log'].url.partition('#')[0]}#L{line}")
        until(lambda: {line - 1, line, line + 1} <= set(self.lines("line")), what=f"the lines around {line}")

    def web(self) -> str:
        page = self.pages["web"]
        try:
            page.goto(page.url if page.url.startswith("http") else self._web, timeout=LIMIT * 1000)
        except Exception as error:  # nobody listens
            return str(error)
        self._web = page.url
        return page.inner_text("body").strip()

    def types(self, words: str) -> None:
        self.pages["shell"].locator("#terminal-screen").click()
        self.pages["shell"].keyboard.type(f"{words}\n")

    def screen_says(self, words: str) -> None:
        expect(self.pages["shell"].locator(".xterm-rows")).to_contain_text(words)

    def samples(self) -> tuple[str, str]:
        """Of the task and of the other one: x for each time with a sample, - for each without."""
        page = self.pages["plots"]
        address = f"{self.portal.url}{page.get_attribute('[data-plots]', 'data-plots')}"
        plot = page.request.get(address, timeout=LIMIT * 1000).json()["plots"]["memory"]
        mine, others = (
            "".join("-" if value is None else "x" for value in plot["lines"][plot["labels"].index(f"main-{index}")])
            for index in (self.index, 1 - self.index)
        )
        return mine, others

    def lacks_samples(self) -> bool:
        """Whether the other task has newer ones, and not just one that this task may still get."""
        mine, others = self.samples()
        return others.rfind("x") > mine.rfind("x") + 1

    def has_gap(self) -> bool:
        """Whether the task has a time without a sample, between two with one."""
        mine, _ = self.samples()
        return "x-x" in re.sub("-+", "-", mine)


@pytest.fixture(scope="module")
def desk(portal: Portal, browser: Browser) -> Iterator[Desk]:
    expect.set_options(timeout=LIMIT * 1000)
    labels = [{"label": "web", "beginAt": 0, "portNumber": 1}]
    portal.submit(config("watched", COMMAND, taskNumber=2, cpuNumber=3, portList=labels))
    found = {portal.wait_running("watched", index=index)["nodeName"]: index for index in (0, 1)}
    with signed_in(browser, portal.url, "admin", password(portal)) as context:
        yield Desk(portal, {name: context.new_page() for name in (*STATE, "web", "line")}, found["tls"])


def kill(portal: Portal, who: str) -> None:
    for pid in portal.running(who):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def unsupervised(portal: Portal) -> Iterator[None]:
    """Nobody starts again what ends."""
    assert portal.process is not None
    portal.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        portal.process.send_signal(signal.SIGCONT)


def test_the_web_process_is_killed(portal: Portal, desk: Desk) -> None:
    desk.screen_says("KEPT=yes")
    line = desk.lines()[-1]
    with unsupervised(portal):  # it would be back before anybody has read a word
        kill(portal, "web")
        for name, words in {"log": "Not live since", "all": "Not live since", "shell": "trying again"}.items():
            expect(desk.pages[name].locator(STATE[name])).to_contain_text(words)
    desk.all_is_well()
    desk.has_whole(line)
    desk.screen_says("KEPT=yes")  # what was there can still be read
    desk.screen_says("This is a new one.")
    desk.types("echo new-$((40 + 2))$KEPT")
    desk.screen_says("new-42")


@pytest.mark.parametrize("who", ["web pages", "sampler"])
def test_what_only_the_web_page_or_the_plots_need_is_killed(portal: Portal, desk: Desk, who: str) -> None:
    before = {name: desk.pages[name].locator(STATE[name]).first.inner_text() for name in STATE}
    old = portal.running(who)
    kill(portal, who)
    assert {name: desk.pages[name].locator(STATE[name]).first.inner_text() for name in STATE} == before
    until(lambda: (now := portal.running(who)) and now != old, 30, what=f"{who} is back")
    desk.all_is_well()


def test_a_node_is_cut_off(portal: Portal, desk: Desk, nodes: dict[str, BedNode]) -> None:
    desk.types("KEPT=yes-it-is")
    desk.all_is_well()
    line = desk.lines()[-1]
    nodes["tls"].fault("cut")
    try:
        for name in ("log", "all"):
            expect(desk.pages[name].locator("#log-note")).to_contain_text("Node tls does not answer.")
        assert "cannot be reached" in desk.web()
        expect(desk.pages["all"].locator("#log-state")).to_have_text("Live")  # the other task's lines come
        until(desk.lacks_samples, 120, 1, "samples are missed")
    finally:
        nodes["tls"].fault("heal")
    desk.all_is_well()
    desk.has_whole(line)
    desk.types("echo ${KEPT#yes-}")
    desk.screen_says("it-is")
    until(desk.has_gap, 40, 1, "the plot has a gap")


def test_dockerd_is_killed(portal: Portal, desk: Desk, nodes: dict[str, BedNode]) -> None:
    """It takes its containers with it, so the job begins anew."""
    nodes["tls"].fault("kill-dockerd")
    nodes["tls"].fault("start-dockerd")
    for name in ("log", "all"):
        expect(desk.pages[name].locator("#log-state")).to_have_text("All there is")
        expect(desk.pages[name].locator("#log-note")).to_contain_text("The job goes on with attempt 2.")
    expect(desk.pages["shell"].locator("#terminal-state")).to_contain_text(
        re.compile("has ended|the connection broke|cannot be reached")
    )
    desk.types("")
    expect(desk.pages["shell"].locator("#terminal-state")).to_contain_text("does not run")
    desk.pages["log"].click("#log-note a")
    expect(desk.pages["log"].locator("#log-state")).to_have_text("Live")
    until(lambda: 1 in desk.lines(), what="the first line of the new attempt")


def test_nothing_was_said_that_is_for_programmers(desk: Any) -> None:
    for name in ("log", "all", "shell", "plots"):
        assert "<" not in desk.pages[name].inner_text("main"), name
