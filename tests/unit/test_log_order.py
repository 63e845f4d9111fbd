"""Lines of several logs come in the order of their times, any part of it, and lines of one log never change places."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.engines.logs.stamps import stamp
from clusters.engines.runtime import LogChunk
from jobs.logs.times import EVERY, TimeIndex, Times, begun, no_times
from jobs.logs.together.order import LineOrder
from tests.helpers import examples

_names = itertools.count()
LOGS = st.lists(st.lists(st.integers(1, 12), max_size=30), min_size=1, max_size=4)


def times_of(numbers: Sequence[int]) -> Times:
    index = TimeIndex()
    index.extend(numbers)
    return Times(index.count, index.tops, lambda first, count: numbers[first : first + count], f"log {next(_names)}")


def wanted(logs: list[list[int]]) -> list[tuple[int, int]]:
    """The order as its head says it, by sorting."""
    keyed = [
        (key, log, line)
        for log, stamps in enumerate(logs)
        for line, key in enumerate(itertools.accumulate(stamps, max))
    ]
    return [(log, line) for _, log, line in sorted(keyed)]


@settings(max_examples=examples(150), deadline=None)
@given(LOGS, st.integers(0, 100), st.integers(0, 40))
def test_any_part_of_the_order_is_that_of_all_lines_sorted(logs: list[list[int]], rank: int, count: int) -> None:
    order = LineOrder([times_of(stamps) for stamps in logs])
    whole = wanted(logs)
    assert order.lines(rank, count) == whole[rank : rank + count]
    assert [order.rank(log, line) for log, line in whole] == list(range(len(whole)))
    assert sum(order.before(rank)) == min(rank, len(whole))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), max_size=3 * EVERY // 100), min_size=1, max_size=3))
def test_logs_of_many_blocks_are_ordered_as_those_of_one(parts: list[list[int]]) -> None:
    logs = [[stamp + 60 * round for round in range(100) for stamp in part] for part in parts]
    order, whole = LineOrder([times_of(stamps) for stamps in logs]), wanted(logs)
    for rank in range(0, len(whole), 997):
        assert order.lines(rank, 3) == whole[rank : rank + 3]
        assert order.rank(*whole[rank]) == rank


def test_a_clock_that_is_set_back_moves_no_line_and_keeps_its_stamps() -> None:
    first = times_of([100, 200, 50, 60, 300])
    order = LineOrder([first, times_of([150, 250])])
    assert [line for log, line in order.lines(0, 9) if log == 0] == [0, 1, 2, 3, 4]
    assert list(first.of(1, 3)) == [200, 50, 60] and first.keys(1, 3) == [200, 200, 200]


def test_a_log_that_grew_is_not_taken_for_what_it_was() -> None:
    numbers, index = [5], TimeIndex()
    index.extend(numbers)
    read = lambda first, count: numbers[first : first + count]  # noqa: E731
    before = Times(1, index.tops, read, "grows")
    assert before.up_to(9) == 1
    numbers.append(7)
    index.extend([7])
    assert Times(2, index.tops, read, "grows").up_to(9) == 2 and before.up_to(9) == 1


def test_lines_without_a_time_stay_together_where_they_are_put() -> None:
    order = LineOrder([no_times(3, 100), times_of([50, 150])])
    assert order.lines(0, 9) == [(1, 0), (0, 0), (0, 1), (0, 2), (1, 1)]


def test_a_rank_in_millions_of_lines_reads_a_few_blocks_only() -> None:
    read = list[int]()

    def numbers(step: int) -> Times:
        def block(first: int, count: int) -> Sequence[int]:
            read.append(count)
            return range(first * step, (first + count) * step, step)

        tops = [0, *(range(EVERY * step - step, 10_000_000 * step, EVERY * step))]
        return Times(10_000_000, tops, block, f"log {next(_names)}")

    order = LineOrder([numbers(1000), numbers(1007), numbers(999)])
    assert sum(order.before(14_999_999)) == 14_999_999
    assert len(read) <= 12 and sum(read) <= EVERY * 12


@given(st.lists(st.tuples(st.text("ab\n", max_size=6), st.integers(0, 6)), max_size=20))
def test_each_line_has_the_stamp_of_its_first_byte_also_where_an_engine_repeats_itself(
    pieces: list[tuple[str, int]],
) -> None:
    data, times = b"", array("q")
    wanted: list[int] = []
    for at, (text, repeated) in enumerate(pieces, 1):
        again = data[len(data) - min(repeated, len(data)) :]
        chunk = LogChunk(stamp(at), again + text.encode())
        for byte in text.encode():
            if not data or data.endswith(b"\n"):
                wanted.append(at)
            data += bytes([byte])
        before = data[: len(data) - len(text)]
        times += begun(chunk, len(again), at_start=not before or before.endswith(b"\n"))
    assert list(times) == wanted
