"""``longshore`` as a package and as a command, against a real server without engines."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import threading
import webbrowser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from click.testing import CliRunner, Result
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import expect

from base.accounts import callers, tokens
from base.models import ApiToken, AuditEvent, Ticket, User
from client import account
from client.commands import browser as signing_in
from client.commands import main
from client.errors import ClientError, PortalAway
from client.pai_fs.remote import Remote
from client.transport import Transport
from jobs.models import Job
from tests.helpers import LIMIT
from tests.pages.conftest import Tab, session_of
from tests.submitting import submitted

pytestmark = pytest.mark.django_db(transaction=True)

Does = Callable[..., Result]


@pytest.fixture
def does(site: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Does:
    """``does(token, "ls")``: what the command says of it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LONGSHORE_URL", site)

    def done(token: str, *arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(main, arguments, given, env={"LONGSHORE_TOKEN": token})

    return done


def _revoked(**_: Any) -> None:
    ApiToken.objects.update(revoked_at=timezone.now())


def _expired(**_: Any) -> None:
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def _disabled(**_: Any) -> None:
    User.objects.update(is_active=False)


ASKS = (
    ("ls",),
    ("ls", "--all"),
    ("show", "train"),
    ("why", "train"),
    ("logs", "-f", "train"),
    ("wait", "train"),
    ("stop", "train"),
    ("usage",),
    ("run", "--image", "debian", "--", "true"),
    ("exec", "train", "--", "true"),
    ("forward", "train", "http"),
    ("cp", "store:/users/alice/x", "."),
    ("login", "--token", "-"),
)


@pytest.mark.parametrize("happens", [_revoked, _expired, _disabled])
def test_a_token_that_is_not_valid_is_said_and_never_reads_as_a_guest(
    does: Does, alice: User, happens: Callable[..., None]
) -> None:
    submitted(alice, name="train")
    token = tokens.issue(alice, 600)
    assert "train" in does(token, "ls").stdout
    happens()
    for asked in ASKS:
        done = does(token, *asked, given=token)
        says = "longshore: Your token was revoked, or has ended: longshore login\n"
        assert (done.exit_code, done.stdout, done.stderr) == (77, "", says), asked
    assert not account.account_file().exists()


@pytest.mark.parametrize("arrives", [True, False])
def test_a_submission_that_breaks_off_is_there_with_its_folder_or_not_at_all(
    does: Does, alice: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arrives: bool
) -> None:
    spoken = Transport.json

    def broken(self: Transport, method: str, path: str, *more: Any, **params: Any) -> Any:
        if (method, path) != ("POST", "/api/v1/user/alice/jobs"):
            return spoken(self, method, path, *more, **params)
        if arrives:
            spoken(self, method, path, *more, **params)
        raise PortalAway("It broke off.")

    monkeypatch.setattr(Transport, "json", broken)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("print()")
    token, folder, name = tokens.issue(alice, 600), ("-C", str(tmp_path / "project")), f"arrives-{arrives}"
    done = does(token, "run", "-d", "--name", name, *folder, "--image", "debian", "--", "true")
    assert (done.exit_code, Job.objects.count()) == ((0, 1) if arrives else (69, 0)), done.stderr
    assert (f"alice~{name} was submitted" if arrives else "It broke off.") in done.stderr
    kept = does(token, "cp", f"store:/users/alice/code/{name}/project/train.py", str(tmp_path))
    assert kept.exit_code == (0 if arrives else 66), kept.stderr


def test_a_folder_larger_than_a_job_takes_along_is_refused_before_it_is_uploaded(
    does: Does, alice: User, settings: Any, tmp_path: Path
) -> None:
    (project := tmp_path / "project").mkdir()
    (project / "data").write_bytes(b"x" * 300)
    asked = ("run", "-d", "--name", "large", "-C", str(project), "--image", "debian", "--", "true")
    settings.CODE_LIMIT, token = 299, tokens.issue(alice, 600)
    done = does(token, *asked)
    assert (done.exit_code, Job.objects.count()) == (65, 0)
    assert done.stderr.startswith(f"longshore: {project} has 300 bytes, and a job takes at most 299 along: ")
    assert done.stderr.count("\n") == 1
    assert does(token, "cp", "store:/users/alice/code/large", str(tmp_path)).exit_code == 66
    (project / ".longshoreignore").write_text("data\n")
    assert does(token, *asked).exit_code == 0, "what stays behind does not count"


def test_a_job_that_never_ran_has_no_logs_and_one_that_ended_is_not_told_to_stop(does: Does, alice: User) -> None:
    submitted(alice, name="train")
    token = tokens.issue(alice, 600)
    done = does(token, "logs", "train")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "longshore: No task of it has run yet.\n")
    writes = tokens.issue(alice, 600, "script", scopes="jobs:stop")
    assert does(writes, "stop", "train").stderr == "longshore: alice~train was told to stop.\n"
    Job.objects.update(state="STOPPED", completed_at=timezone.now())
    assert does(token, "stop", "train").stderr == "longshore: alice~train has ended already: STOPPED.\n"
    assert does(token, "logs", "train").stderr == "longshore: No task of it ever ran.\n"


