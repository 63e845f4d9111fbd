"""Quotas of the store: whose limit holds, what is counted, and what a refused write leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from base.core.words import UNLIMITED
from base.files.quota import use as store_use
from base.files.quota.use import QuotaUse, limit_of, use_of
from base.files.quota.writes import Writes
from base.files.store import open_store
from base.files.store.base import QuotaExceeded, fill, find
from base.files.store.local import MARKER
from base.files.store_actor import KnownAccounts
from base.models import User
from clusters.models import VcGrant, VirtualCluster
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.django_db
FILE = "/users/alice/file"


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.HOME, settings.STORE_QUOTA = tmp_path, 100
    monkeypatch.setattr(store_use, "PATIENCE", LIMIT)  # a write that waits for a count waits for all of it


@pytest.fixture
def writes(alice: User) -> Writes:
    return Writes(open_store(), KnownAccounts())


def set_quota(of: str, quota: int, user: User) -> None:
    vc = VirtualCluster.objects.create(name=of, store_quota=quota)
    VcGrant.objects.create(vc=vc, username=user.username)


class TestWhoseLimit:
    def test_the_setting_holds_for_everybody_without_another(self, alice: User, settings: Any) -> None:
        assert (limit_of("alice"), limit_of("gone")) == (100, 100)
        settings.STORE_QUOTA = None
        assert limit_of("alice") is None

    def test_the_largest_of_the_virtual_clusters_holds_before_the_setting(self, alice: User, bob: User) -> None:
        set_quota("vision", 10, alice)
        assert limit_of("alice") == 10
        set_quota("speech", 20, alice)
        assert (limit_of("alice"), limit_of("bob")) == (20, 100)
        set_quota("language", UNLIMITED, alice)
        assert limit_of("alice") is None

    def test_a_user_s_own_holds_before_all(self, alice: User) -> None:
        set_quota("vision", UNLIMITED, alice)
        User.objects.update(store_quota=0)
        assert limit_of("alice") == 0
        User.objects.update(store_quota=UNLIMITED)
        assert limit_of("alice") is None

    def test_an_admin_may_use_every_virtual_cluster(self, admin: User, alice: User) -> None:
        set_quota("vision", 500, alice)
        assert limit_of("admin") == 500


class TestWrites:
    def test_they_fill_a_quota_to_the_last_byte(self, writes: Writes) -> None:
        assert writes.write(FILE, [b"x" * 60]) == 60
        assert writes.write("/Output/alice/file", [b"x" * 40]) == 40
        with pytest.raises(QuotaExceeded, match="may take 100 B in the store, and 0 B of that is free: 1 B more"):
            writes.write("/alice/file", [b"x"])

    @pytest.mark.parametrize("more", [1, 5, 40 << 10])
    def test_what_does_not_fit_is_never_said_to_be_as_much_as_what_is_free(
        self, writes: Writes, settings: Any, more: int
    ) -> None:
        settings.STORE_QUOTA = 24 << 20
        with pytest.raises(QuotaExceeded) as refused:
            writes.require_room(FILE, (24 << 20) + more)
        free, needed = re.findall(r"and (\S+ \w+) of that is free: (\S+ \w+) more", refused.value.message)[0]
        assert free != needed and (more > 5 or (free, needed) == ("25,165,824 B", f"{25_165_824 + more:,} B"))

    def test_a_count_that_ends_while_it_is_refused_does_not_change_the_sentence(
        self, writes: Writes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writes.write(FILE, [b"x" * 100])
        use = use_of("alice", writes.store)
        monkeypatch.setattr(use, "_refresh", lambda *given: None)  # the count is late: it still has what is gone
        monkeypatch.setattr(use, "total", lambda wait: 0)  # and is there a moment after
        with pytest.raises(QuotaExceeded, match="and 0 B of that is free: 7 B more does not fit"):
            writes.require_room("/users/alice/other", 7)

    def test_a_known_length_is_refused_before_the_first_byte(self, writes: Writes) -> None:
        with pytest.raises(QuotaExceeded):
            writes.begin(FILE, size=101)
        assert find(writes.store, "/users/alice") is None

    def test_an_unknown_length_is_refused_where_it_exceeds_and_leaves_nothing(self, writes: Writes) -> None:
        writes.write(FILE, [b"old"])
        with pytest.raises(QuotaExceeded):
            writes.write(FILE, [b"x" * 60, b"x" * 60])
        with writes.store.open_read(FILE) as file:
            assert file.read() == b"old"
        assert writes.write(FILE, [b"x" * 100]) == 100, "what the refused write took is given back"

    @pytest.mark.parametrize("size", [None, 120])
    def test_an_append_stops_at_it_and_cuts_off_nothing(self, writes: Writes, size: int | None) -> None:
        writes.write(FILE, [b"x" * 10])
        with pytest.raises(QuotaExceeded):
            appended = writes.begin_append(FILE, size=size)
            fill(writes.begin_append(FILE), [b"y" * 20])  # somebody else's, meanwhile
            fill(appended, [b"x" * 60, b"x" * 60])
        there = writes.store.stat(FILE).size
        assert there == (10 if size else 90)
        assert fill(writes.begin_append(FILE), [b"x" * (100 - there)]) == 100

    def test_what_was_moved_away_while_it_is_replaced_still_counts(self, writes: Writes) -> None:
        writes.write(FILE, [b"x" * 90])
        replacing = writes.begin(FILE)
        replacing.add(b"y" * 90)
        writes.rename(FILE, "/users/alice/moved")
        with pytest.raises(QuotaExceeded):
            fill(replacing, [])
        assert writes.store.usage("/users/alice").size == 90

    def test_a_file_that_takes_the_place_of_another_needs_only_what_it_grows(self, writes: Writes) -> None:
        writes.write(FILE, [b"x" * 90])
        writes.write("/shared/new", [b"y" * 95])
        writes.rename("/shared/new", FILE, overwrite=True)
        assert writes.store.stat(FILE).size == 95

    def test_no_name_is_free(self, writes: Writes) -> None:
        writes.write(f"/users/alice/{MARKER}", [b"x" * 90])
        assert [entry.name for entry in writes.store.list("/users/alice")] == [MARKER]
        use_of("alice", writes.store).outdate()
        with pytest.raises(QuotaExceeded):
            writes.write(FILE, [b"x" * 90])

    def test_files_that_are_written_at_once_share_the_room(self, writes: Writes) -> None:
        one, other = writes.begin(FILE), writes.begin("/users/alice/other")
        one.add(b"x" * 60)
        with pytest.raises(QuotaExceeded):
            other.add(b"x" * 60)
        one.drop()
        other.add(b"x" * 60)
        assert other.keep() == 60

    def test_a_file_may_be_replaced_by_one_as_large(self, writes: Writes) -> None:
        writes.write(FILE, [b"x" * 90])
        assert writes.write(FILE, [b"y" * 90], size=90) == 90
        User.objects.update(store_quota=10)
        assert writes.write(FILE, [b"y" * 80]) == 80, "smaller is right also above a limit that was lowered"

    def test_what_is_deleted_or_cut_makes_room_at_once(self, writes: Writes) -> None:
        writes.write(FILE, [b"x" * 100])
        writes.truncate(FILE, 50)
        writes.write("/users/alice/other", [b"x" * 50])
        writes.delete("/users/alice", recursive=True)
        assert writes.write(FILE, [b"x" * 100]) == 100

    def test_moving_into_a_tree_needs_room_and_within_it_does_not(self, writes: Writes) -> None:
        writes.store.write("/shared/large", [b"x" * 101])
        with pytest.raises(QuotaExceeded):
            writes.rename("/shared/large", "/users/alice/large")
        assert find(writes.store, "/shared/large")
        writes.store.mkdirs("/Output/alice")
        writes.write(FILE, [b"x" * 60])
        writes.rename(FILE, "/Output/alice/file")
        writes.store.write("/shared/small", [b"x" * 41])
        with pytest.raises(QuotaExceeded):
            writes.concat("/Output/alice/file", ["/shared/small"])
        assert writes.store.stat("/Output/alice/file").size == 60

    def test_folders_of_everybody_have_no_limit(self, writes: Writes) -> None:
        assert writes.write("/shared/file", [b"x" * 200], size=200) == 200


class TestCounting:
    def test_what_jobs_leave_is_never_refused_and_counts(self, writes: Writes) -> None:
        writes.store.write("/Container/alice/alice~job/log/0", [b"x" * 150], owner="alice")
        assert use_of("alice", writes.store).total() == 150
        with pytest.raises(QuotaExceeded):
            writes.write(FILE, [b"x"])

    def test_what_was_written_without_a_limit_counts_when_there_is_one(self, writes: Writes) -> None:
        writes.write(FILE, [b"x"])
        User.objects.update(store_quota=UNLIMITED)
        writes.write(FILE, [b"x" * 150])
        User.objects.update(store_quota=160)
        with pytest.raises(QuotaExceeded, match="160 B in the store, and 10 B of that is free: 12 B more"):
            writes.write("/users/alice/other", [b"x" * 6, b"x" * 6])

    def test_many_writes_are_one_count(self, writes: Writes, monkeypatch: pytest.MonkeyPatch) -> None:
        counts, count = [], store_use._count
        monkeypatch.setattr(store_use, "_count", lambda *given: counts.append(given) or count(*given))
        for number in range(20):
            writes.write(f"/users/alice/{number}", [b"x"])
        assert (len(counts), use_of("alice", writes.store).total()) == (1, 20)

    def test_a_count_holds_for_minutes_and_is_made_anew_in_the_background(self) -> None:
        now, held = [0.0], iter([10, 70])
        use = QuotaUse(lambda: next(held), clock=lambda: now[0])
        assert (use.total(), use.total()) == (10, 10)
        now[0] += store_use.AGE
        until(lambda: use.total() == 70)

    def test_a_refusal_looks_again_whether_something_was_deleted_elsewhere(self) -> None:
        now, held = [0.0], iter([90, 10])
        use = QuotaUse(lambda: next(held), clock=lambda: now[0])
        assert use.take(20, limit=100) == 10
        now[0] += store_use.RECENT
        assert use.take(20, limit=100) is None

    def test_a_store_that_is_down_refuses_nothing_by_its_quota(self, settings: Any, writes: Writes) -> None:
        use = QuotaUse(_unavailable)
        assert use.take(10**12, limit=100) is None


def _unavailable() -> int:
    from base.files.store.base import StoreUnavailable

    raise StoreUnavailable("no")


def test_the_gateway_and_the_pages_write_within_quotas_only() -> None:
    """A write that goes by them would be without limit."""

    def direct() -> Iterator[str]:
        for path in (*Path("portal/webhdfs").glob("*.py"), *Path("portal/files").glob("*.py")):
            looked_at.append(path.name)
            yield from re.findall(r"store\.(?:begin\w*|write|append|rename|concat|truncate|delete)\(", path.read_text())

    looked_at: list[str] = []
    # A tar takes the room of its files before it writes them.
    assert list(direct()) == ["store.write("] and {"changes.py", "services.py", "unpacking.py"} <= set(looked_at)
