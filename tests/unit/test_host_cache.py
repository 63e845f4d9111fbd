"""What processes of a host remember together."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.hosts.host_cache import HostCache


def test_another_process_knows_it_until_its_time_is_over(tmp_path: Path) -> None:
    one, other = HostCache(str(tmp_path), {}), HostCache(str(tmp_path), {})
    assert one.add("tried-out:n1", 1, 3600) and not other.add("tried-out:n1", 1, 3600)
    one.set("ssh:1", 1, -1)
    assert other.get("ssh:1") is None and other.get("tried-out:n1") == 1


def test_a_disk_that_takes_nothing_makes_it_forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    cache = HostCache(str(no_folder), {})
    cache.set("ssh:1", 1)
    assert cache.get_many(["ssh:1"]) == {} and cache.add("ssh:1", 1)

    def is_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    full = HostCache(str(tmp_path / "cache"), {})
    monkeypatch.setattr(full, "_write_content", is_full)
    full.set("ssh:1", 1)
    assert full.get("ssh:1") is None and not list((tmp_path / "cache").iterdir())
