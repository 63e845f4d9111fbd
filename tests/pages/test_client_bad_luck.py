"""``longshore`` where something else happens meanwhile, or what is asked for is not there, against a real server."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from base.accounts import tokens
from base.files.store import open_store
from base.files.store.base import find
from base.models import User
from client import Client, running
from client.errors import NotCopied, Taken
from client.pai_fs.errors import Unreachable
from client.pai_fs.remote import Remote
from jobs.containers.code import uploads
from jobs.models import Job
from tests.pages.test_client import Does, does
from tests.submitting import submitted

__all__ = ["does"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def portal(does: Does, site: str, alice: User) -> Client:
    return Client(site, tokens.issue(alice, 600))


@pytest.mark.parametrize("asked", ["logs", "logs -f", "logs -f --json", "exec", "forward", "ssh"])
def test_a_task_that_is_none_is_a_sentence(does: Does, alice: User, asked: str) -> None:
    submitted(alice, name="train")
    more = {"exec": ["--", "true"], "forward": ["http"]}.get(asked, [])
    for task in ("worker-7", "worker", "x"):
        done = does(tokens.issue(alice, 600), *asked.split(), "--task", task, "train", *more)
        assert done.exit_code == 66, done.output
        assert done.stderr.startswith(f"longshore: alice~train has no task {task}. It has ")


@pytest.mark.parametrize("asked", ["logs", "logs -f", "logs -f --json"])
def test_what_is_no_expression_is_refused_whoever_looks(does: Does, alice: User, asked: str) -> None:
    submitted(alice, name="train")
    done = does(tokens.issue(alice, 600), *asked.split(), "--grep", "(", "train")
    assert done.exit_code == 65 and done.stderr.startswith("longshore: This is no regular expression: missing )")


def test_where_there_is_no_browser_the_address_is_printed(
    does: Does, site: str, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert does(tokens.issue(alice, 600), "open", "train").stdout == f"{site}/jobs/alice/train\n"


def test_a_wrong_password_is_not_allowed(does: Does, site: str, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHORE_PASSWORD", "x")
    for user in ("alice", "nobody"):
        done = does("", "login", site, "--user", user)
        assert done.exit_code == 77 and done.stderr.count("\n") == 1, done.stderr


def test_a_file_that_is_not_there_and_amounts_below_nothing_are_told(does: Does, alice: User, tmp_path: Path) -> None:
    token, nowhere = tokens.issue(alice, 600), tmp_path / "nowhere.json"
    done = does(token, "submit", str(nowhere))
    says = f"longshore: {nowhere} cannot be written or read: No such file or directory.\n"
    assert (done.exit_code, done.stderr) == (66, says)
    done = does(token, "run", "--gpus", "-1", "--image", "debian", "--", "true")
    assert done.exit_code == 2 and "Invalid value for '--gpus': -1" in done.stderr


# --- a folder --------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A folder of its own: the store is that of all tests here."""
    return f"store:/users/alice/{tmp_path.name}"


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "project" / "a").mkdir(parents=True)
    for number in range(9):
        (tmp_path / "project" / f"{number}.py").write_text("print()")
    return str(tmp_path / "project")


def test_of_two_runs_that_chose_one_folder_the_second_touches_nothing(
    portal: Client, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "code_folder", lambda *_: "/users/alice/code/both/project")
    assert portal.run("true", folder=project, name="first", image="debian").name == "first"
    with pytest.raises(Taken, match="Another run uploads to /users/alice/code/both just now"):
        portal.run("true", folder=project, name="second", image="debian")
    assert [job.name for job in Job.objects.all()] == ["first"]
    assert portal.copy("store:/users/alice/code/both/project", f"{project}-back") == 9


def a_day_later(name: str) -> None:
    """The portal looks for what is left of uploads, of which this one began two days ago."""
    store = open_store()
    store.change(f"/users/alice/code/.longshore/{name}", modified_at=timezone.now() - timedelta(days=2))
    uploads.clean_up()


def test_what_was_uploaded_goes_when_its_job_is_gone(portal: Client, project: str) -> None:
    Path(project, "empty").mkdir()
    Path(project, "a", "b.py").write_text("1")
    Path(project, "data").write_bytes(b"left behind")
    Path(project, ".longshoreignore").write_text("data\n")
    portal.run("true", folder=project, name="goes", image="debian")
    a_day_later("goes")
    assert {each.name for each in open_store().list("/users/alice/code/goes/project")} > {"empty", "a", "0.py"}
    Job.objects.all().delete()
    a_day_later("goes")
    assert find(open_store(), "/users/alice/code/goes") is None
    assert find(open_store(), "/users/alice/code/.longshore/goes") is None


