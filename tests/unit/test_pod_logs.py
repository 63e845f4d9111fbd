"""How a kubelet's log is read."""

from __future__ import annotations

import io

import pytest

from clusters.engines.kubernetes.logs import Lines, pod_log, since_second
from clusters.engines.runtime import LOG_MARK, FaultReason, LogChunk, RuntimeFault

A, B, C = (f"2026-11-20T10:00:0{nth}.{nth}00000000Z" for nth in (1, 2, 3))
BEGIN = f"{A} {LOG_MARK}\n".encode()


def read(data: bytes, size: int = 1 << 20, since: str = "") -> list[LogChunk]:
    lines = Lines(since)
    chunks = [chunk for at in range(0, len(data), size) for chunk in lines.feed(data[at : at + size])]
    return [*chunks, *lines.feed(b"", last=True), *lines.flush()]


def text(chunks: list[LogChunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


LONG = b"0123456789abcdef" * 1024  # 16 KiB


@pytest.mark.parametrize("size", [1, 7, 100, 5000, 1 << 20])
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", b""),
        (f"{A} one\n{B} \n{B}   two \n".encode(), b"one\n\n  two \n"),
        (f"{A} no end".encode(), b"no end"),
        (f"{A} x".encode(), b"x"),
        (A.encode() + b" " + LONG + B.encode() + b" more\n" + C.encode() + b" z\n", LONG + b"more\nz\n"),
        (A.encode() + b" " + LONG + b"more\n" + C.encode() + b" z\n", LONG + b"more\nz\n"),
        (A.encode() + b" " + LONG + A.encode() + b" \n", LONG + b"\n"),
        (A.encode() + b" " + LONG + b"\n", LONG + b"\n"),
        (f"{A} {B} is in the text\n".encode(), f"{B} is in the text\n".encode()),
    ],
)
def test_bytes_arrive_as_written(sent: bytes, said: bytes, size: int) -> None:
    if size == 1 and len(sent) > 10_000:
        size = 3
    assert text(read(BEGIN + sent, size)) == said


def test_chunks_have_64_kib_at_most_and_the_stamps_of_their_lines() -> None:
    sent = BEGIN + b"".join(f"2026-11-20T10:00:00.{at:09d}Z line {at}\n".encode() for at in range(20_000))
    chunks = read(sent)
    assert max(len(chunk.data) for chunk in chunks) <= 64 * 1024
    assert all(chunk.data.count(b"\n") == len(chunk.times) for chunk in chunks)
    assert chunks[0].at == "2026-11-20T10:00:00.000000000Z"


def test_stamps_of_other_zones_are_ours() -> None:
    (chunk,) = read(BEGIN + b"2026-11-20T12:00:00.5+02:00 x\n")
    assert chunk.at == "2026-11-20T10:00:00.500000000Z"


def test_a_log_without_its_beginning_says_so() -> None:
    assert [chunk.beheaded for chunk in read(f"{A} x\n".encode())] == [True]
    assert [chunk.beheaded for chunk in read(BEGIN + f"{A} x\n".encode())] == [False]


class Answer(io.BytesIO):
    connection = None

    def shutdown(self) -> None:
        self.close()


@pytest.mark.parametrize("since", ["", B])
def test_what_a_kubelet_says_of_a_container_that_it_has_removed_is_no_line_of_its_log(since: str) -> None:
    """It answers so with 200, in seconds in which the pod is still there."""
    said = Answer(b"unable to retrieve container logs for docker://6e23306228182f5faa665a28eeacc9209d07190979")
    with pytest.raises(RuntimeFault) as raised:
        list(pod_log(said, Lines(since), "lab", follow=False))  # type: ignore[arg-type]
    assert raised.value.reason is FaultReason.GONE
    ours = BEGIN + f"{A} unable to retrieve container logs for x\n".encode()
    assert text(list(pod_log(Answer(ours), Lines(), "lab", follow=False))).startswith(b"unable")  # type: ignore[arg-type]


def test_it_goes_on_at_a_stamp() -> None:
    assert text(read(BEGIN + f"{A} a\n{B} b\n{C} c\n".encode(), since=B)) == b"b\nc\n"
    assert since_second(B) == "2026-11-20T10:00:02Z"
