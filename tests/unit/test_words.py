"""Numbers and durations as the pages write them."""

from __future__ import annotations

import pytest

from base.core import words
from jobs.planning.lifecycle import JobState, TaskState
from portal.job.config import coloured


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (-3, "0 s"),
        (48.9, "48 s"),
        (60, "1 min"),
        (396, "6 min 36 s"),
        (10260, "2 h 51 min"),
        (3600, "1 h"),
        (100800, "1 d 4 h"),
    ],
)
def test_it_says_a_duration_in_two_units(seconds: float | None, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("hours", "said"), [(0, "0"), (2.6e-8, "0"), (0.00056, "0.00056"), (0.04, "0.04"), (3.21, "3.2"), (1284, "1,284")]
)
def test_it_says_hours_without_an_exponent(hours: float, said: str) -> None:
    assert words.hours(hours) == said


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None), (None, None)]
    + [(text, None) for text in ("", "-1", "+1", "1.0", "1_0", " 1", "٣", "²", "x")],
)
def test_it_reads_a_whole_number(text: str | None, number: int | None) -> None:
    assert words.whole(text) == number


def test_it_reads_no_number_of_more_digits_than_are_wanted() -> None:
    assert (words.whole("999", 3), words.whole("1000", 3)) == (999, None)


@pytest.mark.parametrize(
    ("seconds", "said"), [(2, "just now"), (30, "30 s ago"), (200, "3 min ago"), (90000, "1 d ago")]
)
def test_it_says_how_long_ago(seconds: float, said: str) -> None:
    assert words.ago(seconds) == said


@pytest.mark.parametrize(("size", "said"), [(0, "0 MB"), (512, "512 MB"), (1536, "1.5 GB"), (2_097_152, "2,048 GB")])
def test_it_says_memory_with_1024_mb_to_the_gb(size: float, said: str) -> None:
    assert words.memory(size) == said


@pytest.mark.parametrize(
    ("ids", "said"),
    [([], "–"), (["0", "1", "2", "6"], "0–2, 6"), ([31900, 31901], "31900–31901"), (["GPU-a"], "GPU-a")],
)
def test_it_folds_ids_into_ranges(ids: list[str], said: str) -> None:
    assert words.ranges(ids) == said


def test_it_writes_an_exit_code_without_thousands() -> None:
    assert words.code(-7400) == "–7400"


def test_it_counts_in_singular_and_plural() -> None:
    assert [words.count(n, "task") for n in (0, 1, 1284)] == ["0 tasks", "1 task", "1,284 tasks"]
    assert words.count(1, "job was", "jobs were") == "1 job was"


def test_it_cuts_long_listings() -> None:
    assert words.listing(["a", "b", "c", "d"]) == "a, b, c, d"
    assert words.listing(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


@pytest.mark.parametrize(
    ("n", "said"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (21, "21st"), (112, "112th")]
)
def test_it_says_places(n: int, said: str) -> None:
    assert words.ordinal(n) == said


def test_every_state_has_its_word() -> None:
    assert {*map(str, JobState), *map(str, TaskState)} <= words.STATES.keys()


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"a": "b // c", // d\n "e": [1, true]} /* f\ng */', '"open', "/* open\n", '{"a\\"b": -1.5e3}\n\n'],
)
def test_colours_change_no_text(text: str) -> None:
    assert "\n".join("".join(piece for _, piece in line) for line in coloured(text)) == text.removesuffix("\n")


def test_it_tells_keys_strings_numbers_and_comments_apart() -> None:
    line = coloured('{"a": "b", // c "d": 1')[0]
    assert [piece for piece in line if piece[0]] == [("k", '"a"'), ("s", '"b"'), ("c", '// c "d": 1')]


@pytest.mark.parametrize(
    ("quota", "text"),
    [(None, ""), (-1, "none"), (0, "0"), (5, "5"), (1024, "1k"), (1536, "1536"), (100 << 30, "100g"), (3 << 50, "3p")],
)
def test_a_quota_is_written_as_it_is_read(quota: int | None, text: str) -> None:
    assert words.quota_text(quota) == text
    assert quota is None or words.quota_in(text) == quota
