"""Users: list, add, edit, delete, and import with a dry run. For admins only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from playwright.sync_api import expect

from base.accounts import tokens
from base.core.signals import LiveJobs
from base.files.store import open_store
from base.models import AuditEvent, User
from clusters.models import VcGrant, VirtualCluster
from clusters.users import services as users
from clusters.vcs.grants import most_priority
from tests.builders import make_job, make_node
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]
SECRET = "hunter2-hunter2"
HEADER = "username,password,admin,virtual cluster,githubPAT\n"


@pytest.fixture
def nlp(db: None) -> VirtualCluster:
    return VirtualCluster.objects.create(name="nlp", capacity=10, max_capacity=20)


def names(client: Client, url: str = "/users") -> list[str]:
    return [row.user.username for row in client.get(url).context["rows"]]


def text(client: Client, url: str) -> str:
    return client.get(url).content.decode()


def grants(username: str) -> set[str]:
    return set(VcGrant.objects.filter(username=username).values_list("vc__name", flat=True))


def upload(client: Client, content: str | bytes, name: str = "people.csv") -> object:
    data = content.encode() if isinstance(content, str) else content
    return client.post("/users", {"action": "check", "file": SimpleUploadedFile(name, data)})


@pytest.mark.parametrize("path", ["/users", "/users/alice", "/users/alice/delete", "/users?template=csv"])
def test_it_is_for_admins(browse: Browse, alice: User, path: str) -> None:
    for answer in (browse(alice).get(path), browse(alice).post(path, {"action": "add", "role": "admin"})):
        assert answer.status_code == 403
    assert browse(None).get(path).headers["Location"].startswith("/login?next=")
    alice.refresh_from_db()
    assert not alice.is_admin
    assert 'href="/users"' not in text(browse(alice), "/")


def test_it_lists_who_there_is_and_what_they_run(browse: Browse, admin: User, alice: User, nlp: VirtualCluster) -> None:
    node = make_node(gpus=8)
    make_job("alice", state="RUNNING", gpus=2, tasks=2, node=node)
    make_job("alice")
    VcGrant.objects.create(vc=nlp, username="alice")
    page = browse(admin).get("/users")
    assert page.context["facts"] == {"people": 2, "admins": 1, "now": 1}
    first, second = page.context["rows"]
    assert (first.user.username, first.user.is_admin) == ("admin", True)
    assert (second.vcs, second.jobs) == (["default", "nlp"], LiveJobs(waiting=1, running=1, gpus=4))
    assert second.seen_at is None
    tokens.user_of(tokens.issue(alice, 60))
    assert browse(admin).get("/users").context["rows"][1].seen_at is not None


def test_it_finds_and_filters(browse: Browse, admin: User, alice: User, bob: User, nlp: VirtualCluster) -> None:
    VcGrant.objects.create(vc=nlp, username="bob")
    User.objects.filter(username="alice").update(email="wonder@land.example")
    client = browse(admin)
    assert names(client, "/users?q=WONDER") == ["alice"]
    assert names(client, "/users?vc=nlp") == ["admin", "bob"]
    assert names(client, "/users?q=al&vc=nlp") == []
    assert "No user matches" in text(client, "/users?q=%3Cscript%3E")
    assert "<script>alert" not in text(client, "/users?q=%3Cscript%3Ealert%00")


def test_it_pages_by_name_both_ways(browse: Browse, admin: User) -> None:
    User.objects.bulk_create(User(username=f"u{number:03}", password="!") for number in range(120))
    client = browse(admin)
    first = client.get("/users")
    second = client.get(first.context["older"])
    third = client.get(second.context["older"])
    shown = [row.user.username for page in (first, second, third) for row in page.context["rows"]]
    assert shown == ["admin", *(f"u{number:03}" for number in range(120))]
    assert (third.context["first"], third.context["last"], third.context["total"]) == (101, 121, 121)
    assert not third.context["older"]
    assert names(client, third.context["newer"]) == [row.user.username for row in second.context["rows"]]


def test_its_queries_do_not_grow(
    browse: Browse, admin: User, alice: User, nlp: VirtualCluster, count_queries: Count
) -> None:
    client = browse(admin)
    client.get("/users")
    few = count_queries(lambda: client.get("/users"))
    for number in range(30):
        user = User.objects.create(username=f"user{number}")
        VcGrant.objects.create(vc=nlp, username=user.username)
        make_job(user.username, state="RUNNING")
    assert count_queries(lambda: client.get("/users")) == few
    assert few <= 16


def test_it_adds_a_user(browse: Browse, admin: User, nlp: VirtualCluster) -> None:
    form = {"action": "add", "username": "lena", "password": SECRET, "email": "lena@x.org", "vcs": ["nlp"]}
    answer = browse(admin).post("/users", form, follow=True).content.decode()
    assert '<a href="/users/lena">lena</a> was added.' in answer
    lena = User.objects.get(username="lena")
    assert (lena.email, lena.is_admin, lena.check_password(SECRET)) == ("lena@x.org", False, True)
    assert grants("lena") == {"default", "nlp"}


def deleted(admin: User, username: str, folder: str = "") -> None:
    """An account of this name that is gone, with an ended job and, in ``folder``, a file."""
    make_job(username, state="SUCCEEDED")
    if folder:
        open_store().write(f"{folder}/{username}/old", [b"x"])
    users.delete_user(admin, username)


LEFT = "An account alice was deleted before, and what it left is now theirs: 1 ended job with logs"


@pytest.mark.parametrize(("folder", "files"), [("/users", " and files."), ("/Output", " and files."), ("", ".")])
def test_who_makes_an_account_of_a_deleted_users_name_is_told_what_it_gets(
    browse: Browse, admin: User, alice: User, folder: str, files: str, settings: Any, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    deleted(admin, "alice", folder)
    form = {"action": "add", "username": "alice", "password": SECRET}
    assert LEFT + files in browse(admin).post("/users", form, follow=True).content.decode()
    made = AuditEvent.objects.get(action="user made", object="alice")
    assert made.data["left"] == {"jobs": 1, "files": bool(folder)}


def test_an_import_says_it_before_and_after(
    browse: Browse, admin: User, alice: User, bob: User, settings: Any, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    deleted(admin, "alice")
    users.delete_user(admin, "bob")  # who left nothing
    client = browse(admin)
    checked = upload(client, HEADER + f"alice,{SECRET},,,\nbob,{SECRET},,,\n")
    assert checked.content.decode().count("was deleted before") == 1  # type: ignore[attr-defined]
    form = {"action": "import", "sealed": checked.context["sealed"]}  # type: ignore[attr-defined]
    assert LEFT in client.post("/users", form, follow=True).content.decode()
    left = [event.data.get("left") for event in AuditEvent.objects.filter(action="user made").order_by("object")]
    assert left == [{"jobs": 1, "files": False}, None]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"username": "alice"}, "already exists"),
        ({"username": "a b"}, "cannot be used"),
        ({"password": "short"}, "at least 6 characters"),
        ({"email": "nowhere"}, "is not an e-mail address"),
        ({"vcs": ["gone"]}, "Virtual cluster gone not found."),
    ],
)
def test_it_says_why_a_user_was_not_added_and_keeps_what_was_typed(
    browse: Browse, admin: User, alice: User, change: dict[str, object], said: str
) -> None:
    form = {"action": "add", "username": "lena", "password": SECRET, "email": "lena@x.org", **change}
    answer = browse(admin).post("/users", form)
    assert answer.status_code in (400, 409)
    assert said in answer.context["form"].error
    assert f'value="{form["username"]}"' in answer.content.decode()
    assert SECRET not in answer.content.decode()
    assert User.objects.count() == 2


def edit(**change: object) -> dict[str, object]:
    return {"email": "", "password": "", "active": "1", "with_vcs": "1", **change}


def test_it_changes_email_password_and_grants(browse: Browse, admin: User, alice: User, nlp: VirtualCluster) -> None:
    token = tokens.issue(alice, 3600)
    client = browse(admin)
    assert "A new one ends 1 API token and all sessions of alice." in text(client, "/users/alice")
    client.post("/users/alice", edit(email="a@x.org", vcs=["nlp"]))
    assert tokens.user_of(token) == alice
    client.post("/users/alice", edit(email="a@x.org", password=SECRET, vcs=["nlp"]))
    alice.refresh_from_db()
    assert (alice.email, alice.check_password(SECRET), grants("alice")) == ("a@x.org", True, {"default", "nlp"})
    assert tokens.user_of(token) is None
    client.post("/users/alice", edit(email="a@x.org"))
    assert grants("alice") == {"default"}


def test_it_says_how_far_up_a_user_may_set_priorities(
    browse: Browse, admin: User, alice: User, nlp: VirtualCluster
) -> None:
    client = browse(admin)
    client.post("/users/alice", edit(vcs=["nlp"]))
    VirtualCluster.objects.filter(name="nlp").update(user_priority=7)
    shown = text(client, "/users/alice")
    assert 'placeholder="0, as all its users"' in shown and 'placeholder="7, as all its users"' in shown
    client.post("/users/alice", edit(vcs=["nlp"], priority_nlp=" 40", priority_default=""))
    assert 'name="priority_nlp" value="40"' in text(client, "/users/alice")
    assert most_priority("alice", "nlp", is_admin=False) == 40
    client.post("/users/alice", edit(vcs=["nlp"], email="a@x.org"))
    assert most_priority("alice", "nlp", is_admin=False) == 40, "a form without the field leaves it"
    for typed in ("-1", "101", "high", "9" * 30):
        answer = client.post("/users/alice", edit(vcs=["nlp"], email="b@x.org", priority_nlp=typed))
        assert (answer.status_code, "a whole number from 0 to 100" in answer.content.decode()) == (400, True)
        assert f'value="{typed}"' in answer.content.decode(), "what was typed stays"
    assert User.objects.get(username="alice").email == "a@x.org", "nothing was saved"
    client.post("/users/alice", edit(vcs=["nlp"], priority_nlp=""))
    assert most_priority("alice", "nlp", is_admin=False) == 7
    client.post("/users/alice", edit(vcs=[], priority_nlp="9"))
    assert grants("alice") == {"default"}, "of what is taken away nothing is read"


def test_it_limits_what_the_files_of_a_user_take(browse: Browse, admin: User, alice: User) -> None:
    client, form = browse(admin), {"email": "", "active": "1"}
    for typed, quota in (("2g", 2 << 30), ("none", -1), ("1.5k", 1536), ("", None)):
        client.post("/users/alice", {**form, "quota": typed})
        alice.refresh_from_db()
        assert alice.store_quota == quota
    client.post("/users/alice", {**form, "quota": "2g"})
    assert 'name="quota" value="2g"' in text(client, "/users/alice")
    for typed in ("a lot", "-5", "9999999p"):
        answer = client.post("/users/alice", {**form, "quota": typed})
        assert (answer.status_code, "give a size such as 100g" in answer.content.decode()) == (400, True)
    client.post("/users/alice", form)
    alice.refresh_from_db()
    assert alice.store_quota == 2 << 30, "a form without the field leaves it"


def test_it_makes_an_admin_and_takes_the_role_away(
    browse: Browse, admin: User, alice: User, nlp: VirtualCluster
) -> None:
    VcGrant.objects.create(vc=nlp, username="alice")
    client = browse(admin)
    client.post("/users/alice", edit(role="admin", vcs=["nlp"]))
    alice.refresh_from_db()
    assert alice.is_admin
    assert 'name="with_vcs"' not in text(client, "/users/alice")
    client.post("/users/alice", {"active": "1", "email": ""})
    alice.refresh_from_db()
    assert not alice.is_admin
    assert "nlp" in grants("alice")


def test_the_last_admin_keeps_the_role(browse: Browse, admin: User, alice: User) -> None:
    client = browse(admin)
    answer = client.post("/users/admin", edit())
    assert answer.status_code == 403
    assert "last admin" in answer.context["form"].error
    User.objects.filter(username="alice").update(is_admin=True)
    assert client.post("/users/admin", edit()).headers["Location"] == "/account"
    assert client.get("/users").status_code == 403


def test_nobody_disables_himself_or_changes_his_password_here(browse: Browse, admin: User) -> None:
    browse(admin).post("/users/admin", {"role": "admin", "password": SECRET})
    admin.refresh_from_db()
    assert admin.is_active
    assert not admin.check_password(SECRET)


def test_it_disables_a_user_who_then_is_out(browse: Browse, admin: User, alice: User) -> None:
    token, hers = tokens.issue(alice, 3600), browse(alice)
    client = browse(admin)
    client.post("/users/alice", edit(active=""))
    assert tokens.user_of(token) is None
    assert hers.get("/account").status_code == 302
    assert "disabled" in text(client, "/users")
    client.post("/users/alice", edit())
    assert User.objects.get(username="alice").is_active


def test_it_deletes_only_after_the_question_that_names_the_effect(browse: Browse, admin: User, alice: User) -> None:
    make_job("alice", state="SUCCEEDED")
    job = make_job("alice", state="RUNNING")
    tokens.issue(alice, 3600)
    client = browse(admin)
    assert 'alice has <a href="/jobs?username=alice">1 job that has not ended</a>.' in text(
        client, "/users/alice/delete"
    )
    assert client.post("/users/alice/delete").status_code == 409
    job.state = "STOPPED"
    job.save()
    question = text(client, "/users/alice/delete")
    assert "alice can no longer sign in, 1 API token ends. No job of theirs runs; 2 ended jobs stay" in question
    assert "Whoever gets an account named alice later gets these jobs, with their logs, and these files." in question
    assert User.objects.filter(username="alice").exists()
    assert client.post("/users/alice/delete").headers["Location"] == "/users"
    assert not User.objects.filter(username="alice").exists()


def test_it_deletes_no_admin(browse: Browse, admin: User) -> None:
    client = browse(admin)
    assert "admin is an admin" in text(client, "/users/admin/delete")
    assert client.post("/users/admin/delete").status_code == 403


def test_an_unknown_user_is_not_found(browse: Browse, admin: User) -> None:
    for path in ("/users/nobody", "/users/nobody/delete", "/users/%00"):
        assert browse(admin).get(path).status_code == 404


def test_it_says_what_a_file_would_do_and_writes_nothing(browse: Browse, admin: User, nlp: VirtualCluster) -> None:
    answer = upload(browse(admin), HEADER + f"marta,{SECRET},false,nlp,\nroot2,{SECRET},true,,\n")
    shown = " ".join(answer.content.decode().split())  # type: ignore[attr-defined]
    assert "Import people.csv: what it would do" in shown
    assert "new user, may use default, nlp; the password is in the file" in shown
    assert "new admin, may use every virtual cluster" in shown
    assert "Import 2 users" in shown
    assert SECRET not in shown
    assert User.objects.count() == 1


def test_it_imports_what_was_checked(browse: Browse, admin: User, nlp: VirtualCluster) -> None:
    client = browse(admin)
    checked = upload(client, "\ufeff" + HEADER + f"marta,{SECRET},false,nlp,\n")
    form = {"action": "import", "sealed": checked.context["sealed"]}  # type: ignore[attr-defined]
    assert "1 user was added." in client.post("/users", form, follow=True).content.decode()
    assert User.objects.get(username="marta").check_password(SECRET)
    assert grants("marta") == {"default", "nlp"}
    again = client.post("/users", form)
    assert again.status_code == 409
    assert "already exists" in again.content.decode()


def test_one_bad_line_keeps_the_file_out_and_is_named(browse: Browse, admin: User) -> None:
    answer = upload(browse(admin), HEADER + f"marta,{SECRET},,,\nadmin,{SECRET},,,\nj doe,{SECRET},,,\n")
    shown = answer.content.decode()  # type: ignore[attr-defined]
    assert "2 of 3 lines must be corrected." in shown
    assert 'name="sealed"' not in shown
    assert [row.line for row in answer.context["result"].rows if row.problem] == [3, 4]  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"a,b\n1,2\n", b"x" * 1_000_001])
def test_it_refuses_a_file_that_is_none(browse: Browse, admin: User, content: bytes) -> None:
    answer = upload(browse(admin), content)
    assert answer.status_code == 400  # type: ignore[attr-defined]
    assert answer.context["import_error"]  # type: ignore[attr-defined]
    assert browse(admin).post("/users", {"action": "check"}).status_code == 400


def test_what_one_admin_checked_no_other_imports(browse: Browse, admin: User) -> None:
    other = User.objects.create_user("other", SECRET, is_admin=True)
    checked = upload(browse(admin), HEADER + f"marta,{SECRET},,,\n")
    for sealed in (checked.context["sealed"], "", "x"):  # type: ignore[attr-defined]
        answer = browse(other).post("/users", {"action": "import", "sealed": sealed})
        assert answer.status_code == 400
    assert not User.objects.filter(username="marta").exists()


def test_the_template_can_be_imported_as_it_is(browse: Browse, admin: User) -> None:
    file = browse(admin).get("/users?template=csv")
    assert "users.csv" in file.headers["Content-Disposition"]
    assert "Import 1 user" in upload(browse(admin), file.content).content.decode()  # type: ignore[attr-defined]


@pytest.mark.browser
@pytest.mark.parametrize("script", [True, False])
def test_an_admin_adds_edits_and_deletes_in_a_browser(tab: Callable[..., Tab], admin: User, script: bool) -> None:
    shown = tab(admin, java_script_enabled=script)
    page = shown.open("/users")
    page.fill("#u-name", "lena")
    page.fill("#u-password", SECRET)
    page.get_by_role("button", name="Add user").click()
    page.get_by_role("link", name="Edit lena").click()
    page.get_by_role("radio", name="admin May use").check()
    page.get_by_role("button", name="Save lena").click()
    expect(page.locator("main")).to_contain_text("lena was saved.")
    User.objects.filter(username="lena").update(is_admin=False)
    page.get_by_role("link", name="lena", exact=True).click()
    page.get_by_role("link", name="Delete").click()
    if script:
        expect(page.locator("#dialog [data-close]")).to_be_focused()
    page.get_by_role("button", name="Delete lena").click()
    expect(page.locator("main")).to_contain_text("The user lena was deleted.")


@pytest.mark.browser
def test_a_file_is_shown_and_imported_in_a_browser(tab: Callable[..., Tab], admin: User) -> None:
    shown = tab(admin)
    page = shown.open("/users")
    bad = {"name": "bad.csv", "mimeType": "text/csv", "buffer": f"{HEADER}a b,{SECRET},,,\n".encode()}
    page.set_input_files("#u-file", bad)
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("#csv")).to_contain_text("refused")
    shown.check_here("refused lines")
    good = {"name": "good.csv", "mimeType": "text/csv", "buffer": f"{HEADER}marta,{SECRET},,,\n".encode()}
    page.set_input_files("#u-file", good)
    page.get_by_role("button", name="Show what it would do").click()
    shown.check_here("a dry run")
    page.get_by_role("button", name="Import 1 user").click()
    expect(page.locator("main")).to_contain_text("1 user was added.")
