"""The table of tasks in a real browser: whatever the tasks are, no column of it is off the screen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from base.models import User
from jobs.metrics import places, rates, ring
from jobs.models import Job, Task
from jobs.planning import exits
from tests.builders import make_job, make_node
from tests.pages.conftest import Tab
from tests.pages.test_live import changed

pytestmark = pytest.mark.browser
TWO = {"http": [37919], "ssh": [37920]}
FIVE = {"grpc": [31140, 31141], "http": [31142], "ssh": [31144], "tensorboard": [31143]}
HUNDRED = {"http": [37919], "mpi": list(range(30000, 30049)), "scattered": list(range(31000, 31100, 2))}
LONG = "worker-of-a-rather-long-name-" * 4
_CUT = "node => [node.scrollWidth, node.clientWidth]"


@pytest.fixture(autouse=True)
def measured(settings: Any, tmp_path: Path) -> None:
    settings.METRICS_DIR = tmp_path / "metrics"


def measure(job: Job) -> None:
    """As the sampler would have for ten minutes, with figures as wide as they get."""
    now = int(time.time()) // 10 * 10
    for task in job.tasks.select_related("attempt"):
        columns = rates.columns_of([str(id) for id in task.gpu_ids])
        values = [12.34, 1023.4 * 2**20, 4, 2**20, *[math.nan] * 4, *[100.0, 2**33, 300] * len(task.gpu_ids)]
        for at in range(now - 600, now, 60):
            ring.write(places.of_task(task.attempt.app_id, task.role, task.index), columns, at, values, rates.IDLE)


def fits(page: Page) -> None:
    wide, seen = page.get_by_role("region", name="Task table").evaluate(_CUT)
    assert wide <= seen, f"{wide - seen} px of the table are off the screen"


@pytest.mark.parametrize("ports", [TWO, FIVE, HUNDRED], ids=["two ports", "five ports", "100 ports"])
@pytest.mark.parametrize("tasks", [1, 6])
def test_nothing_of_the_table_is_off_a_screen_of_1280_px(
    tab: Callable[..., Tab], alice: User, tasks: int, ports: dict[str, list[int]]
) -> None:
    job = make_job("alice", "train", state="RUNNING", tasks=tasks, gpus=2, node=make_node("gpu-node-03", gpus=16))
    job.tasks.update(ports=ports, address="192.168.100.231")
    measure(job)
    page = tab(alice).open("/jobs/alice/train")
    fits(page)
    expect(page.get_by_text("of 1.0 GB").first).to_be_visible()
    page.locator("summary", has_text="192.168.100.231").first.click()
    expect(page.get_by_role("link", name=str(ports["http"][0])).first).to_be_visible()
    fits(page)


def test_the_ports_stay_open_while_the_page_is_live_and_are_copied_with_the_address(
    tab: Callable[..., Tab], alice: User
) -> None:
    job = make_job("alice", "train", state="RUNNING", tasks=2, node=make_node())
    job.tasks.update(ports=FIVE)
    page = tab(alice).open("/jobs/alice/train")
    expect(page.locator("[data-live]")).to_have_text("Live")
    page.locator("#job-tab summary").first.press("Enter")
    expect(page.get_by_role("link", name="31142")).to_be_visible()
    job.tasks.filter(index=1).update(state="SUCCEEDED", exit_code=0)
    changed(job)
    expect(page.locator("#job-tab").get_by_text("Succeeded")).to_be_visible()
    expect(page.get_by_role("link", name="31142")).to_be_visible()
    assert page.locator("#job-tab [data-copy]").first.get_attribute("data-copy") == (
        "grpc 10.0.0.1:31140-31141\nhttp 10.0.0.1:31142\nssh 10.0.0.1:31144\ntensorboard 10.0.0.1:31143"
    )


def test_nor_is_that_of_a_held_job_at_1200_px(tab: Callable[..., Tab], alice: User) -> None:
    job = make_job("alice", "train", state="RUNNING", tasks=3, node=make_node())
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "jobEnvs": {"isDebug": True}})
    job.tasks.filter(index=0).update(held_at=timezone.now())
    job.tasks.update(ports=TWO)
    measure(job)
    fits(tab(alice, width=1200).open("/jobs/alice/train"))


def test_nor_is_that_of_a_failed_job_where_every_cell_is_as_long_as_it_gets(
    tab: Callable[..., Tab], alice: User
) -> None:
    node = make_node("gpu-04-of-a-rather-long-name-in-rack-12", gpus=8)
    job = make_job("alice", "train", state="FAILED", tasks=3, gpus=2, node=node, exit=exits.node_lost(node.name))
    sentence = "The image registry.example.org/vision/mmseg:1.3 could not be pulled, as its registry did not answer."
    start = timezone.now() - timedelta(days=31, hours=23)
    Task.objects.filter(attempt__job=job).update(
        node=node.name,
        address="node-04.cluster.example.org",
        ports=HUNDRED,
        gpus_given=[f"GPU-8f1a2b3c-4d5e-6f70-8192-{at:012d}" for at in range(2)],
        state="FAILED",
        exit_code=-7150,
        exit={"sentence": sentence},
        container_started_at=start,
        finished_at=timezone.now(),
    )
    measure(job)
    page = tab(alice).open("/jobs/alice/train")
    fits(page)
    expect(page.get_by_text(sentence).last).to_be_visible()
