"""``manage.py move_files`` from a folder to HDFS, to S3 and into a folder again, with real servers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from base.files.store import marker, open_store, store_at
from base.files.store.base import Store
from portal.management.commands.up import _prepare_store
from tests.bed.hdfs_bed import HdfsBed
from tests.bed.s3_bed import KEY, SECRET, S3Bed
from tests.helpers import LIMIT
from tests.integration.test_move_files import tree

pytestmark = pytest.mark.django_db(transaction=True)


def moved(*arguments: str) -> str:
    said = io.StringIO()
    call_command("move_files", *arguments, stdout=said)
    return said.getvalue()


def files_of(store: Store) -> dict[str, object]:
    return {path: what for path, what in tree(store).items() if not path.startswith(("/.longshore", "/tmp"))}


def test_files_go_round_all_kinds_of_stores(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, hdfs: HdfsBed, s3: S3Bed
) -> None:
    for name in ("NAMENODE", "DATANODE"):
        monkeypatch.setattr(f"base.files.store.hdfs.client.{name}", (LIMIT, LIMIT))
    for name in (
        "hdfs.client.SENDS",
        "hdfs.client.ANSWERS",
        "s3.client.CONNECTS",
        "s3.client.ANSWERS",
        "s3.client.WORKS",
    ):
        monkeypatch.setattr(f"base.files.store.{name}", LIMIT)
    for name, value in {"ENDPOINT": s3.url, "ACCESS_KEY": KEY, "SECRET_KEY": SECRET}.items():
        monkeypatch.setenv(f"LONGSHORE_S3_{name}", value)
    settings.HOME, settings.STORE_ID, settings.STORE_USER = tmp_path, None, hdfs.user
    first, bucket, last = str(tmp_path / "store"), f"s3://{s3.bucket}/moved", str(tmp_path / "last")
    marker.prepare(Path(first))
    store = store_at(first)
    store.mkdirs("/users/mira/empty", owner="mira", mode=0o700)
    store.write("/users/mira/run.sh", [b"true\n"], owner="mira", mode=0o755)
    store.write("/users/mira/nothing", [], owner="mira")
    store.write("/shared/data ä", [b"x" * (1 << 20)] * 9, owner="noah", mode=0o640)
    before = files_of(store)
    Path(last).mkdir()
    others = store_at(hdfs.store_url)  # tests before this one may have left files there
    for entry in others.list("/"):
        others.delete(entry.path, recursive=True)

    for source, target in ((first, hdfs.store_url), (hdfs.store_url, bucket), (bucket, last)):
        settings.STORE_URL = "" if target == last else target
        if settings.STORE_URL:
            settings.STORE_BUCKET = s3.at("moved")
            with pytest.raises(CommandError, match="The database knows files that"):
                _prepare_store()
        said = moved(source, target)
        assert "3 copied (9.0 MB), 0 there already. Lengths and SHA-256 are the same." in said
        assert files_of(store_at(target)) == before
        if settings.STORE_URL:
            _prepare_store()
            assert open_store().stat("/users/mira/run.sh").owner == "mira"
    marker.forget()
