"""Addresses at which containers fetch code that is too large to be handed over: each opens one file, for a while."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from base.files.store import delegation, open_store
from base.models import User
from clusters.engines.runtime import LARGE
from jobs.containers import delivery
from tests.unit.test_launch import LAUNCH

pytestmark = pytest.mark.django_db


@pytest.fixture
def tar(tmp_path: Path, settings: Any) -> Path:
    settings.HOME = tmp_path
    path = tmp_path / "code.tar"
    path.write_bytes(bytes(LARGE + 1))
    return path


def test_an_address_opens_one_file_and_nothing_else(tar: Path) -> None:
    mira = User.objects.create_user("mira", "a long secret", is_admin=True)
    [address] = delivery.addresses_of((tar,), replace(LAUNCH, files_url="https://portal/webhdfs/v1"))
    query = parse_qs(urlsplit(address).query)
    path = urlsplit(address).path.removeprefix("/webhdfs/v1")
    found = delegation.read(query["delegation"][0])
    assert found is not None and found.user == mira and found.expires_at is not None and query["op"] == ["OPEN"]
    assert found.allows("OPEN", path) and open_store().stat(path).mode == 0o600
    for op, other in (("OPEN", f"{path}x"), ("OPEN", "/"), ("CREATE", path), ("DELETE", path), ("LISTSTATUS", path)):
        assert not found.allows(op, other)


def test_what_is_small_gets_no_address(tar: Path) -> None:
    tar.write_bytes(b"small")
    assert delivery.addresses_of((tar,), LAUNCH) == ()
