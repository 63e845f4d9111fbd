"""portal.backup.encryption and records: what is written comes out again, and nothing else does."""

from __future__ import annotations

import hashlib
import io
import json

import pytest

from portal.backup import encryption
from portal.backup.encryption import MAGIC, PIECE, BackupError, Sealing, read_head, require_whole
from portal.backup.records import Records, read

SECRET = "a long passphrase"


@pytest.fixture(autouse=True)
def _cheap_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_MEMORY", 64)
    monkeypatch.setattr(encryption, "_PASSES", 1)


def sealed(plain: bytes, passphrase: str = SECRET) -> bytes:
    file = io.BytesIO()
    sealing = Sealing(file, passphrase, {"release": "1.2.3"})
    sealing.write(plain)
    sealing.close()
    return file.getvalue()


def opened(data: bytes, passphrase: str = SECRET) -> bytes:
    file = io.BytesIO(data)
    return b"".join(encryption.opened(file, passphrase, read_head(file)))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_what_is_sealed_opens(size: int) -> None:
    plain = bytes(size % 251 for _ in range(size))
    assert opened(sealed(plain)) == plain


def test_two_backups_of_the_same_have_nothing_in_common_behind_their_heads() -> None:
    one, other = (sealed(b"x" * 100).partition(b"}\n")[2] for _ in range(2))
    assert one[4:] != other[4:]
    assert b"xxx" not in one


def test_another_passphrase_opens_nothing() -> None:
    with pytest.raises(BackupError, match="not the one of this backup"):
        opened(sealed(b"secret"), "another passphrase")


def test_a_backup_that_was_cut_off_is_not_whole() -> None:
    data = sealed(b"x" * (PIECE + 10))
    for size in (len(data) - 1, len(data) - 32, len(data) - 36, len(data) - 40, PIECE, 300, len(MAGIC) + 3, 5):
        with pytest.raises(BackupError):
            opened(data[:size])
        with pytest.raises(BackupError):
            file = io.BytesIO(data[:size])
            require_whole(file, read_head(file))


def test_one_changed_bit_anywhere_is_seen() -> None:
    data = sealed(b"x" * 50)
    for at in range(0, len(data), 7):
        changed = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        with pytest.raises(BackupError):
            opened(changed)


def test_pieces_cannot_be_swapped_or_left_out() -> None:
    data = sealed(b"a" * PIECE + b"b" * PIECE + b"c")
    begin = data.index(b"}\n") + 2
    step = 4 + PIECE + 16
    one, two, rest = data[begin : begin + step], data[begin + step : begin + 2 * step], data[begin + 2 * step :]
    for changed in (two + one + rest, one + rest, one + one + rest):
        with pytest.raises(BackupError, match="damaged"):
            opened(data[:begin] + changed)


def test_its_checksum_needs_no_passphrase() -> None:
    file = io.BytesIO(sealed(b"x"))
    head = read_head(file)
    assert head.says["release"] == "1.2.3"
    require_whole(file, head)


def test_a_head_cannot_make_the_reader_take_all_memory() -> None:
    head = {"release": "1", "salt": "A" * 24, "check": "A" * 44, "memory": 1 << 40, "passes": 3, "lanes": 4}
    with pytest.raises(BackupError, match="damaged"):
        opened(MAGIC + json.dumps(head).encode() + b"\n" + bytes(100))


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", "empty"), (b"PK\x03\x04 something else", "no backup"), (b"LONGSHORE BACKUP 2\n{}", "newer release")],
)
def test_another_file_is_named_for_what_it_is(data: bytes, says: str) -> None:
    with pytest.raises(BackupError, match=says):
        read_head(io.BytesIO(data))


def test_records_come_back_in_their_order() -> None:
    file = io.BytesIO()
    records = Records(Sealing(file, SECRET, {}))
    records.note("table", name="t")
    rows = [[n, "ä\ud800\0" * 100, None, True, 1.5] for n in range(2000)]
    for row in rows:
        records.row(row)
    records.note("file", path="a")
    records.piece(b"\0\1" * 70_000)
    records.close()
    file.seek(0)
    found = list(read(encryption.opened(file, SECRET, read_head(file))))
    assert [row for kind, some in found if kind == "rows" for row in some] == rows
    assert len([kind for kind, _ in found if kind == "rows"]) > 1, "not all of them in memory"
    assert [kind for kind, _ in found if kind not in ("rows", "bytes")] == ["table", "file", "end"]
    assert b"".join(data for kind, data in found if kind == "bytes") == b"\0\1" * 70_000


def test_records_without_an_end_are_refused() -> None:
    file = io.BytesIO()
    records = Records(Sealing(file, SECRET, {}))
    records.note("about")
    records.box.write(records._squeeze.flush())
    records.box.close()
    file.seek(0)
    with pytest.raises(BackupError, match="not in order"):
        list(read(encryption.opened(file, SECRET, read_head(file))))


@pytest.mark.parametrize("head", [b"[" * 60_000 + b"\n", b"7\n", b"\xff\n", b'{"memory": 1e99}\n', b"x" * 70_000])
def test_a_head_that_nobody_wrote_is_an_error_of_ours(head: bytes) -> None:
    with pytest.raises(BackupError):
        opened(MAGIC + head + b"\0" * 100)


@pytest.mark.parametrize("order", [[0], [0, 1], [1, 0, 2], [0, 0, 1, 2], [0, 2]])
def test_pieces_left_out_or_in_another_order_are_seen_though_the_checksum_is_right(order: list[int]) -> None:
    """Whoever finds a backup can reckon its checksum, and has no passphrase."""
    data = sealed(b"x" * (2 * PIECE + 10))
    start = data.index(b"}\n") + 2
    head, rest, pieces = data[:start], data[start:-36], []
    while rest:
        size = 4 + int.from_bytes(rest[:4])
        pieces.append(rest[:size])
        rest = rest[size:]
    forged = head + b"".join(pieces[nth] for nth in order) + bytes(4)
    with pytest.raises(BackupError):
        opened(forged + hashlib.sha256(forged).digest())
