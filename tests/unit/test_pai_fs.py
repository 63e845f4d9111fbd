"""pai-fs: its settings, what it refuses, and copies whose connection breaks."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from client.pai_fs import config, copying, patience, sending
from client.pai_fs.config import Config
from client.pai_fs.copying import CopyOptions, CopyTotals, copy
from client.pai_fs.errors import CheckFailed, GaveUp, NoRoom, NoSuchPath, PaiFsError, Unreachable
from client.pai_fs.main import run
from client.pai_fs.places import LocalFile, LocalSide, RemotePlace, part_of, place
from client.pai_fs.remote import Remote, RemoteEntry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAI_FS_CONFIG", str(tmp_path / "config" / "pai-fs.json"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.0)


class Shaky(LocalSide):
    """A folder that stands for the other side: its connection breaks after so many bytes, so many times."""

    def __init__(self, path: str, after: int, times: int) -> None:
        super().__init__(path)
        self.after, self.times, self.sent = after, times, 0

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        super().add(name, self._breaking(pieces))

    def split(self) -> tuple[LocalSide, str]:
        folder, name = super().split()
        shaky = Shaky(folder.path, self.after, self.times)
        return shaky, name

    def _breaking(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        left = self.after
        for piece in pieces:
            if self.times and left < len(piece):
                self.times -= 1
                yield piece[:left]
                raise Unreachable("the connection broke")
            left -= len(piece)
            self.sent += len(piece)
            yield piece


@pytest.fixture(autouse=True)
def _any_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "refuse_same_side", lambda source, target: None)


class Silent:
    def begin(self, total: int) -> None: ...

    def at(self, name: str, done: int) -> None: ...

    def note(self, text: str) -> None: ...


def take(source: str, target: LocalSide, **more: bool) -> copying.CopyTotals:
    return copy(LocalSide(source), target, CopyOptions(**more), Silent())


def test_a_large_file_goes_on_where_it_broke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PART", 4 << 20)
    monkeypatch.setattr(sending, "SMALL", 1 << 20)
    content = os.urandom(11 << 20)
    (tmp_path / "big").write_bytes(content)
    (tmp_path / "far").mkdir()
    shaky = Shaky(str(tmp_path / "far"), after=(3 << 20) + 7, times=3)
    take(str(tmp_path / "big"), shaky)
    assert (tmp_path / "far" / "big").read_bytes() == content
    assert shaky.sent < 2 * len(content), "what had arrived was not sent again"
    assert os.listdir(tmp_path / "far") == ["big"]


def test_an_interrupted_copy_is_gone_on_with_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SMALL", 10)
    (tmp_path / "file").write_bytes(b"0123456789abcdef")
    target = LocalSide(str(tmp_path / "copy"))
    (file,) = LocalSide(str(tmp_path / "file")).files().files
    (tmp_path / part_of("copy", file.mark)).write_bytes(b"0123")
    read: list[int] = []
    monkeypatch.setattr(
        LocalSide, "read", lambda self, name, offset, most: read.append(offset) or iter([b"456789abcdef"])
    )
    take(str(tmp_path / "file"), target)
    assert read == [4] and (tmp_path / "copy").read_bytes() == b"0123456789abcdef"


class Beside(LocalSide):
    """A folder into which, in the midst of a copy, another copy of the same is begun."""

    def __init__(self, path: str, begin: Callable[[], object]) -> None:
        super().__init__(path)
        self.begin = begin

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        super().add(name, self._beside(pieces))

    def split(self) -> tuple[LocalSide, str]:
        folder, name = super().split()
        return Beside(folder.path, self.begin), name

    def _beside(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self.begin()


@pytest.mark.parametrize("small", [0, 100])
def test_of_two_copies_at_once_the_first_succeeds_and_the_second_disturbs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(sending, "SMALL", small)
    (tmp_path / "file").write_bytes(b"0123456789abcdef")
    (tmp_path / "far").mkdir()
    code = "import sys; from client.pai_fs import copying, sending; from client.pai_fs.places import LocalSide"
    code += "; copying.refuse_same_side = lambda *sides: None; from tests.unit.test_pai_fs import take"
    code += f"; sending.SMALL = {small}; take(sys.argv[1], LocalSide(sys.argv[2]), force=True)"
    ends: list[subprocess.CompletedProcess[str]] = []

    def second() -> None:
        command = [sys.executable, "-c", code, str(tmp_path / "file"), str(tmp_path / "far")]
        ends.append(subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False))

    take(str(tmp_path / "file"), Beside(str(tmp_path / "far"), second), force=True)
    assert (tmp_path / "far" / "file").read_bytes() == b"0123456789abcdef" and os.listdir(tmp_path / "far") == ["file"]
    assert len(ends) == 1
    if small:  # each has a part of its own
        assert ends[0].returncode == 0, ends[0].stderr
    else:
        assert "far/file: another pai-fs on this machine is copying this file there." in ends[0].stderr
    take(str(tmp_path / "file"), LocalSide(str(tmp_path / "far")), force=True)  # no lock is left


def test_it_gives_up_after_some_tries(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    with pytest.raises(GaveUp):
        take(str(tmp_path / "file"), Shaky(str(tmp_path / "copy"), after=10, times=99))
    assert not (tmp_path / "copy").exists()


def test_a_file_that_changes_meanwhile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    monkeypatch.setattr(LocalSide, "_file", lambda self, name: LocalFile(name, 101, "m"))
    with pytest.raises(CheckFailed):
        take(str(tmp_path / "file"), LocalSide(str(tmp_path / "copy")))


def test_a_length_that_was_shown_too_short_spoils_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS shows the length of a file whose writer died only after a while."""
    monkeypatch.setattr(sending, "PART", 4 << 20)
    monkeypatch.setattr(sending, "SMALL", 1 << 20)
    content = os.urandom(11 << 20)
    (tmp_path / "big").write_bytes(content)
    target = LocalSide(str(tmp_path / "copy"))
    (file,) = LocalSide(str(tmp_path / "big")).files().files
    part = tmp_path / part_of("copy", file.mark)
    part.write_bytes(content[: 2 << 20])
    true_size, lies = LocalSide.size, [1 << 20]
    monkeypatch.setattr(
        LocalSide, "size", lambda self, name: lies.pop() if lies and "part" in name else true_size(self, name)
    )
    take(str(tmp_path / "big"), target)
    assert (tmp_path / "copy").read_bytes() == content and lies == []


