"""The plots of a job in a real browser: they are drawn, they zoom, they go on, and they work without a mouse."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from base.models import User
from jobs.metrics import places, rates, ring
from jobs.models import Attempt, Job
from tests.builders import make_job, make_node
from tests.helpers import box_of
from tests.pages.conftest import Tab

pytestmark = pytest.mark.browser


@pytest.fixture
def job(alice: User, settings: Any, tmp_path: Path) -> Job:
    """Two tasks with a GPU each, measured for twenty minutes."""
    settings.METRICS_DIR = tmp_path / "metrics"
    job = make_job("alice", "train", state="RUNNING", tasks=2, gpus=1, node=make_node(gpus=2), age=1600)
    now = int(time.time()) // 10 * 10
    for at in range(now - 1200, now, 10):
        write(job, at)
    return job


def write(job: Job, at: int) -> None:
    attempt = Attempt.objects.get(job=job)
    for task in attempt.tasks.all():
        wave = 1 + math.sin(at / 100 + task.index)
        values = [wave / 2, wave * 2**28, 4, 2**20, *[math.nan] * 4, 40 * wave, 2**33, 300]
        ids = [str(id) for id in task.gpu_ids]
        ring.write(places.of_task(attempt.app_id, task.role, task.index), rates.columns_of(ids), at, values, rates.IDLE)


def test_every_plot_is_drawn_in_both_colours_and_at_both_widths(tab: Callable[..., Tab], alice: User, job: Job) -> None:
    shown = tab(alice)
    for width, dark in ((1280, False), (390, True)):
        shown.page.set_viewport_size({"width": width, "height": 800})
        shown.page.emulate_media(color_scheme="dark" if dark else "light")
        page = shown.open("/jobs/alice/train/metrics")
        expect(page.locator(".uplot canvas")).to_have_count(page.locator("[data-plot]").count())
        shown.check(f"the plots at {width}")
        blank = "canvas => !canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
        assert not page.locator(".uplot canvas").first.evaluate(blank)


def test_the_plots_zoom_and_move_together_without_a_mouse(tab: Callable[..., Tab], alice: User, job: Job) -> None:
    page = tab(alice).open("/jobs/alice/train/metrics")
    expect(page.locator(".uplot canvas")).to_have_count(page.locator("[data-plot]").count())
    spans = []
    for name in ("Zoom in", "Earlier", "Zoom out"):
        with page.expect_response(lambda answer: "from=" in answer.url) as moved:
            page.get_by_role("button", name=name, exact=True).press("Enter")
        spans.append((moved.value.json()["from"], moved.value.json()["to"]))
    (first, last), (before, _), (begin, end) = spans
    assert before < first and end - begin > 1.5 * (last - first)
    with page.expect_response(lambda answer: "/data" in answer.url and "from=" not in answer.url):
        page.get_by_role("button", name="All", exact=True).press("Enter")


def test_a_part_drawn_with_the_mouse_is_shown_by_all_plots(tab: Callable[..., Tab], alice: User, job: Job) -> None:
    page = tab(alice).open("/jobs/alice/train/metrics")
    over = page.locator(".u-over").first
    over.wait_for()
    box = box_of(over)
    with page.expect_response(lambda answer: "from=" in answer.url) as zoomed:
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 20, steps=4)
        page.mouse.up()
    found = zoomed.value.json()
    assert 250 < found["to"] - found["from"] < 600 and found["step"] == 10


def test_without_a_script_lines_peaks_and_means_are_there(tab: Callable[..., Tab], alice: User, job: Job) -> None:
    page = tab(alice, java_script_enabled=False).open("/jobs/alice/train/metrics?task=worker-1")
    assert page.locator(".ls-chart path").count() >= 5
    expect(page.get_by_role("table")).to_contain_text("asked 1.0 GB")
    page.get_by_label("Range").select_option("1h")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("h2", has_text="GPU busy")).to_be_visible()
