"""A real portal while hundreds of clients hold their connections and do nothing: pages, API, files and /healthz answer,
and neither threads nor memory grow with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from base.files.store.base import PARTS
from benchmarks.data import long_log
from tests.acceptance.portal import ROOT, Portal
from tests.acceptance.slow import Slow, slow_clients
from tests.helpers import LIMIT, quick, until

MANY = 500
SECONDS = 5.0  # within which everything answers; on a quiet machine it is a hundredth
PATIENCE = 15


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    home = tmp_path_factory.mktemp("slow")
    settings = {"LONGSHORE_ANONYMOUS_READ": "all", "LONGSHORE_PATIENCE": str(PATIENCE)}
    portal = Portal(home, f"unix://{home}/nowhere.sock", **settings)
    try:
        portal.start()
        subprocess.run(
            [sys.executable, "-m", "benchmarks.data.long_log", "30"],
            env={**os.environ, **portal.settings, "DJANGO_SETTINGS_MODULE": "portal.settings"},
            cwd=ROOT,
            check=True,
        )
        yield portal
    finally:
        portal.close()


@pytest.fixture
def slow(portal: Portal) -> Iterator[Slow]:
    with slow_clients(portal.url) as slow:
        yield slow


def token(portal: Portal) -> str:
    return f"Authorization: {portal.http.headers['Authorization']}\r\n"


def all_answers(portal: Portal) -> None:
    headers = {"Authorization": portal.http.headers["Authorization"]}
    paths = ("/healthz", "/jobs", "/login", "/api/v1/jobs?limit=50", "/webhdfs/v1/?op=LISTSTATUS", long_log.PATH)
    with httpx.Client(base_url=portal.url, headers=headers, timeout=LIMIT) as client:
        for path in paths:
            with quick(SECONDS, path):
                answer = client.get(path)
            assert answer.status_code == 200, (path, answer.status_code)
        address = "/webhdfs/v1/users/admin/quick?op=CREATE&data=true&overwrite=true"
        with quick(SECONDS, address):
            sent = client.put(address, content=b"x" * 100_000)
        assert sent.status_code == 201, sent.text


def status(portal: Portal, name: str) -> int:
    (web,) = portal.running("web")[:1]
    lines = Path(f"/proc/{web}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@pytest.mark.parametrize("kind", ["half_heads", "half_bodies", "idle"])
def test_it_answers_beside_hundreds_that_send_no_more_and_closes_them(portal: Portal, slow: Slow, kind: str) -> None:
    getattr(slow, kind)(MANY)
    if kind == "idle":
        until(lambda: slow.begun() == MANY, 120, 0.2, "all have had their answer")
    all_answers(portal)
    until(lambda: slow.closed() == MANY, 4 * PATIENCE, 0.5, f"the end of all {kind}")


def test_it_answers_beside_hundreds_that_do_not_read_a_long_log(portal: Portal, slow: Slow) -> None:
    before = status(portal, "VmRSS")
    slow.no_readers(MANY, long_log.PATH)
    until(lambda: slow.begun() == MANY, 120, 0.2, "all have the beginning of it")
    all_answers(portal)
    assert status(portal, "VmRSS") - before < MANY * 400  # kB; the log has 30,000
    assert status(portal, "Threads") < 100


def test_it_answers_beside_hundreds_that_stall_in_an_upload_and_keeps_nothing_of_them(
    portal: Portal, slow: Slow
) -> None:
    slow.stalled_uploads(MANY, lambda at: f"/webhdfs/v1/users/admin/f{at}?op=CREATE&data=true", token(portal))
    store = portal.home / "store"
    parts = store / PARTS.lstrip("/")
    begun: set[Path] = set()  # on a busy machine the first are given up before the last have begun

    def all_have_begun() -> bool:
        begun.update(parts.iterdir() if parts.is_dir() else ())
        return len(begun) == MANY

    until(all_have_begun, 60, 0.2, "all uploads have begun")
    all_answers(portal)
    assert status(portal, "Threads") < 100
    slow.close()
    until(lambda: not list(parts.iterdir()), 60, 0.2, "no part of them is left")
    assert [each.name for each in (store / "users" / "admin").iterdir()] == ["quick"]


def test_forms_without_a_login_put_nothing_on_the_disk(portal: Portal, slow: Slow) -> None:
    """A form with files is refused by its length, or as soon as it is too long, before anything reads it."""
    field = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n' + b"y" * 3_000_000
    kind = {"Content-Type": "multipart/form-data; boundary=x", "Cookie": "csrftoken=" + "a" * 32}
    (web,) = portal.running("web")[:1]
    for content in (field, iter([field])):  # with a length, and in chunks
        answer = httpx.post(f"{portal.url}/login", content=content, headers=kind, timeout=LIMIT)
        assert answer.status_code == 413, answer.text
        assert "too large" in answer.text
    opened = {os.readlink(link) for link in Path(f"/proc/{web}/fd").iterdir() if link.exists()}
    assert not [path for path in opened if "uploads" in path or path.startswith("/tmp/tmp")]
