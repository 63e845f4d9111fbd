"""The ring files of metrics: what is written is read again, in three resolutions, whatever happens to the writer."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from jobs.metrics import ring
from jobs.metrics.layout import TIERS, layout_of

COLUMNS = ("cpu", "memory")
BEGAN = 1_800_000_000  # of all three tiers a beginning


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "of-a-task" / "worker-0.ring"


def write(path: Path, at: int, *values: float) -> None:
    ring.write(path, COLUMNS, at, values, idle=5)


def read(path: Path, begin: int, end: int, step: int = 0) -> ring.Contents:
    found = ring.read(path, begin, end, step)
    assert found is not None
    return found


def test_what_is_written_is_read(path: Path) -> None:
    write(path, BEGAN, 1.5, 100)
    write(path, BEGAN + 10, 2.5, math.nan)
    found = read(path, BEGAN, BEGAN + 60)
    assert (found.columns, found.step) == (COLUMNS, 10)
    assert [(one.at, one.mean[0]) for one in found.buckets] == [(BEGAN, 1.5), (BEGAN + 10, 2.5)]
    assert math.isnan(found.buckets[1].mean[1])


def test_coarse_tiers_have_the_least_the_greatest_and_the_mean(path: Path) -> None:
    for number, value in enumerate((4, 1, 4)):
        write(path, BEGAN + 10 * number, value, math.nan)
    for step in (60, 900):
        (only,) = read(path, BEGAN, BEGAN + 60, step).buckets
        assert (only.at, only.least[0], only.most[0], only.mean[0]) == (BEGAN, 1, 4, 3)
        assert math.isnan(only.mean[1])


@pytest.mark.parametrize(("ago", "step"), [(7_000, 10), (8_000, 60), (172_000, 60), (173_000, 900), (7_000_000, 900)])
def test_the_finest_tier_that_goes_back_so_far_is_read(path: Path, ago: int, step: int) -> None:
    write(path, BEGAN, 1, 1)
    assert read(path, BEGAN - ago, BEGAN + 10).step == step


def test_a_new_lap_overwrites_the_last_one(path: Path) -> None:
    later = BEGAN + TIERS[0].span
    write(path, BEGAN, 1, 1)
    write(path, later, 2, 2)
    assert [one.at for one in read(path, later - 7_190, later + 10).buckets] == [later]
    assert [one.at for one in read(path, BEGAN, later + 10, 60).buckets] == [BEGAN, later]


def test_a_span_over_the_end_of_the_lap_is_in_order(path: Path) -> None:
    end = BEGAN // TIERS[0].span * TIERS[0].span
    times = [end - 20, end - 10, end, end + 10]
    for at in times:
        write(path, at, 1, 1)
    assert [one.at for one in read(path, end - 600, end + 20).buckets] == times


def test_the_summary_is_of_the_whole_time(path: Path) -> None:
    for number, value in enumerate((1, 9, 2)):
        write(path, BEGAN + 10 * number, value, math.nan)
    summary = ring.summary(path) or pytest.fail("no file")
    cpu, memory = summary.columns.values()
    assert (tuple(summary.columns), summary.began, summary.at) == (COLUMNS, BEGAN, BEGAN + 20)
    assert (cpu.last, cpu.least, cpu.most, cpu.mean, cpu.count) == (2, 1, 9, 4, 3)
    assert cpu.busy == BEGAN + 10  # when it was last above 5
    assert (memory.count, memory.busy) == (0, 0)


def test_of_a_time_without_values_nobody_says_that_it_was_idle(path: Path) -> None:
    for at in (BEGAN, BEGAN + 10, BEGAN + 1000):
        write(path, at, 1, 1)
    summary = ring.summary(path) or pytest.fail("no file")
    assert (summary.columns[COLUMNS[0]].busy, summary.columns[COLUMNS[0]].known) == (BEGAN + 1000, BEGAN + 1000)


def test_no_size_grows_with_time(path: Path) -> None:
    write(path, BEGAN, 1, 1)
    size = path.stat().st_size
    for day in range(0, 120, 7):
        write(path, BEGAN + 86_400 * day, 1, 1)
    assert path.stat().st_size == size == layout_of(COLUMNS).size < 110_000 + 2 * 170_000
    assert path.stat().st_blocks * 512 < 250_000  # what is not written takes no room


@pytest.mark.parametrize("killed_after", range(5))
def test_a_writer_killed_between_two_writes_leaves_a_file_that_is_read_and_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    write(path, BEGAN, 1, 1)
    left = iter(range(killed_after))

    def pwrite(file: int, data: bytes, place: int) -> int:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(file, data, place)

    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", pwrite)
    if killed_after < 4:
        with pytest.raises(KeyboardInterrupt):
            write(path, BEGAN + 10, 2, 2)
    monkeypatch.setattr(os, "pwrite", real)
    assert read(path, BEGAN, BEGAN + 10).buckets[0].mean == (1, 1)
    write(path, BEGAN + 20, 3, 3)
    assert [one.at for one in read(path, BEGAN, BEGAN + 60).buckets][-1] == BEGAN + 20


def test_a_torn_row_is_a_gap_and_a_torn_summary_the_one_before(path: Path) -> None:
    for number in range(3):
        write(path, BEGAN + 10 * number, number, number)
    layout = layout_of(COLUMNS)
    with path.open("r+b") as file:
        file.seek(layout.place(0, BEGAN + 10) + 9)
        file.write(b"\xff\xff")
        file.seek(layout.head_size + 3 % 2 * layout.slot + 20)
        file.write(b"\xff\xff")
    assert [one.at for one in read(path, BEGAN, BEGAN + 60).buckets] == [BEGAN, BEGAN + 20]
    summary = ring.summary(path) or pytest.fail("no file")
    assert (summary.at, summary.columns[COLUMNS[0]].count) == (BEGAN + 10, 2)


@pytest.mark.parametrize("damage", [b"", b"no ring file at all", b"longshore ring 1\xff\xff\xff\xff{", bytes(5000)])
def test_what_is_no_ring_file_reads_as_none_and_is_begun_anew(path: Path, damage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(damage)
    assert ring.read(path, 0, BEGAN) is None and ring.summary(path) is None
    write(path, BEGAN, 1, 1)
    assert len(read(path, BEGAN, BEGAN + 10).buckets) == 1
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_other_columns_begin_a_new_file(path: Path) -> None:
    write(path, BEGAN, 1, 1)
    ring.write(path, ("cpu",), BEGAN + 10, [2])
    assert [one.mean for one in read(path, BEGAN, BEGAN + 60).buckets] == [(2,)]


def test_where_no_file_is_nothing_is_read(path: Path) -> None:
    assert ring.read(path, 0, BEGAN) is None and ring.summary(path) is None
