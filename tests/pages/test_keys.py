"""One's own SSH keys, and the SSH tab of a job."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.test import Client

from base.models import AuditEvent, User, UserKey
from jobs.containers import sshkeys
from tests.builders import make_job

pytestmark = pytest.mark.django_db
Browse = Callable[[User | None], Client]
URL = "/account/keys"


def test_a_key_is_added_shown_and_removed(browse: Browse, alice: User) -> None:
    line = sshkeys.generate("ed25519", "alice@laptop").public
    browser = browse(alice)
    assert browser.post(URL, {"key": f"  {line}\n"}).status_code == 302
    key = UserKey.objects.get()
    assert (key.text, key.name) == (line, "alice@laptop")
    page = browser.get(URL).content.decode()
    assert "alice@laptop" in page and key.fingerprint in page
    assert b"already" in browser.post(URL, {"key": line}).content
    assert browser.get(f"{URL}/{key.pk}/remove").status_code == 200
    browser.post(f"{URL}/{key.pk}/remove")
    assert not UserKey.objects.exists()
    assert list(AuditEvent.objects.values_list("action", flat=True)) == ["key added", "key removed"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "one line"),
        ("hello", "no public SSH key"),
        ("ssh-ed25519 AAAA", "no public SSH key"),
        ('command="x" ssh-ed25519 AAAA', "no public SSH key"),
        (sshkeys.generate("ed25519", "c").private, "private key"),
        (sshkeys.generate("ed25519", "c").public + "\n" + sshkeys.generate("ed25519", "d").public, "one line"),
    ],
)
def test_what_is_no_public_key_is_refused_with_what_to_do(browse: Browse, alice: User, text: str, says: str) -> None:
    answer = browse(alice).post(URL, {"key": text})
    assert answer.status_code == 400 and says in answer.content.decode()
    assert not UserKey.objects.exists()


def test_a_short_rsa_key_is_refused(browse: Browse, alice: User) -> None:
    key = generate_private_key(65537, 1024).public_key()
    line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert "2048 bits" in browse(alice).post(URL, {"key": line}).content.decode()


def test_others_keys_are_not_one_s_own(browse: Browse, alice: User, bob: User) -> None:
    key = UserKey.objects.create(user=alice, name="a", text="ssh-ed25519 AAAA a", fingerprint="SHA256:x")
    assert browse(bob).get(f"{URL}/{key.pk}/remove").status_code == 404
    browse(bob).post(f"{URL}/{key.pk}/remove")
    assert UserKey.objects.count() == 1
    assert browse(None).get(URL).status_code == 302


def test_the_tab_tells_how_to_log_in(browse: Browse, alice: User, bob: User) -> None:
    make_job("alice", "train", state="RUNNING", task_state="RUNNING")
    page = browse(alice).get("/jobs/alice/train/ssh").content.decode()
    assert 'hx-get="/jobs/alice/train/ssh/logins"' in page and "ssh worker-0" in page
    part = browse(alice).get("/jobs/alice/train/ssh/logins").content.decode()
    assert "delegation=" in part or "No container runs yet" in part
    assert "delegation=" not in browse(bob).get("/jobs/alice/train/ssh/logins").content.decode()
    assert browse(None).get("/jobs/alice/train/ssh/logins").status_code == 302


def test_a_job_that_does_not_run_says_so(browse: Browse, alice: User) -> None:
    make_job("alice", "train", state="SUCCEEDED")
    assert "No container runs" in browse(alice).get("/jobs/alice/train/ssh").content.decode()
