"""A wrong setting stops the start with one sentence that names the variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from base.core import env
from base.core.store_url import Bucket
from base.database import configure
from portal import checks
from portal.management.commands.up import plain_http


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THING", "THING_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_it_reads_the_variable_or_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env.text("THING", "else") == "else"
    monkeypatch.setenv("THING", "this")
    assert env.text("THING", "else") == "this"


def test_it_reads_a_secret_from_the_file_that_the_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("from the file\n")
    monkeypatch.setenv("THING_FILE", str(tmp_path / "secret"))
    assert env.text("THING", "else") == "from the file"
    monkeypatch.setenv("THING_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ImproperlyConfigured, match=r"^THING_FILE is .*/nothing, which cannot be read: No such file"):
        env.text("THING", "else")


@pytest.mark.parametrize("value", ["soon", "-1", "0", "1.5", "٣", " 7"])
def test_it_refuses_what_is_not_a_whole_number(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("THING", value)
    with pytest.raises(ImproperlyConfigured, match=r"^THING is .* must be a whole number, 1 or more\.$"):
        env.number("THING", 60, least=1)


def test_it_names_what_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THING", "some")
    with pytest.raises(ImproperlyConfigured, match="^THING is 'some'; it must be one of all, jobs, none.$"):
        env.choice("THING", "jobs", ("all", "jobs", "none"))


@pytest.mark.parametrize(
    ("value", "read"),
    [("127.0.0.1:9186", ("127.0.0.1", 9186)), ("[::1]:80", ("::1", 80)), ("host.example:8080", ("host.example", 8080))],
)
def test_it_splits_an_address_and_a_port(monkeypatch: pytest.MonkeyPatch, value: str, read: tuple[str, int]) -> None:
    monkeypatch.setenv("THING", value)
    assert env.bind("THING", "127.0.0.1:1") == read


@pytest.mark.parametrize("value", ["9186", "host:", ":80", "host:0", "host:65536", "host:http"])
def test_it_refuses_an_address_without_a_usable_port(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("THING", value)
    with pytest.raises(ImproperlyConfigured, match="^THING is"):
        env.bind("THING", "127.0.0.1:9186")


def test_a_secret_is_made_once_and_kept_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "key"
    first = env.secret_file("THING", path)
    assert len(first) >= 32
    assert env.secret_file("THING", path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ImproperlyConfigured, match="LONGSHORE_HOME names the folder"):
        env.secret_file("THING", tmp_path / "file" / "secrets" / "key")


@pytest.mark.parametrize("url", ["mysql://host/name", "nonsense", "http://host/", "postgres://host:port/name"])
def test_a_database_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="^DATABASE_URL "):
        configure(url)


def test_sqlite_gets_what_several_writers_need(tmp_path: Path) -> None:
    options = configure(f"sqlite:///{tmp_path}/db.sqlite3")["OPTIONS"]
    assert options["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in options["init_command"]


def test_the_checks_find_nothing_wrong_with_a_fresh_home() -> None:
    assert checks.check_settings(None) == []


def test_a_short_key_is_reported(settings: object) -> None:
    settings.TOKEN_KEY = "short"  # type: ignore[attr-defined]
    assert [message.id for message in checks.check_settings(None)] == ["longshore.E002"]


def test_it_knows_what_kind_of_file_system_a_path_is_on() -> None:
    assert checks.file_system(Path("/proc/self/status")) == "proc"


def test_an_address_of_a_store_that_is_none_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHORE_STORE_URL", "nn1")
    with pytest.raises(ImproperlyConfigured, match="LONGSHORE_STORE_URL"):
        env.store_url("LONGSHORE_STORE_URL")
    monkeypatch.setenv("LONGSHORE_STORE_URL", "webhdfs://nn1:9870;nn2:9870")
    assert env.store_url("LONGSHORE_STORE_URL") == "webhdfs://nn1:9870;nn2:9870"


def test_a_bucket_has_a_name_a_prefix_and_both_keys_or_neither(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for wrong in ("s3://", "s3://a", "s3://a b", "s3://bucket/../x", "s3://user:secret@bucket", "s3://bucket?x=1"):
        monkeypatch.setenv("LONGSHORE_STORE_URL", wrong)
        with pytest.raises(ImproperlyConfigured, match="s3://bucket/prefix"):
            env.store_url("LONGSHORE_STORE_URL")
    monkeypatch.setenv("LONGSHORE_STORE_URL", "s3://bucket/team/longshore/")
    assert env.store_bucket("LONGSHORE_STORE_URL", "S3") == Bucket("bucket", "team/longshore")
    monkeypatch.setenv("S3_ENDPOINT", "http://minio:9000/")
    monkeypatch.setenv("S3_ACCESS_KEY", "key")
    with pytest.raises(ImproperlyConfigured, match="S3_SECRET_KEY"):
        env.store_bucket("LONGSHORE_STORE_URL", "S3")
    (tmp_path / "secret").write_text("secret\n")
    monkeypatch.setenv("S3_SECRET_KEY_FILE", str(tmp_path / "secret"))
    found = env.store_bucket("LONGSHORE_STORE_URL", "S3")
    assert found == Bucket("bucket", "team/longshore", "http://minio:9000", "", "key", "secret")
    assert env.fs_uri("s3://bucket", "https://portal.example.org") == "swebhdfs://portal.example.org"
    monkeypatch.setenv("LONGSHORE_STORE_URL", "webhdfs://nn1")
    assert env.store_bucket("LONGSHORE_STORE_URL", "S3") is None


def test_jobs_are_told_the_namenode_or_this_portal() -> None:
    assert env.fs_uri("http://nn1:9870;nn2:9870", "http://here:9186") == "webhdfs://nn1:9870"
    assert env.fs_uri("", "https://portal.lab") == "swebhdfs://portal.lab"


@pytest.mark.parametrize(
    "value", ["longshore.example.org", "ftp://host", "https://", "https://host/path", "https://a b"]
)
def test_an_address_for_users_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("THING", value)
    with pytest.raises(ImproperlyConfigured, match=r"^THING is .*; it must be an address such as https://"):
        env.web_address("THING", "")


@pytest.mark.parametrize("value", ["https://longshore.example.org/", "http://10.1.2.3:9186", "https://[::1]:8443"])
def test_an_address_for_users_ends_with_its_host(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("THING", value)
    assert env.web_address("THING", "") == value.rstrip("/")


def test_a_certificate_without_its_key_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("THING", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match="^THING and OTHER belong together"):
        env.tls_files("THING", "OTHER")
    monkeypatch.setenv("OTHER", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match="^THING and OTHER are .*, not usable: No such file or directory.$"):
        env.tls_files("THING", "OTHER")


@pytest.mark.parametrize(
    ("host", "ours"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_it_knows_what_nobody_else_reaches(host: str, ours: bool) -> None:
    assert env.is_loopback(host) is ours


def test_the_start_warns_of_plain_http_on_a_network(settings: Any) -> None:
    assert plain_http() == ""
    settings.BIND_HOST = "0.0.0.0"
    assert plain_http().startswith("longshore: passwords and tokens reach LONGSHORE_BIND (0.0.0.0:9186) in plain text")
    settings.IS_HTTPS = True  # a proxy is in front
    assert plain_http() == ""


@pytest.mark.parametrize(
    ("text", "size"), [("", None), ("none", None), ("100g", 100 << 30), ("0", 0), ("1.5 TB", 3 << 39)]
)
def test_a_quota_is_a_size_or_none(monkeypatch: pytest.MonkeyPatch, text: str, size: int | None) -> None:
    monkeypatch.setenv("THING", text)
    assert env.quota("THING") == size


@pytest.mark.parametrize("text", ["much", "-1", "1 x", "g", "1e3"])
def test_what_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("THING", text)
    with pytest.raises(ImproperlyConfigured, match="^THING is .*; it must be a size such as 100g, or none.$"):
        env.quota("THING")
