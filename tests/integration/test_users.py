"""Accounts, grants, CSV import and tokens: the rules that pages and API share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from base.accounts import audit, services, tokens
from base.accounts.viewer import Guest
from base.core import errors
from base.models import ApiToken, AuditEvent, User
from clusters.models import VcGrant, VirtualCluster
from clusters.users import services as users
from clusters.users.csv_import import import_csv
from clusters.users.queries import load_user, load_users
from tests.conftest import PASSWORD
from tests.helpers import LIMIT
from tests.submitting import submitted

pytestmark = pytest.mark.django_db
GUEST = Guest()


@pytest.fixture
def vision(db: None) -> VirtualCluster:
    return VirtualCluster.objects.create(name="vision", capacity=30, max_capacity=30)


def grants(username: str) -> list[str]:
    return sorted(VcGrant.objects.filter(username=username).values_list("vc__name", flat=True))


@pytest.fixture
def asked_from() -> Iterator[str]:
    """The address of the request that this thread answers."""
    audit.asked_by({"REMOTE_ADDR": "10.0.0.1", "PATH_INFO": "/users"})
    yield "10.0.0.1"
    audit.asked_by(None)


def test_it_makes_a_user_with_grants_and_writes_it_down(admin: User, vision: VirtualCluster, asked_from: str) -> None:
    made = users.create_user(admin, username="mira", password="sesame", vcs=["vision"], email="m@x.org")
    assert made.check_password("sesame")
    assert grants("mira") == ["default", "vision"]
    event = AuditEvent.objects.get(action="user made")
    assert (event.actor, event.object, event.ip) == ("admin", "mira", asked_from)
    assert "sesame" not in str(event.data)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"username": ".."}, errors.BadRequest),
        ({"username": "a" * 65}, errors.BadRequest),
        ({"username": "mi\u0301ra"}, errors.BadRequest),
        ({"username": "admin"}, errors.ConflictUser),
        ({"password": "12345"}, errors.BadRequest),
        ({"password": "x" * 2000}, errors.BadRequest),
        ({"email": "nobody"}, errors.BadRequest),
        ({"email": "a" * 300 + "@x.org"}, errors.BadRequest),
        ({"vcs": ["vision"]}, errors.UnknownVirtualCluster),
    ],
)
def test_it_refuses_what_is_not_right(admin: User, change: dict[str, Any], error: type[errors.LongshoreError]) -> None:
    with pytest.raises(error):
        users.create_user(admin, **{"username": "mira", "password": "sesame", **change})
    assert list(User.objects.values_list("username", flat=True)) == ["admin"]


def test_only_admins_make_list_grant_and_delete(alice: User, bob: User) -> None:
    for who, error in ((GUEST, errors.Unauthorized), (alice, errors.Forbidden)):
        for call in (
            lambda who=who: users.create_user(who, username="m", password="sesame"),
            lambda who=who: users.set_grants(who, "alice", []),
            lambda who=who: users.update_user(who, "alice", admin=True),
            lambda who=who: users.set_active(who, "bob", False),
            lambda who=who: users.delete_user(who, "bob"),
            lambda who=who: import_csv(who, "username,password\nm,sesame", dry_run=False),
            lambda who=who: users.update_user(who, "bob", password="sesame"),
            lambda who=who: users.set_github_pat(who, "bob", "x"),
            lambda who=who: users.merge_extension(who, "bob", {}),
        ):
            with pytest.raises(error):
                call()


def test_a_user_cannot_grant_himself_a_virtual_cluster_through_his_extension(
    admin: User, alice: User, vision: VirtualCluster
) -> None:
    with pytest.raises(errors.Forbidden):
        users.merge_extension(alice, "alice", {"virtualCluster": ["default", "vision"], "theme": "dark"})
    alice.refresh_from_db()
    assert (grants("alice"), alice.extension) == ([], {})
    users.merge_extension(alice, "alice", {"virtualCluster": ["default"], "theme": "dark"})
    users.merge_extension(admin, "alice", {"virtualCluster": ["vision"]})
    alice.refresh_from_db()
    assert (grants("alice"), alice.extension) == (["default", "vision"], {"theme": "dark"})


def test_a_github_token_is_noted_and_never_kept(alice: User) -> None:
    users.merge_extension(alice, "alice", {"githubPAT": "ghp_secret"})
    alice.refresh_from_db()
    assert (alice.has_github_pat, alice.extension) == (True, {})
    users.set_github_pat(alice, "alice", "")
    alice.refresh_from_db()
    assert alice.has_github_pat is False
    assert "ghp_secret" not in str(list(AuditEvent.objects.values()))


def test_an_extension_has_an_end(alice: User) -> None:
    users.merge_extension(alice, "alice", {"a": "x" * 60_000})
    with pytest.raises(errors.BadRequest):
        users.merge_extension(alice, "alice", {"b": "x" * 60_000})


def test_the_last_admin_keeps_his_flag_and_no_admin_is_deleted(admin: User, alice: User) -> None:
    for call in (
        lambda: users.update_user(admin, "admin", admin=False),
        lambda: users.update_user(admin, "admin", admin=False),
        lambda: users.set_active(admin, "admin", False),
        lambda: users.delete_user(admin, "admin"),
    ):
        with pytest.raises(errors.RemoveAdmin):
            call()
    users.update_user(admin, "alice", admin=True)
    alice.refresh_from_db()
    users.update_user(alice, "admin", admin=False)
    assert not User.objects.get(username="admin").is_admin
    with pytest.raises(errors.RemoveAdmin):
        users.update_user(alice, "alice", admin=False)


def test_a_disabled_admin_is_not_another_admin(admin: User, alice: User) -> None:
    users.update_user(admin, "alice", admin=True)
    users.set_active(admin, "alice", False)
    with pytest.raises(errors.RemoveAdmin):
        users.update_user(admin, "admin", admin=False)


def test_what_did_not_change_is_not_in_the_audit(admin: User, alice: User) -> None:
    for email in ("a@lab.example", "a@lab.example", alice.email):
        users.update_user(admin, "alice", email=email)
        users.update_user(admin, "alice", admin=False)
    assert list(AuditEvent.objects.filter(object="alice").values_list("action", flat=True)) == ["email changed"] * 2


def test_a_user_with_live_jobs_is_not_deleted(admin: User, alice: User) -> None:
    job = submitted(alice, "train")
    submitted(alice, "more")
    with pytest.raises(errors.ConflictUser, match=r"^User alice has 2 jobs that have not ended\. Stop them first\.$"):
        users.delete_user(admin, "alice")
    assert [(record.user.username, record.jobs.all) for record in load_users()] == [
        ("admin", 0),
        ("alice", 2),
    ]
    type(job).objects.update(state="STOPPED")
    users.delete_user(admin, "alice")
    assert type(job).objects.count() == 2


def test_a_job_of_a_user_who_was_just_deleted_or_disabled_is_not_taken(admin: User, alice: User, bob: User) -> None:
    users.delete_user(admin, "alice")
    users.set_active(admin, "bob", False)
    for user in (alice, bob):  # as the request found them, a moment ago
        with pytest.raises(errors.Unauthorized):
            submitted(user, "train")


def test_nothing_of_a_deleted_user_is_left_to_the_next_of_his_name(
    admin: User, bob: User, vision: VirtualCluster
) -> None:
    users.set_grants(admin, "bob", ["vision"])
    token = tokens.issue(bob, 600)
    browser = Client()
    browser.force_login(bob, backend="django.contrib.auth.backends.ModelBackend")
    users.delete_user(admin, "bob")
    users.create_user(admin, username="bob", password="sesame")
    assert tokens.user_of(token) is None
    assert grants("bob") == []
    assert browser.get("/account").status_code == 302


def test_tokens_and_sessions_end_with_a_disabled_user_and_stay_ended(admin: User, bob: User) -> None:
    token = tokens.issue(bob, 600)
    browser = Client()
    browser.force_login(bob, backend="django.contrib.auth.backends.ModelBackend")
    users.set_active(admin, "bob", False)
    assert browser.get("/account").status_code == 302
    users.set_active(admin, "bob", True)
    assert tokens.user_of(token) is None


def test_a_new_password_ends_tokens_and_sessions(admin: User, bob: User) -> None:
    token = tokens.issue(bob, 600)
    browser = Client()
    browser.force_login(bob, backend="django.contrib.auth.backends.ModelBackend")
    users.update_user(admin, "bob", password="sesame")
    assert tokens.user_of(token) is None
    assert browser.get("/account").status_code == 302
    assert User.objects.get(username="bob").check_password("sesame")


def test_grants_always_hold_the_default_and_admins_have_none(admin: User, alice: User, vision: VirtualCluster) -> None:
    assert users.set_grants(admin, "alice", ["vision", "vision", ""]) == ("default", "vision")
    assert users.set_grants(admin, "alice", []) == ("default",)
    with pytest.raises(errors.UnknownVirtualCluster, match=r"^Virtual cluster xx not found\.$"):
        users.set_grants(admin, "alice", ["vision", "xx"])
    assert grants("alice") == ["default"]
    with pytest.raises(errors.Forbidden, match=r"^Admin's virtual clusters cannot be updated\.$"):
        users.set_grants(admin, "admin", ["vision"])


def test_a_record_tells_where_a_user_may_submit(admin: User, alice: User, vision: VirtualCluster) -> None:
    boss, user = load_users()
    assert (boss.vcs, boss.groups) == (("default", "vision"), ("default", "vision", "admingroup"))
    assert (user.vcs, user.is_granted) == (("default",), False)
    users.set_grants(admin, "alice", ["vision"])
    record = load_user("alice")
    assert record is not None
    assert (record.vcs, record.is_granted) == (("default", "vision"), True)


def test_the_list_costs_the_same_however_many_users_there_are(
    admin: User, alice: User, django_assert_max_num_queries: Any
) -> None:
    User.objects.bulk_create(User(username=f"u{n}", password="!") for n in range(50))
    with django_assert_max_num_queries(7):
        assert len(load_users()) == 52


CSV = "username,password,admin,virtual cluster,githubPAT\n"


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(admin: User, vision: VirtualCluster) -> None:
    text = "\ufeff" + CSV + 'mira,sesame,false,"default,vision",abc\n\nroot2,sesame,TRUE,,\nmira,sesame,,,\nbo,123,,,\n'
    text += "admin,sesame,,,\nze,sesame,maybe,,\nyo,sesame,,mars,\n"
    result = import_csv(admin, text, dry_run=True)
    assert [(row.line, row.username, "refuse" if row.problem else "create") for row in result.rows] == [
        (2, "mira", "create"),
        (4, "root2", "create"),
        (5, "mira", "refuse"),
        (6, "bo", "refuse"),
        (7, "admin", "refuse"),
        (8, "ze", "refuse"),
        (9, "yo", "refuse"),
    ]
    assert result.rows[-1].problem == "Virtual cluster mars not found."
    assert (result.written, result.problems, User.objects.count()) == (False, 5, 1)
    assert import_csv(admin, text, dry_run=False).written is False
    assert User.objects.count() == 1


def test_it_imports_users_with_their_roles_grants_and_notes(admin: User, vision: VirtualCluster) -> None:
    text = (
        "username;password;admin;virtual cluster;githubPAT\r\nmira;se,same;false;vision;abc\r\nroot2;sesame;true;;\r\n"
    )
    result = import_csv(admin, text, dry_run=False)
    assert result.written
    mira, root = User.objects.get(username="mira"), User.objects.get(username="root2")
    assert (mira.has_github_pat, mira.is_admin, root.is_admin) == (True, False, True)
    assert mira.check_password("se,same")
    assert grants("mira") == ["default", "vision"]
    assert AuditEvent.objects.filter(action="user made").count() == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        CSV,
        "name,word\na,b\n",
        "username\nmira\n",
        CSV + 'a,"b\n',
        CSV + "a,b,c,d,e,f\n",
        "username,password,password\n",
    ],
)
def test_it_refuses_a_file_that_is_no_list_of_users(admin: User, text: str) -> None:
    with pytest.raises(errors.BadRequest):
        import_csv(admin, text, dry_run=True)


def test_it_refuses_a_file_without_end(admin: User) -> None:
    with pytest.raises(errors.TooLarge):
        import_csv(admin, CSV + "x" * 1_000_001, dry_run=True)
    with pytest.raises(errors.BadRequest):
        import_csv(admin, CSV + "mira,sesame,,,\n" * 501, dry_run=True)


def test_named_tokens_are_listed_and_revoked_by_their_owner_only(alice: User, bob: User) -> None:
    token = services.create_token(alice, "laptop", 30, ["*"])
    tokens.issue(alice, -5)
    [listed] = services.live_tokens(alice)
    assert listed.name == "laptop"
    assert services.revoke_token(bob, listed.pk) is False
    assert tokens.user_of(token) == alice
    assert services.revoke_token(alice, listed.pk) is True
    assert services.revoke_token(alice, listed.pk) is False
    assert tokens.user_of(token) is None
    assert not services.live_tokens(alice).exists()


@pytest.mark.parametrize(("name", "days"), [("", 1), (" ", 1), ("x" * 101, 1), ("a\x00", 1), ("ok", 0), ("ok", 366)])
def test_a_token_needs_a_name_and_an_end(alice: User, name: str, days: int) -> None:
    with pytest.raises(errors.BadRequest):
        services.create_token(alice, name, days, ["*"])
    assert ApiToken.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_remove_each_other_at_once_leave_one(admin: User) -> None:
    other = User.objects.create_user("root2", PASSWORD, is_admin=True)
    together, refused = threading.Barrier(2), []

    def remove(actor: User, username: str) -> None:
        together.wait(LIMIT)
        try:
            users.update_user(actor, username, admin=False)
        except errors.RemoveAdmin as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=remove, args=pair) for pair in ((admin, "root2"), (other, "admin"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert User.objects.filter(is_admin=True).count() == 1
    assert len(refused) == 1
