"""Both streams of a short log of Docker, as they come in one answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.engines.docker.logs import HEADER, SHORT, short_log
from clusters.engines.runtime import LOG_MARK, LogChunk, Stream
from tests.helpers import examples

STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
LINES = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=60)


def frame(text: bytes, stream: int = 1, at: str = "2026-01-01T00:00:05.000000000Z") -> bytes:
    body = f"{at} ".encode() + text
    return bytes([stream, 0, 0, 0]) + len(body).to_bytes(4, "big") + body


def read(
    pieces: Sequence[bytes], is_beheaded: bool = False, chunked: bool = True
) -> Mapping[Stream, Sequence[LogChunk]] | None:
    def stream(_: int) -> Iterator[bytes]:
        yield from pieces

    answer = requests.Response()
    answer.raw = SimpleNamespace(stream=stream, chunked=chunked, close=lambda: None)
    return short_log(answer, lambda at: is_beheaded)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@settings(max_examples=examples(40), deadline=None)
@given(LINES, st.sampled_from([1, 7, 60, 4096]))
def test_both_streams_are_told_apart_wherever_their_frames_are_cut(lines: list[tuple[int, bytes]], size: int) -> None:
    got = read(cut(b"".join(frame(text, number) for number, text in lines), size))
    assert got is not None
    for number, stream in enumerate(STREAMS, 1):
        assert b"".join(chunk.data for chunk in got[stream]) == b"".join(text for to, text in lines if to == number)


@pytest.mark.parametrize("is_beheaded", [True, False])
def test_each_stream_has_its_own_mark(is_beheaded: bool) -> None:
    mark = f"{LOG_MARK}\n".encode()
    got = read([frame(mark) + frame(b"a\n", 2) + frame(mark) + frame(mark, 2)], is_beheaded)
    assert got is not None
    assert [chunk.data for chunk in got["stdout"]] == [mark], "the first line alone is the mark"
    assert [chunk.data for chunk in got["stderr"]] == [b"a\n" + mark]
    assert [got[stream][0].beheaded for stream in STREAMS] == [False, is_beheaded]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(frame(b"b\n")[:3], id="the middle of a head"),
        pytest.param(frame(b"b\n")[:-1], id="the middle of a line"),
        pytest.param(bytes([1, 0, 0, 0]) + b"\xff" * 4 + b"x", id="a length of 4 GB"),
        pytest.param(frame(b"Error grabbing logs: EOF", 3), id="what the engine says of itself"),
        pytest.param(b"2026-01-01T00:00:05.000000000Z no frames: a terminal\n", id="a terminal"),
    ],
)
def test_what_does_not_come_whole_is_asked_for_stream_by_stream(end: bytes) -> None:
    assert read([frame(b"a\n"), end]) is None


def test_an_answer_that_broke_in_its_head_is_no_empty_log() -> None:
    """What says that it comes in chunks is missing then, and nothing that it has an end."""
    assert read([], chunked=False) is None
    assert read([]) == {"stdout": [], "stderr": []}


def test_it_is_short_up_to_a_number_of_bytes() -> None:
    text = SHORT - len(frame(b""))
    assert read(cut(frame(b"x" * text), 5000)) is not None
    assert read(cut(frame(b"x" * (text + 1)), 5000)) is None


@pytest.mark.timed
def test_an_engine_that_sends_line_by_line_costs_about_what_one_does_that_sends_all_at_once() -> None:
    whole = frame(b"x\n") * (SHORT // len(frame(b"x\n")))

    def cost(pieces: Sequence[bytes]) -> float:
        began = time.thread_time()
        assert read(pieces) is not None
        return time.thread_time() - began

    lines = cut(whole, HEADER + 33)
    assert min(cost(lines) for _ in range(3)) < 2 * min(cost([whole]) for _ in range(3))