def test_a_failure_on_this_side_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def full(self: LocalSide, name: str, pieces: Iterator[bytes]) -> None:
        nonlocal tries
        tries += 1
        raise OSError(28, "No space left on device", name)

    monkeypatch.setattr(LocalSide, "add", full)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(OSError, match="No space left"):
        take(str(tmp_path / "file"), LocalSide(str(tmp_path / "copy")))
    assert tries == 1 and sorted(os.listdir(tmp_path)) == ["file"]


def test_nothing_is_copied_onto_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for target in (tmp_path / "file", tmp_path):
        with pytest.raises(PaiFsError, match="onto itself"):
            take(str(tmp_path / "file"), LocalSide(str(target)), force=True)
    assert (tmp_path / "file").read_text() == "precious"


def test_links_are_followed_and_loops_not_and_names_of_any_length_fit(tmp_path: Path) -> None:
    source = tmp_path / "a"
    (source / "real").mkdir(parents=True)
    (source / "real" / ("n" * 255)).write_text("x")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "y").write_text("y")
    (source / "link").symlink_to(tmp_path / "beside")
    (source / "again").symlink_to(tmp_path / "beside")
    (source / "real" / "loop").symlink_to(source)
    assert take(str(source), LocalSide(str(tmp_path / "b")), recursive=True).files == 3
    assert (tmp_path / "b" / "link" / "y").read_text() == "y"
    (tmp_path / "beside" / "back").symlink_to(source)  # a loop of two links, neither of which leads straight up
    assert take(str(source), LocalSide(str(tmp_path / "c")), recursive=True).files == 3


def test_what_cannot_be_copied_is_named_and_the_rest_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "x").write_text("x")
    (source / "link").symlink_to("deep/x")
    (source / "dead").symlink_to("nowhere")
    (source / "self").symlink_to("self")
    (source / "up").symlink_to("..")
    os.mkfifo(source / "deep" / "pipe")
    (source / "secret").write_text("s")
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: may(path, mode) and Path(path).name != "secret")
    assert run(["-cp", "-r", "a", "b"]) == 7
    said = capsys.readouterr()
    assert "copied 2 files" in said.out
    lines = said.err.splitlines()
    assert "left out: a/dead (a link that leads nowhere)" in lines
    assert "left out: a/deep/pipe (neither a file nor a folder)" in lines
    assert "left out: a/secret (you may not read it)" in lines
    assert "not followed: a/up (a link to a folder that it is in)" in lines
    assert "links that are followed, so that what they lead to is copied: 1" in lines
    assert lines[-1] == "pai-fs: left out, as said above: 4", "a loop leaves nothing out that is not copied"
    assert len([line for line in lines if line.startswith("left out: ")]) == 4
    assert sorted(os.listdir("b")) == ["deep", "link"] and Path("b/link").read_text() == "x"