def test_of_an_upload_that_was_broken_off_nothing_stays(
    portal: Client, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C it goes at once, and by a kill, of which nobody can say anything, a day later."""
    sent = Remote.unpack

    def pressed(self: Remote, *asked: Any, **how: Any) -> int:
        sent(self, *asked, **how)
        raise KeyboardInterrupt

    monkeypatch.setattr(Remote, "unpack", pressed)
    with pytest.raises(KeyboardInterrupt):
        portal.run("true", folder=project, name="pressed", image="debian")
    assert find(open_store(), "/users/alice/code/pressed") is None
    assert open_store().list("/users/alice/code/.longshore") == [], "the next run may have the same folder"
    monkeypatch.setattr(Remote, "delete", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        portal.run("true", folder=project, name="killed", image="debian")
    assert find(open_store(), "/users/alice/code/killed/project/0.py")
    a_day_later("killed")
    assert find(open_store(), "/users/alice/code/killed") is None and not Job.objects.exists()


def test_an_upload_that_the_portal_has_given_up_is_not_submitted(
    portal: Client, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Remote.unpack

    def slept(self: Remote, *asked: Any, **how: Any) -> int:
        a_day_later("slept")
        return sent(self, *asked, **how)

    monkeypatch.setattr(Remote, "unpack", slept)
    with pytest.raises(NotCopied, match="took more than a day"):
        portal.run("true", folder=project, name="slept", image="debian")
    assert find(open_store(), "/users/alice/code/slept") is None and not Job.objects.exists()


def test_runs_of_one_second_have_names_of_their_own(project: str) -> None:
    assert len({running.new_name(Path(project)) for _ in range(9)}) == 9


def test_a_file_that_changes_while_a_folder_is_packed_goes_along_as_it_is_then(
    portal: Client, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the first try is lost, so all are sent again."""
    sent = Remote.unpack

    def lost(self: Remote, *asked: Any, **how: Any) -> int:
        sent(self, *asked, **how)
        Path(project, "3.py").write_text("print(3)")
        Path(project, "4.py").unlink()
        raise Unreachable("The answer is lost")

    monkeypatch.setattr(Remote, "unpack", lost)
    Path(project, "3.py").write_text("print(2)")
    said: list[str] = []
    job = portal.run("true", folder=project, name="changes", image="debian", tell=said.append)
    assert job.name == "changes" and said[0].startswith("8 files, ")
    portal.copy("store:/users/alice/code/changes/project", f"{project}-back")
    assert Path(f"{project}-back", "3.py").read_text() == "print(3)"


def test_names_come_back_as_they_went(portal: Client, project: str, store: str) -> None:
    names = ["with space", "new\nline", "😀.txt", "quo\"te'", "#a?b=1&c%20", "-dash", "tab\there", "[*]"]
    for name in names:
        Path(project, name).write_text(name)
        assert portal.copy(f"{project}/{name}", f"{store}/one/") == 1
        assert portal.copy(f"{store}/one/{name}", f"{project}/a/") == 1
    portal.copy(project, f"{store}/all")
    portal.copy(f"{store}/all", f"{project}-back")
    for there in (f"{project}/a", f"{project}-back", f"{project}-back/a"):
        assert [Path(there, name).read_text() for name in names] == names


@pytest.mark.parametrize(
    ("target", "again"),
    [
        ("other name", "longshore cp '{}/project/*' '{}/other name'"),
        ("project", "the same command again"),
        ("other/", "the same command again"),
    ],
)
def test_ctrl_c_says_which_command_goes_on(
    portal: Client, project: str, store: str, tmp_path: Path, target: str, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal.copy(project, f"{store}/project")
    read = Remote.read

    def pressed(self: Remote, path: str, *how: Any) -> Any:
        if path.endswith("5.py"):
            raise KeyboardInterrupt
        return read(self, path, *how)

    monkeypatch.setattr(Remote, "read", pressed)
    with pytest.raises(KeyboardInterrupt) as told:
        portal.copy(f"{store}/project", f"{tmp_path}/back/{target}")
    said = again.format(store, f"{tmp_path}/back")
    assert str(told.value) == f"{said} goes on where it was"
    monkeypatch.undo()
    source, there = shlex.split(said)[-2:] if "*" in said else (f"{store}/project", f"{tmp_path}/back/{target}")
    portal.copy(source, there)
    found = sorted(path.name for path in (tmp_path / "back").rglob("*.py"))
    assert found == [f"{number}.py" for number in range(9)], "each is there once"


def test_a_name_that_is_taken_has_a_code_of_its_own(does: Does, alice: User, tmp_path: Path) -> None:
    submitted(alice, name="train")
    token, config = tokens.issue(alice, 600), tmp_path / "job.json"
    (tmp_path / "code").mkdir()
    run = "--gpus", "0", "--image", "debian", "--folder", str(tmp_path / "code")
    done = does(token, "run", "--name", "train", *run, "--", "true")
    assert (done.exit_code, done.stderr) == (73, "longshore: Job name train already exists\n")
    role = {"name": "worker", "taskNumber": 1, "command": "true", "cpuNumber": 1, "memoryMB": 100}
    config.write_text(json.dumps({"jobName": "train", "image": "debian", "taskRoles": [role]}, indent=1))
    done = does(token, "submit", str(config))
    assert (done.exit_code, done.stderr) == (73, "longshore: line 2, column 13: Job name train already exists\n")
    config.write_text(json.dumps({"jobName": "train", "image": "", "taskRoles": [role]}))
    assert does(token, "submit", str(config)).exit_code == 65, "that is not all"


def test_a_page_of_another_portal_is_no_job_of_this_one(does: Does, site: str, alice: User) -> None:
    submitted(alice, name="train")
    token = tokens.issue(alice, 600)
    done = does(token, "stop", "https://portal.elsewhere/jobs/alice/train")
    says = (
        f"longshore: https://portal.elsewhere/jobs/alice/train is a page of another portal than {site}, where you are"
    )
    assert done.exit_code == 2 and done.stderr.startswith(says), done.stderr
    assert Job.objects.get().execution == Job.Execution.START
    assert does(token, "stop", f"{site}/jobs/alice/train").exit_code == 0
    assert Job.objects.get().execution == Job.Execution.STOP
