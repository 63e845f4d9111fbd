"""docs/use/limits.md has the numbers that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from base.accounts import budget, services
from base.accounts.providers import config
from base.files.store import delegation
from clusters.nodes import snapshots
from clusters.placement.shares import USUAL_GRACE
from clusters.users import entry_rules
from clusters.vcs.rules import MOST_GRACE
from jobs.config import extras, problems, spec
from jobs.config.sweep import parameters
from jobs.notices import consent, send
from jobs.notices import services as notices  # ``services`` here are those of accounts
from jobs.planning.streak import MOST
from jobs.submitting import drafts, sweeps, templates
from jobs.web_pages import rights
from portal.files import tars
from portal.sign_in.views import HOURS
from portal.terminal import tunnel
from portal.web_pages import api
from portal.webhdfs import unpacking

USE = Path(settings.BASE_DIR) / "docs" / "use"
ROWS = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", (USE / "limits.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("begins", "numbers"),
    [
        ("tasks that wait or run", (settings.USER_TASKS,)),
        ("tasks of a job", (spec.MAX_TASKS, spec.MAX_ROLE_TASKS)),
        ("bytes of a config", (spec.MAX_CONFIG_BYTES,)),
        ("bytes of a job's secrets", (extras.MAX_SECRETS,)),
        ("ports of a task", (problems.MAX_PORTS,)),
        ("jobs that a job waits for", (extras.MOST_AWAITED,)),
        ("tasks that you submit", (budget.ROWS, budget.ROWS_BACK)),
        ("seconds of CPU", (int(budget.SECONDS),)),
        ("seconds from the notice", (USUAL_GRACE, MOST_GRACE)),
        ("jobs of a sweep", (parameters.MOST, sweeps.MOST_TASKS)),
        ("parameters of a sweep", (parameters.MOST_PARAMETERS,)),
        ("drafts", (drafts.MOST, drafts.KEPT.days)),
        ("templates", (templates.MOST,)),
        ("wrong passwords", (settings.AXES_FAILURE_LIMIT,)),
        ("hours until who came", (HOURS,)),
        ("API tokens", (services.MOST_TOKENS, services.MOST_TOKEN_DAYS)),
        ("delegation tokens", (delegation.MOST,)),
        ("public ssh keys", (services.MOST_KEYS,)),
        ("terminals at once", (settings.TERMINALS,)),
        ("connections to ports", (tunnel.MOST,)),
        ("seconds without a key", (settings.TERMINAL_IDLE,)),
        ("failed tasks that are kept", (snapshots.MOST, settings.REWIND)),
        ("MB that such a task", (settings.REWIND_MB,)),
        ("seconds for which one that is opened", (settings.REWIND_OPEN,)),
        ("seconds for which a container", (settings.DEBUG_HOLD,)),
        ("bytes of a code folder", (settings.CODE_LIMIT,)),
        ("GB of a folder", (tars.LARGEST >> 30,)),
        ("files and folders of a tar", (unpacking.MOST, unpacking.LARGEST >> 30)),
        ("processes and threads", (settings.TASK_PIDS,)),
        ("people, virtual clusters and links", (rights.MOST_SHARES,)),
        ("attempts in a row", (MOST,)),
        ("channels of your notices", (notices.MOST_CHANNELS,)),
        ("mails within a day that ask", (consent.OF_USER, consent.OF_ADDRESS)),
        ("days for which the link in such a mail", (consent.DAYS,)),
        ("notices that are sent", (send.MOST_A_MINUTE,)),
        ("times that one is tried", (send.MOST_TRIES,)),
        ("days for which notices", (settings.NOTICE_DAYS,)),
        ("days of such a share", (api._LONGEST // 86_400,)),
    ],
)
def test_the_table_has_the_number_that_holds(begins: str, numbers: tuple[int, ...]) -> None:
    [told] = [number for what, number in ROWS.items() if what.startswith(begins)]
    assert tuple(int(each.replace(",", "")) for each in re.findall(r"[\d,]*\d", told)) == numbers


def test_the_page_of_sign_in_has_the_limits_of_admins() -> None:
    told = (USE.parent / "run" / "sign-in.md").read_text()
    assert f"There may be {entry_rules.MOST} rules" in told and f"name {config.MOST} providers" in told


def test_it_tells_what_of_each_job_counts() -> None:
    [what] = [what for what in ROWS if what.startswith("tasks that you submit")]
    assert f"beyond {budget.FEW} of each" in what and f"a job of a sweep counts as {sweeps.OF_A_JOB} more" in what


def test_who_reads_of_one_of_them_finds_the_table() -> None:
    pages = ("rewind", "terminal", "submitting", "sweeps", "files", "debugging", "code")
    assert [name for name in pages if "(limits.md)" not in (USE / f"{name}.md").read_text()] == []


def test_a_sample_that_is_a_sweep_is_sent_to_its_own_address() -> None:
    """The guide of the samples says how a file is sent; that of one job refuses a sweep."""
    samples = Path(settings.BASE_DIR) / "jobs" / "config" / "sample_jobs"
    sweeping = [path.name for path in samples.glob("*.jsonc") if re.search(r'"(grid|list)"\s*:', path.read_text())]
    guide = (USE.parent / "examples.md").read_text()
    assert sweeping and all(f"`{name}` is a sweep and goes to `/api/v1/sweeps`" in guide for name in sweeping)