def test_one_file_is_no_files() -> None:
    assert [str(CopyTotals(files, 5)) for files in (1, 2)] == ["1 file, 5 bytes", "2 files, 5 bytes"]


def test_folders_are_copied_as_cp_does(tmp_path: Path) -> None:
    for name in ("a/x", "a/b/y", "a/b/.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a" / "empty").mkdir()
    source = str(tmp_path / "a")
    with pytest.raises(PaiFsError, match="use -r"):
        take(source, LocalSide(str(tmp_path / "new")))
    assert take(source, LocalSide(str(tmp_path / "new")), recursive=True).files == 3
    assert (tmp_path / "new" / "b" / ".h").read_text() == "a/b/.h" and (tmp_path / "new" / "empty").is_dir()
    take(source, LocalSide(str(tmp_path / "new")), recursive=True)
    assert (tmp_path / "new" / "a" / "x").exists(), "into a folder that is there"
    (tmp_path / "third").mkdir()
    take(source, LocalSide(str(tmp_path / "third")), recursive=True, contents=True)
    assert (tmp_path / "third" / "x").exists()
    with pytest.raises(PaiFsError, match="-f replaces"):
        take(source, LocalSide(str(tmp_path / "third")), recursive=True, contents=True)
    take(source, LocalSide(str(tmp_path / "third")), recursive=True, contents=True, force=True)


class Asked:
    """A portal that notes what it is asked, and keeps whatever it gets."""

    is_portal = True

    def __init__(self, there: dict[str, bool]) -> None:
        self.there, self.calls = there, list[str]()

    def find(self, path: str) -> RemoteEntry | None:
        self.calls.append("find")
        return RemoteEntry(path, self.there[path], 0, 0, "", "", 0, 0) if path in self.there else None

    def list(self, path: str) -> list[RemoteEntry]:
        self.calls.append("list")
        if path not in self.there:
            raise NoSuchPath(path)
        names = [name for name in self.there if name.rpartition("/")[0] == path]
        return [RemoteEntry(name, self.there[name], 0, 0, "", "", 0, 0) for name in names]

    def mkdirs(self, path: str) -> None:
        self.calls.append("mkdirs")

    def require_room(self, path: str, size: int) -> None:
        self.calls.append("room")

    def create_at_once(self, path: str, chunks: Iterator[bytes], *, replace: bool) -> None:
        list(chunks)
        self.calls.append("create")


class Limited(LocalSide):
    """A folder that stands for a store: its user's quota has ``room``, and it may be full all the same."""

    room, fills = 10**9, False

    def require_room(self, name: str, size: int) -> None:
        if size > self.room:
            raise NoRoom(f"{size} more does not fit")

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        if self.fills:
            super().add(name, iter([next(pieces)[:5]]))
            raise NoRoom("5 more does not fit")
        super().add(name, pieces)

    def split(self) -> tuple[LocalSide, str]:
        folder, name = super().split()
        limited = Limited(folder.path)
        limited.room, limited.fills = self.room, self.fills
        return limited, name


def limited(path: Path, *, room: int = 10**9, fills: bool = False) -> Limited:
    side = Limited(str(path))
    side.room, side.fills = room, fills
    return side


def test_what_cannot_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SMALL", 10)
    (tmp_path / "data").mkdir()
    for name, size in (("big", 50), ("small", 5)):
        (tmp_path / "data" / name).write_bytes(b"x" * size)
    (tmp_path / "far").mkdir()
    with pytest.raises(NoRoom, match=r"far/big cannot be copied, nothing was begun\. 50 more does not fit"):
        take(str(tmp_path / "data" / "big"), limited(tmp_path / "far", room=49))
    with pytest.raises(NoRoom, match=r"All 2 files of .*data together cannot be copied.* 55 more"):
        take(str(tmp_path / "data"), limited(tmp_path / "far" / "data", room=54), recursive=True)
    assert os.listdir(tmp_path / "far") == []


def test_what_has_arrived_and_what_is_replaced_take_no_more_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "SMALL", 10)
    source, far = tmp_path / "data", tmp_path / "far"
    source.mkdir()
    far.mkdir()
    for name, size in (("big", 50), ("small", 5)):
        (source / name).write_bytes(b"x" * size)
    mark = next(file.mark for file in LocalSide(str(source)).files().files if file.name == "big")
    (far / part_of("big", mark)).write_bytes(b"x" * 30)
    (far / "small").write_bytes(b"y" * 4)
    take(str(source), limited(far, room=21), recursive=True, contents=True, force=True)
    assert sorted(os.listdir(far)) == ["big", "small"] and (far / "big").read_bytes() == b"x" * 50