def test_a_copy_by_checksum_takes_what_differs_and_says_what_came_out_otherwise(
    does: Does, alice: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, data = tokens.issue(alice, 600), tmp_path / "data"
    data.mkdir()
    for name, text in (("a", "same"), ("b", "here"), ("c", "new")):
        (data / name).write_text(text)
    asked = ("cp", f"{data}/*", "store:/users/alice/data")
    assert "copied 3 files" in does(token, *asked).stderr
    (data / "b").write_text("mine")
    os.utime(data / "b", (0, 0))
    assert "copied 0 files" in does(token, *asked, "-c").stderr, "as long and older, it is there"
    assert "copied 1 file, 4 bytes" in does(token, *asked, "--checksum").stderr
    assert "copied 0 files" in does(token, *asked, "--checksum").stderr
    (data / "b").write_text("back")
    back = ("cp", "store:/users/alice/data/*", str(data), "--checksum")
    assert "copied 1 file" in does(token, *back).stderr and (data / "b").read_text() == "mine"
    (data / "b").write_text("torn")
    sent = Remote.create_at_once
    torn = lambda self, path, chunks, **more: sent(self, path, [b"nrot" for _ in chunks], **more)  # noqa: E731
    monkeypatch.setattr(Remote, "create_at_once", torn)
    done = does(token, *asked, "--checksum")
    assert (done.exit_code, "/users/alice/data/b has not the content of" in done.stderr) == (74, True), done.stderr


def yes(answer: Callable[[str], Any]) -> Callable[[str], bool]:
    """What takes the place of ``webbrowser.open``."""

    def opened(page: str) -> bool:
        threading.Thread(target=answer, args=(page,), daemon=True).start()
        return True

    return opened


def test_somebody_signs_in_by_the_page_and_only_the_command_that_asked_gets_the_token(
    does: Does, site: str, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    known = httpx.Client(cookies={"longshore": session_of(alice)}, headers={"Referer": site}, timeout=LIMIT)

    def says_yes(page: str) -> None:
        asked = seen["asked"] = known.get(page)
        fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', asked.text))
        seen["answer"] = known.post(page.partition("?")[0], data=fields, follow_redirects=False)
        seen["shown"] = known.get(seen["answer"].headers["Location"])

    monkeypatch.setattr(webbrowser, "open", yes(says_yes))
    monkeypatch.setenv("BROWSER", "any")
    done = does("", "login", site)
    assert done.exit_code == 0 and f"Signed in to {site} as alice" in done.stderr, done.stderr
    kept = json.loads(account.account_file().read_text())["token"]
    assert tokens.user_of(kept) == alice and kept not in done.output
    assert "Sign in longshore on this machine as alice?" in seen["asked"].text
    listens, _, leads = seen["answer"].headers["Location"].rpartition("/")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", listens)
    sign = leads[: signing_in.SIGNS]
    assert f"and it shows {sign}." in seen["asked"].text and f"if it shows {sign}: " in done.stderr
    assert f"form-action 'self' {listens};" in seen["asked"].headers["Content-Security-Policy"]
    assert "has your answer" in seen["shown"].text
    assert AuditEvent.objects.filter(action="token made", actor="alice").count() == 1


def test_a_code_is_worth_nothing_without_the_secret_or_a_second_time(site: str, alice: User) -> None:
    verifier = "v" * 43
    challenge = hashlib.sha256(verifier.encode()).hexdigest()
    credential = f"session:{session_of(alice)}"

    def asked(code: str, secret: str) -> int:
        body = json.dumps({"code": code, "verifier": secret})
        answer = httpx.post(f"{site}/api/v1/token/code", content=body, headers={"Content-Type": "application/json"})
        return answer.status_code

    codes = [callers.issue_ticket(credential, f"/token/code/{challenge}") for _ in range(3)]
    assert asked(codes[0], "w" * 43) == 400
    assert [asked(codes[0], verifier), asked(codes[0], verifier)] == [200, 400]
    Ticket.objects.update(expires_at=timezone.now())
    assert asked(codes[1], verifier) == 400
    other = callers.issue_ticket(credential, "/terminal/alice/train/worker/0")
    assert asked(other, verifier) == 400
    assert asked(codes[2], "\ud800" * 43) == asked("\ud800", verifier) == 400
    Session.objects.all().delete()
    assert asked(callers.issue_ticket(credential, f"/token/code/{challenge}"), verifier) == 400


def test_the_page_is_for_who_is_signed_in_and_leads_to_their_own_machine_alone(site: str, alice: User) -> None:
    page, fields = f"{site}/account/command", {"port": "50000", "challenge": "a" * 64}
    assert httpx.get(page, params=fields).headers["Location"].startswith("/login?next=/account/command")
    signed_in = httpx.Client(cookies={"longshore": session_of(alice)}, headers={"Referer": site}, timeout=LIMIT)
    assert signed_in.post(page, data=fields).status_code == 403, "without the form's token"
    for wrong in ({"port": "80"}, {"port": "50000@evil.example"}, {"port": "70000"}, {"challenge": "a"}, {"port": ""}):
        assert signed_in.get(page, params={**fields, **wrong}).status_code == 400
    assert not Ticket.objects.exists()


def test_a_token_with_fewer_scopes_does_not_become_one_with_all(site: str, alice: User, admin: User) -> None:
    """Their own session says yes, and beside it they show a token of the admin that may only read jobs."""
    verifier, less = "v" * 43, tokens.issue(admin, 60, "script", scopes="jobs:read")
    fields = {"port": "50000", "challenge": hashlib.sha256(verifier.encode()).hexdigest()}
    own = httpx.Client(cookies={"longshore": session_of(alice)}, headers={"Referer": site}, timeout=LIMIT)
    asked = own.get(f"{site}/account/command", params=fields).text
    fields["csrfmiddlewaretoken"] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', asked)[0]
    bearer = {"Authorization": f"Bearer {less}"}
    code = own.post(f"{site}/account/command", data=fields, headers=bearer).headers["Location"].partition("=")[2]
    made = httpx.post(f"{site}/api/v1/token/code", json={"code": code, "verifier": verifier}).json()
    assert (made["user"], made["admin"]) == ("alice", False)
    guest = httpx.post(f"{site}/account/command", data=fields, headers=bearer)
    assert "Location" not in guest.headers or guest.headers["Location"].startswith("/login")


def test_the_command_minds_no_answer_but_that_of_its_page(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another page of the browser may guess the port, and a browser opens connections on which it says nothing."""
    opened: Queue[str] = Queue()
    monkeypatch.setattr(webbrowser, "open", opened.put)
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(signing_in.token, Transport(account.PortalAccount(site)), print)
        asked = parse_qs(urlsplit(opened.get(timeout=LIMIT)).query)
        listens = ("127.0.0.1", int(asked["port"][0]))
        with socket.create_connection(listens), socket.create_connection(listens):
            here = f"http://127.0.0.1:{listens[1]}"
            for other in ("/?code=x", f"/{'a' * 64}?code=x", f"/{asked['challenge'][0]}"):
                assert httpx.get(f"{here}{other}", timeout=LIMIT).status_code == 404
            assert not made.done()
            assert httpx.get(f"{here}/{asked['challenge'][0]}?code=x", timeout=LIMIT).status_code == 200
            with pytest.raises(ClientError, match="has been used, or is too old"):
                made.result(LIMIT)


def test_a_real_browser_takes_the_code_to_the_command(
    tab: Callable[..., Tab], site: str, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Queue[str] = Queue()
    monkeypatch.setattr(webbrowser, "open", opened.put)
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(signing_in.token, Transport(account.PortalAccount(site)), print)
        page = tab(alice).page
        page.goto(opened.get(timeout=LIMIT))
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("longshore has your answer")).to_be_visible()
        assert tokens.user_of(made.result(LIMIT)) == alice
