"""``longshore`` as a package and as a command, against a real server without engines."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import webbrowser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any

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
from client.errors import PortalAway
from client.main import main
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
    listens = seen["answer"].headers["Location"].partition("/?code=")[0]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", listens)
    assert f"form-action 'self' {listens};" in seen["asked"].headers["Content-Security-Policy"]
    assert "has your answer" in seen["shown"].text
    assert AuditEvent.objects.filter(action="token made", actor="alice").count() == 1


def test_a_code_is_worth_nothing_without_the_secret_or_a_second_time(site: str, alice: User) -> None:
    verifier = "v" * 43
    challenge = hashlib.sha256(verifier.encode()).hexdigest()
    credential = f"session:{session_of(alice)}"

    def asked(code: str, secret: str) -> int:
        return httpx.post(f"{site}/api/v1/token/code", json={"code": code, "verifier": secret}).status_code

    codes = [callers.issue_ticket(credential, f"/token/code/{challenge}") for _ in range(3)]
    assert asked(codes[0], "w" * 43) == 400
    assert [asked(codes[0], verifier), asked(codes[0], verifier)] == [200, 400]
    Ticket.objects.update(expires_at=timezone.now())
    assert asked(codes[1], verifier) == 400
    other = callers.issue_ticket(credential, "/terminal/alice/train/worker/0")
    assert asked(other, verifier) == 400
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