def test_a_copy_that_failed_for_good_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SMALL", 10)
    (tmp_path / "big").write_bytes(b"x" * 50)
    (tmp_path / "far").mkdir()
    with pytest.raises(NoRoom, match="far/big could not be copied, nothing of it was kept"):
        take(str(tmp_path / "big"), limited(tmp_path / "far", fills=True))
    assert os.listdir(tmp_path / "far") == []
    with pytest.raises(GaveUp):
        take(str(tmp_path / "big"), Shaky(str(tmp_path / "far"), after=0, times=99))
    assert len(os.listdir(tmp_path / "far")) == 1, "the part stays when the connection broke"


def test_an_unfinished_copy_of_a_week_ago_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    far = tmp_path / "far"
    far.mkdir()
    old, young, other = (far / name for name in (part_of("a", "0" * 12), part_of("b", "1" * 12), ".mine.pai-fs-part"))
    for file in (old, young, other):
        file.write_text("x")
    for file, days in ((old, 7.1), (young, 6.9), (other, 99.0)):
        os.utime(file, (0, time.time() - days * 24 * 3600))
    take(str(tmp_path / "file"), LocalSide(str(far)))
    assert sorted(os.listdir(far)) == sorted([young.name, other.name, "file"])


def test_a_portal_is_asked_once_for_room_and_a_namenode_not(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for number in range(3):
        (tmp_path / "code" / f"{number}.py").write_text("x")
    portal = Asked({"/users/mira": True})
    far: Any = RemotePlace("/users/mira", cast(Remote, portal))
    copy(LocalSide(str(tmp_path / "code")), far, CopyOptions(recursive=True), Silent())
    assert portal.calls.count("room") == 1 and portal.calls.index("room") < portal.calls.index("mkdirs")


def test_paths_in_the_store_have_no_host() -> None:
    remote = Remote(Config())
    assert place("hdfs://mydir/x", remote).path == "/mydir/x"
    assert place("hdfs://", remote).path == "/"
    assert place("some/where", remote).path == "some/where"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["-ls"], 2),
        (["-cp", "a"], 2),
        (["-cp", "a", "b", "c"], 2),
        (["-rm", "local"], 2),
        (["-mv", "hdfs://a", "local"], 2),
        (["--config", "nonsense"], 2),
        (["--config", "port=x"], 2),
        (["-ls", "hdfs://", "--host", "127.0.0.1", "--port", "9"], 1),
    ],
)
def test_what_cannot_be_done_ends_with_its_code(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    assert capsys.readouterr().err.startswith("pai-fs: ")


def test_who_has_said_no_server_yet_is_told_how_to(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("x")
    for arguments in (["-ls", "hdfs://"], ["-cp", "file", "hdfs://tmp"]):
        assert run([*arguments, "--port", "9"]) == 1  # where nobody listens
        assert "pai-fs --config host=portal.lab port=9186 user=mira" in capsys.readouterr().err
    run(["-ls", "hdfs://", "--host", "127.0.0.1", "--port", "9"])
    assert "--config" not in capsys.readouterr().err
    config.configure(["host=127.0.0.1", "port=9", "user=mira", "token=t"])
    run(["-ls", "hdfs://"])
    assert "--config" not in capsys.readouterr().err


def test_what_is_in_a_folder_needs_r_where_there_are_folders_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a").mkdir()
    Path("a", "x").write_text("x")
    assert run(["-cp", "a/*", "b"]) == 0 and os.listdir("b") == ["x"]
    Path("a", "deep").mkdir()
    assert run(["-cp", "a/*", "c"]) == 2 and not Path("c").exists()
    assert "a has folders in it, as deep; use -r." in capsys.readouterr().err
    assert run(["-cp", "-r", "a/*", "c"]) == 0 and sorted(os.listdir("c")) == ["deep", "x"]


def test_an_unknown_option_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        run(["--what"])
    assert ended.value.code == 2


def test_settings_are_kept_for_their_user_alone(tmp_path: Path) -> None:
    made = config.configure(["host=portal", "port=1234", "user=mira", "token=t"])
    assert config.load() == made == Config("portal", 1234, "mira", "t")
    assert stat.S_IMODE(config.config_file().stat().st_mode) == 0o600
    assert json.loads(config.config_file().read_text())["token"] == "t"


def test_a_config_of_the_older_program_is_not_unpickled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pai-fs.config").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    assert run(["-ls", "hdfs://"]) == 2
    assert "--config" in capsys.readouterr().err and not Path("hacked").exists()
