"""``longshore`` with bad luck on its own machine: Ctrl-C at once, what is closed or full, no home, two at one time."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from client import Client, account
from client.account import PortalAccount
from client.errors import ClientError, NotAllowed, PortalAway
from client.jobs import RemoteJob
from client.pai_fs.bar import ProgressBar
from client.pai_fs.kept import config_folder, keep
from client.transport import Transport
from client.tunnels import carry, opened
from tests.helpers import LIMIT
from tests.unit.test_command import PROGRAM, TOKEN, Other, _own_account, does, other

__all__ = ["_own_account", "other"]
ROOT = PROGRAM.parents[1]


def test_ctrl_c_while_it_is_still_imported_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    program = [sys.executable, "-m", "client.main", "ls"]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(program, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (130, "longshore: Interrupted.\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_was_closed_is_as_if_nobody_were_there(closed: str) -> None:
    line = f"{PROGRAM} login portal.lab {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    assert done.returncode == 77 and "went wrong" not in done.stderr


def test_a_login_that_does_not_fit_leaves_the_one_before(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Other, "answer", b"HTTP/1.0 200 OK\r\n\r\n{}")
    kept = account.save(PortalAccount("http://portal.lab", TOKEN))
    before = kept.read_bytes()
    line = f"ulimit -f 0; PYTHONDONTWRITEBYTECODE=1 {PROGRAM} login {other} --token {TOKEN}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (74, f"longshore: {kept} cannot be written or read: File too large.\n")
    assert kept.read_bytes() == before and os.listdir(kept.parent) == [kept.name]


@pytest.mark.parametrize("broken", ["{bad", "[]", "{}", "\udcff"])
def test_a_login_that_cannot_be_read_is_mended_by_the_next(
    other: str, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LONGSHORE_TOKEN")
    kept = account.save(PortalAccount("http://portal.lab", TOKEN))
    kept.write_bytes(broken.encode(errors="surrogateescape"))
    done = does("ls")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1) and "cannot be read" in done.stderr
    assert Client("portal.lab", TOKEN).username == "mira", "what is given wins over the file"
    monkeypatch.setattr(Other, "answer", b"HTTP/1.0 200 OK\r\n\r\n{}")
    assert does("login", other, "--token", TOKEN).exit_code == 0
    assert json.loads(kept.read_text()) == {"url": f"http://{other}", "token": TOKEN}


def test_of_two_that_write_the_same_file_one_is_there_whole(tmp_path: Path) -> None:
    keep(target := tmp_path / "account.json", b"0" * 100_000)
    says = "import sys\nfrom pathlib import Path\nfrom client.pai_fs.kept import keep\nto = Path(sys.argv[1])\n"
    says += "for _ in range(200):\n    keep(to, sys.argv[2].encode() * 100_000)\n"
    writers = [subprocess.Popen([sys.executable, "-c", says, target, name], cwd=ROOT) for name in "123"]
    while None in [each.poll() for each in writers]:
        found = target.read_bytes()
        assert len(found) == 100_000 and len(set(found)) == 1
    assert [each.wait(LIMIT) for each in writers] == [0, 0, 0]
    assert os.listdir(tmp_path) == [target.name] and target.stat().st_mode & 0o777 == 0o600


def test_who_has_no_home_has_the_root_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert config_folder() == Path("/.config")
    assert Client("portal.lab", TOKEN).username == "mira"


def test_a_word_that_is_no_text_is_a_sentence() -> None:
    done = does("show", "\udcff", url="http://127.0.0.1:1")
    assert (done.exit_code, done.stderr) == (2, "longshore: '\\udcff' cannot be written in utf-8.\n")


def test_a_bar_is_never_wider_than_its_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = ProgressBar()
    bar.begin(1000)
    bar.at("a", 500)
    bar.clear()
    drawn = capsys.readouterr().err.split("\r")
    assert len(drawn) == 4 and drawn[1].startswith("####") and max(map(len, drawn)) == 39


# --- into a task -----------------------------------------------------------------------------------------------------


class Nobody:
    async def read(self, most: int) -> bytes:
        return await asyncio.Event().wait() or b""


def through(code: int, reason: str, write: Any) -> None:
    """Carry what a portal sends that closes with this code."""

    async def task(socket: ServerConnection) -> None:
        await socket.send(b"x" * 10)
        await socket.close(code, reason)

    async def both() -> None:
        async with serve(task, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            job = RemoteJob(Transport(PortalAccount(f"http://127.0.0.1:{port}", TOKEN)), "mira", "train")
            async with opened(job, "tunnel", "main-0", "http") as socket:
                await carry(socket, Nobody(), write)

    asyncio.run(both())


@pytest.mark.parametrize(
    ("code", "kind"), [(1012, PortalAway), (4003, NotAllowed), (4004, ClientError)], ids=["restart", "right", "task"]
)
def test_a_connection_that_is_closed_says_why_with_its_exit_code(code: int, kind: type[ClientError]) -> None:
    async def write(data: bytes) -> None:
        pass

    with pytest.raises(ClientError, match=r"^It was closed\.$") as raised:
        through(code, "It was closed.", write)
    assert type(raised.value) is kind


def test_what_cannot_be_printed_is_not_told_of_the_portal() -> None:
    async def write(data: bytes) -> None:
        raise BrokenPipeError("nobody reads it")

    with pytest.raises(BrokenPipeError, match="nobody reads it"):
        through(1000, "", write)
