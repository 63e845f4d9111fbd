"""Lines of a log by number and offset, against what str.splitlines would say of the whole."""

from __future__ import annotations

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.logs.lines import BLOCK, LineIndex, LogView, view_of
from jobs.logs.text import SHOWN
from tests.helpers import examples

_PIECES = st.one_of(
    st.binary(max_size=40),
    st.just(b"\n"),
    st.just(b"\n" * 50),
    st.integers(BLOCK - 3, BLOCK + 3).map(lambda n: b"x" * n),
)
_LOGS = st.lists(_PIECES, max_size=8).map(b"".join)


def view(data: bytes, cuts: int = 7777) -> LogView:
    index = LineIndex()
    for start in range(0, len(data), cuts):
        index.extend(data[start : start + cuts])
    return view_of(index, lambda offset, limit: data[offset : offset + limit])


def starts(data: bytes) -> list[int]:
    """Where each line begins, told the simple way."""
    found = [0] + [at + 1 for at, byte in enumerate(data) if byte == 10]
    return found[:-1] if found[-1] == len(data) else found


@settings(max_examples=examples(60), deadline=None)
@given(_LOGS)
def test_it_finds_where_every_line_begins(data: bytes) -> None:
    log, expected = view(data), starts(data)
    assert log.line_count() == len(expected)
    some = expected if len(expected) < 30 else expected[:10] + expected[-10:]
    for offset in some:
        number = expected.index(offset) + 1
        assert log.start_of(number) == offset
        assert log.number_at(offset) == number
    assert log.start_of(len(expected) + 5) == len(data)


@settings(max_examples=examples(60), deadline=None)
@given(_LOGS, st.integers(1, 40))
def test_lines_cover_the_log_without_a_gap(data: bytes, count: int) -> None:
    log = view(data)
    offset, number, seen = 0, 1, []
    while lines := log.lines_at(offset, number, count, 4096):
        seen += lines
        offset, number = lines[-1].end, lines[-1].number + 1
        if len(seen) > 5000:
            return
    assert [line.start for line in seen] == starts(data)
    assert [line.number for line in seen] == list(range(1, len(seen) + 1))
    assert [line.end for line in seen[:-1]] == [line.start for line in seen[1:]]
    assert not data or seen[-1].end == len(data)
    assert [line.partial for line in seen] == [False] * (len(seen) - 1) + [not data.endswith(b"\n")] * bool(data)


def test_a_line_of_10_mb_is_cut_with_a_word_on_its_size() -> None:
    data = b"before\n" + b"x" * (10 << 20) + b"\nafter\n"
    log = view(data, 1 << 20)
    tracemalloc.start()
    before, long, after = log.lines(1, 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (before.text, after.text, after.number) == ("before", "after", 3)
    assert long.text == "x" * SHOWN
    assert long.note == "… 10.0 MB line, download to see all"
    assert peak < 1 << 20


def test_progress_bars_fold_to_their_last_state() -> None:
    bar, short = view(b"0 %\r50 %\r100 %\nplain\r\n").lines(1, 5)
    assert (bar.text, bar.note) == ("100 %", "2 updates of one progress bar folded")
    assert (short.text, short.note) == ("plain", "")


def test_a_progress_bar_of_megabytes_shows_its_last_state() -> None:
    (bar,) = view(b"".join(b"step %d of 200000\r" % n for n in range(200_001))).lines(1, 5)
    assert bar.text == "step 200000 of 200000"
    assert bar.partial
    assert "folded" in bar.note


def test_terminal_codes_are_left_out_and_bad_bytes_shown() -> None:
    colours, bytes_ = view(b"\x1b[31mred\x1b[0m \x1b]0;title\x07done\x08\n\xff\xfe\n").lines(1, 5)
    assert colours.text == "red done"
    assert bytes_.text == "��"


def test_lines_of_loggers_have_a_kind() -> None:
    kinds = [line.kind for line in view(b"ERROR no\nWARNING hm\nValueError: x\nno error\nall well\n").lines(1, 9)]
    assert kinds == ["err", "warn", "err", "", ""]
