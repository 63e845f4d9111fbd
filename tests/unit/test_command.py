"""``longshore`` where no portal answers, or its own machine fails it: one sentence and an exit code."""

from __future__ import annotations

import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from client import Client, account, transport
from client.commands import main
from client.commands.jobs import reasons
from client.errors import PortalAway
from client.following import Follower
from tests.helpers import LIMIT

PROGRAM = Path(__file__).resolve().parents[2] / "scripts" / "longshore"
TOKEN = "e30.eyJ1c2VybmFtZSI6Im1pcmEiLCJleHAiOjk5OTk5OTk5OTl9.x"  # mira's, until 2286


class Other(socketserver.StreamRequestHandler):
    """Some other program at the address of a portal."""

    answer = b""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(self.answer)


@pytest.fixture
def other() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield "{}:{}".format(*server.server_address)
        server.shutdown()
        thread.join(LIMIT)


@pytest.fixture(autouse=True)
def _own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LONGSHORE_TOKEN", TOKEN)
    monkeypatch.delenv("LONGSHORE_URL", raising=False)


def does(*arguments: str, url: str = "") -> Result:
    return CliRunner().invoke(main, arguments, env={"LONGSHORE_URL": url} if url else {})


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n<h1>It works!</h1>", 69, "{} does not answer as a portal of Longshore does."),
        (b"HTTP/1.0 404 No\r\n\r\n<h1>No</h1>", 69, "{} is no portal of Longshore, or one of an earlier release."),
        (b"HTTP/1.0 301 To\r\nLocation: https://a.lab/\r\n\r\n", 69, "{} sends to https://a.lab/: sign in with that"),
        (b"HTTP/1.0 503 Busy\r\n\r\n<h1>Busy</h1>", 69, "{} answered 503."),
        (b"HTTP/1.0 500 Oh\r\n\r\n<h1>Oh</h1>", 1, "{} answered 500."),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 69, "{} does not answer ("),
        (b"", 69, "{} does not answer ("),
    ],
)
def test_what_is_no_portal_is_said(
    other: str, answer: bytes, code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Other, "answer", answer)
    for asked in (("ls",), ("show", "train"), ("usage",), ("login", "--token", TOKEN)):
        done = does(*asked, url=other)
        assert done.exit_code == code and done.stdout == "", (asked, done.output)
        assert done.stderr.startswith("longshore: " + says.format(f"http://{other}")), done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "Nothing says yet where the portal is"),
        ("ftp://portal.lab", "ftp://portal.lab is no address of a portal"),
        ("http://:9186", "http://:9186 is no address of a portal"),
        ("portal.lab:99999", "portal.lab:99999 is no address of a portal"),
        ("http://[::1", "http://[::1 is no address of a portal"),
    ],
)
def test_an_address_that_cannot_be_one_is_said(url: str, says: str) -> None:
    done = does("ls", url=url)
    assert done.exit_code in (1, 77) and done.stderr.startswith(f"longshore: {says}")


def test_a_disk_that_is_full_and_a_question_without_an_answer_are_sentences() -> None:
    for line, code, says in (
        ("completion bash > /dev/full", 74, "longshore: What is printed cannot be written or read: No space left"),
        ("login portal.lab < /dev/null", 77, "or with --user and LONGSHORE_PASSWORD, or with --token -.\n"),
    ):
        done = subprocess.run(["sh", "-c", f"{PROGRAM} {line}"], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr


def test_a_config_that_is_no_text_and_a_port_that_cannot_be_are_sentences(tmp_path: Path) -> None:
    (config := tmp_path / "job.json").write_bytes(b'{"jobName": "\xff"}')
    done = does("submit", str(config), url="http://127.0.0.1:1")
    assert (done.exit_code, done.stderr) == (65, f"longshore: {config} is no text in UTF-8.\n")
    done = does("forward", "train", "http", "--local", "80000")
    assert done.exit_code == 2 and "80000 is not in the range" in done.stderr


def test_it_says_who_stopped_a_job() -> None:
    stopped = {"state": "STOPPED", "appExitSpec": {"reason": "Stopped by omar."}}
    assert reasons(stopped) == ["", "Stopped by omar."]


class Clock:
    """It goes on by what is slept alone, so that a slow machine is none that waits long."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_portal_that_stays_away_ends_what_waits_for_it(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "time", clock := Clock())
    said: list[str] = []
    job = Client(f"http://{other}", TOKEN).job("train")
    with pytest.raises(PortalAway, match="does not answer"):  # one that never was there is not waited for
        job.wait(tell=said.append)
    assert (clock.now, said) == (0, [])
    monkeypatch.setattr(Other, "answer", b"HTTP/1.0 200 OK\r\n\r\n{}")
    job.config()
    monkeypatch.setattr(Other, "answer", b"")
    with pytest.raises(PortalAway, match="does not answer"):
        list(Follower(job.transport, job.path(), tell=said.append, patience=60).pieces())
    assert 50 < clock.now <= 60
    assert len(said) == 1 and said[0].endswith("The job goes on; this waits.")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://portal.lab", "https://portal.lab:443/jobs/mira/train"),
        ("https://portal.lab:443", "https://portal.lab/jobs/mira/train"),
        ("portal.lab:80/", "http://Portal.Lab/jobs/mira/train/logs?task=worker-0#L10"),
        ("http://[::1]:9186", "http://[::1]:9186/jobs/mira/train#L10"),
    ],
)
def test_the_address_of_a_page_is_as_a_browser_shows_it(url: str, shown: str) -> None:
    job = Client(url, TOKEN).job(shown)
    assert (job.username, job.name) == ("mira", "train")


def test_who_signed_in_with_the_port_of_its_scheme_stays_signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGSHORE_TOKEN")
    account.save(account.PortalAccount("https://portal.lab:443", TOKEN))  # as releases before kept it
    for url in ("", "https://portal.lab", "https://portal.lab:443"):
        assert account.load(url) == account.PortalAccount("https://portal.lab", TOKEN)
