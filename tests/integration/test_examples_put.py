"""A new portal has the programs of its samples in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from base.files.store import open_store
from base.files.store.base import find
from base.models import User
from jobs.config.samples import EXAMPLES
from jobs.submitting import examples
from tests.builders import make_job

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _store(settings: Any, tmp_path: Path) -> None:
    settings.HOME = tmp_path


def test_each_sample_finds_what_it_names_and_nothing_is_written_over() -> None:
    store = open_store()
    store.write("/examples/code/ddp.py", [b"mine"])
    examples.put()
    assert {entry.name for entry in store.list("/examples")} == {"code", "data"}
    assert store.open_read("/examples/code/ddp.py").read() == b"mine"
    there = {f"code/{entry.name}" for entry in store.list("/examples/code")}
    assert there == {name for name, _ in examples.files() if name.startswith("code/")}
    assert all('"codeDir": "$PAI_DEFAULT_FS_URI/examples/code"' in sample.config for sample in EXAMPLES)


def test_what_an_admin_deletes_stays_deleted_once_there_are_jobs(alice: User) -> None:
    make_job(alice.username)
    examples.put()
    assert find(open_store(), "/examples") is None


def test_a_store_that_is_away_does_not_stop_the_start(settings: Any) -> None:
    there, settings.STORE_URL = settings.STORE_URL, "webhdfs://127.0.0.1:9"
    examples.put()
    settings.STORE_URL = there
    assert find(open_store(), "/examples") is None, "nothing was half put elsewhere"
