"""``longshore`` as a package and as a command, against a real server without engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from django.utils import timezone

from base.accounts import tokens
from base.models import ApiToken, User
from client import account
from client.errors import PortalAway
from client.main import main
from client.transport import Transport
from jobs.models import Job
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
