"""Every address of the API asked by every role, with bodies that would do something: who may not changes nothing of
others. Pages are asked by tests/pages/test_every_page.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from base.accounts import tokens
from base.core.errors import BadRequest, Forbidden
from base.core.values import local_time, milliseconds
from base.models import AuditEvent, User
from base.roles import ROLES, Permission, Role
from clusters.appointments import services as appointments
from clusters.appointments.queries import load_appointments
from clusters.models import Appointment, VcGrant, VirtualCluster
from clusters.users import services as users
from clusters.vcs import services as vcs
from clusters.vcs.grants import priorities
from tests import document
from tests.api.test_answers import busy, cases  # noqa: F401 - a fixture
from tests.builders import make_node
from tests.cluster import Cluster
from tests.conftest import PASSWORD
from tests.http import ApiClient, written

pytestmark = pytest.mark.django_db
# What those who may not do more may still do with the API: sign in, and what is their own.
EVERYBODY = {"POST /token", "POST /token/code", "POST /authn/basic/login"}
OWN = {"POST /jobs", "PUT /jobs/{job}", "POST /sweeps"}
OF_MANAGERS = {"PUT /virtual-clusters/{vc}/status"}
OF_OWN_TABLES = re.compile(r"auditevent|apitoken|django_session|axes_|last_login|portal_ticket")


@pytest.fixture
def carol(db: None) -> User:
    return User.objects.create_user("carol", PASSWORD)


@pytest.fixture
def manager(db: None, carol: User) -> User:
    """Of the virtual cluster nlp."""
    vc = VirtualCluster.objects.create(name="nlp", capacity=10, max_capacity=20)
    VcGrant.objects.create(vc=vc, username="carol", manages=True)
    return carol


@pytest.fixture
def auditor(db: None) -> User:
    user = User.objects.create_user("audrey", PASSWORD)
    User.objects.filter(pk=user.pk).update(is_auditor=True)
    return User.objects.get(pk=user.pk)


def operations() -> Iterator[tuple[str, str]]:
    for path, methods in document.document()["paths"].items():
        if path.startswith("/api/v1/") and "/notices" not in path:  # which are everybody's own
            yield from ((method, path) for method in methods if method != "get")


def foreign(writes: list[str]) -> list[str]:
    return [each for each in writes if not OF_OWN_TABLES.search(each)]


def test_no_role_changes_by_the_api_what_it_may_not(
    busy: Cluster,  # noqa: F811
    api: Callable[[User | None], ApiClient],
    auditor: User,
    alice: User,
) -> None:
    """Whoever asks owns nothing of what the addresses name."""
    vc = VirtualCluster.objects.get(name="vision")
    other = User.objects.create_user("carol", PASSWORD)
    manager = User.objects.create_user("mona", PASSWORD)
    VcGrant.objects.create(vc=vc, username="mona", manages=True)
    narrow = ApiClient()
    narrow.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(manager, 60, 'ci', scopes='jobs:submit jobs:stop')}")
    who = {
        "guest": (api(None), EVERYBODY),
        "user": (api(other), EVERYBODY | OWN),
        "auditor": (api(auditor), EVERYBODY),
        "manager": (api(manager), EVERYBODY | OWN | OF_MANAGERS),
        "narrow": (narrow, EVERYBODY | OWN),
    }
    did: dict[str, set[str]] = {name: set() for name in who}
    wrong = []
    for method, path in operations():
        key = f"{method.upper()} {path.removeprefix('/api/v1')}".replace("/user/{username}/jobs", "/jobs")
        for name, (client, allowed) in who.items():
            for url, body in list(cases(path, method))[:1]:
                with transaction.atomic(), written() as writes:
                    answer = getattr(client, method)(url, body, format="json")
                    transaction.set_rollback(True)
                if answer.status_code >= 500 or (foreign(writes) and key not in allowed):
                    wrong.append((name, method, url, answer.status_code, answer.content[:200], foreign(writes)[:1]))
                if foreign(writes) and key not in EVERYBODY:
                    did[name].add(key)
                if name == "auditor" and key not in allowed and answer.status_code not in (400, 403, 404, 409):
                    wrong.append((name, method, url, answer.status_code, answer.content[:200], []))
    assert wrong == []
    assert did["user"] == did["narrow"] == OWN and did["manager"] == OWN | OF_MANAGERS
    assert did["guest"] == did["auditor"] == set()


# --- what each may ----------------------------------------------------------------------------------------------------


def test_an_auditor_reads_private_jobs_and_what_everybody_did(
    busy: Cluster,  # noqa: F811
    api: Callable[[User | None], ApiClient],
    browse: Callable[[User | None], Any],
    auditor: User,
    carol: User,
    settings: Any,
) -> None:
    settings.JOB_PRIVACY = "owner"
    for address in ("/api/v1/user/alice/jobs/runs/config", "/api/v1/user/alice/jobs/runs/events"):
        assert [api(each).get(address).status_code for each in (carol, auditor)] == [403, 200], address
    [made] = api(auditor).get("/api/v1/audit?q=team&what=group made").json()["events"]
    assert made["who"] == "admin"
    assert api(carol).get("/api/v1/audit?q=team").json()["events"] == []
    page = browse(auditor).get("/users").content.decode()
    assert "Add user" not in page and 'href="/submit"' not in page


def test_a_token_of_an_auditor_without_admin_reads_no_more_than_a_user(auditor: User, alice: User) -> None:
    for scopes, status in (("jobs:read account:*", 403), ("admin:*", 200)):
        client = ApiClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(auditor, 60, scopes=scopes)}")
        assert client.get("/api/v1/hosts").status_code == status


def test_a_manager_has_the_users_and_settings_of_their_own_virtual_cluster_alone(
    manager: User, alice: User, bob: User, admin: User, browse: Callable[[User | None], Any]
) -> None:
    VirtualCluster.objects.create(name="vision", capacity=10, max_capacity=20)
    users.grant(manager, "nlp", "alice", 30)
    assert VcGrant.objects.get(username="alice", vc__name="nlp").priority == 30
    vcs.change_settings(manager, "nlp", {"user_gpus": 2})
    for refused in (
        lambda: users.grant(manager, "vision", "alice"),
        lambda: users.grant(manager, "nlp", "bob", manages=True),
        lambda: vcs.change_settings(manager, "nlp", {"gpu_guarantee": 4}),
        lambda: vcs.change_settings(manager, "nlp", {"profile": "pai"}),
        lambda: vcs.change_settings(manager, "vision", {"user_gpus": 2}),
        lambda: vcs.create_or_resize_vc(manager, "nlp", 50),
        lambda: vcs.delete_vc(manager, "nlp"),
    ):
        with pytest.raises(Forbidden):
            refused()
    users.withdraw(manager, "nlp", "alice")
    assert not VcGrant.objects.filter(username="alice", vc__name="nlp").exists()
    users.grant(admin, "nlp", "bob", manages=True)
    with pytest.raises(Forbidden):
        users.withdraw(manager, "nlp", "bob")
    client = browse(manager)
    assert "Save the settings" in client.get("/vcs/nlp").content.decode()
    channels = "/account/notices?vc=nlp"
    assert client.get(channels).status_code == 403 and channels not in client.get("/vcs/nlp").content.decode()
    assert channels in browse(admin).get("/vcs/nlp").content.decode()
    assert "Save the settings" not in client.get("/vcs/vision").content.decode()
    client.post("/vcs/nlp/users", {"username": "alice", "priority": "5", "action": "give"})
    assert VcGrant.objects.get(username="alice", vc__name="nlp").priority == 5
    assert client.post("/vcs/nlp/users", {"username": "nobody", "action": "give"}).status_code == 302
    assert client.post("/vcs/vision/users", {"username": "alice", "action": "give"}).status_code == 403


def test_a_manager_makes_appointments_within_the_guarantee_alone(
    manager: User, admin: User, alice: User, api: Callable[[User | None], ApiClient]
) -> None:
    """nlp is guaranteed half of six nodes with four GPUs each."""
    VirtualCluster.objects.filter(name="nlp").update(capacity=50, max_capacity=100)
    vision = VirtualCluster.objects.create(name="vision", capacity=10, max_capacity=20)
    for number in range(1, 7):
        make_node(f"n{number}", gpus=4)
    make_node("own", gpus=4, dedicated_to=vision)
    now, client = milliseconds(timezone.now()), api(manager)

    def at(hours: int) -> int:
        return now + hours * 3_600_000

    def ask(method: str = "post", url: str = "/api/v1/appointments", **values: Any) -> tuple[int, str]:
        whole = {"title": "paper", "virtualCluster": "nlp", "nodes": ["n1"], "begin": at(1), "end": at(3)}
        answer = getattr(client, method)(url, {**(whole if method == "post" else {}), **values}, format="json")
        return answer.status_code, answer.json().get("message", "")

    def urls(title: str) -> str:
        return f"/api/v1/appointments/{Appointment.objects.get(title=title).pk}"

    for values in (
        {"virtualCluster": "vision"},
        {"virtualCluster": ""},
        {"virtualCluster": "", "username": "carol"},
        {"virtualCluster": "default"},
        {"nodes": ["own"]},
    ):
        assert ask(**values)[0] == 403, values
    says = (
        "Virtual cluster nlp would have 16 GPUs by appointments then, and is guaranteed 12. An admin may give it more."
    )
    assert ask(nodes=["n1", "n2", "n3", "n4"]) == (403, says)
    assert ask(nodes=["n1", "n2"], title="first")[0] == 201
    assert [each.adds for each in load_appointments(timezone.now())] == [False], "or it would have both"
    # What others of the virtual cluster have at the time counts, whoever it is for.
    assert ask(nodes=["n3", "n4"], username="alice", begin=at(2), end=at(4)) == (403, says)
    assert ask(nodes=["n3", "n4"], title="later", begin=at(3), end=at(5))[0] == 201
    assert ask("put", urls("later"), begin=at(2)) == (403, says)
    assert ask("put", urls("first"), weekly=True, nodes=["n1", "n2"])[0] == 200
    week = 7 * 24
    assert ask(nodes=["n3", "n4"], begin=at(week + 2), end=at(week + 4)) == (403, says)
    for values in ({"virtualCluster": ""}, {"virtualCluster": "vision"}, {"nodes": ["n1", "n2", "n3", "n4"]}):
        assert ask("put", urls("first"), **values)[0] == 403, values
    # An admin gives more; what they gave is not the manager's to change, where it is of others.
    appointments.write(
        admin,
        {"title": "hush", "vc": "vision", "nodes": ["n5"], "begin": timezone.now(), "end": local_time(at(9), UTC)},
    )
    assert ask("put", urls("hush"), title="mine")[0] == ask("delete", urls("hush"))[0] == 403
    status, message = ask(nodes=["n5"], begin=at(6), end=at(7))
    assert status == 409 and "vision" not in message and "hush" not in message
    assert ask("delete", urls("later"))[0] == 200
    appointments.write(admin, {"title": "first"}, Appointment.objects.get(title="first").pk)
    assert all(each.adds for each in load_appointments(timezone.now()))
    narrow = ApiClient()
    narrow.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(manager, 60, scopes='jobs:submit account:*')}")
    assert narrow.delete(urls("first")).status_code == 403
    VcGrant.objects.filter(username="carol").update(manages=False)
    assert ask("delete", urls("first"))[0] == 403


def test_a_manager_sets_on_the_page_what_is_of_its_users_and_no_more(
    manager: User, alice: User, browse: Callable[[User | None], Any]
) -> None:
    vc = VirtualCluster.objects.get(name="nlp")
    before = {field.attname: getattr(vc, field.attname) for field in VirtualCluster._meta.concrete_fields}
    make_node("n1", gpus=8)
    client = browse(manager)
    page = client.get("/vcs/nlp").content.decode()
    asked = {"user_gpus": 2, "user_jobs": 3, "user_priority": 40, "share_half_life": 6, "notebook_minutes": 45}
    asked |= {"log_days": 9, "log_gigabytes": 10}
    others = {"gpu_guarantee": "4", "gpu_ceiling": "8", "grace": "600", "min_run": "60", "store_quota": "none"}
    others |= {"profile": "pai", "rdma": "1", "node": "n1"}
    assert {name for name in asked if f'name="{name}"' not in page} == set()
    assert {name for name in others if f'name="{name}"' in page} == set()
    assert client.post("/vcs/nlp/settings", {**asked, **others}).status_code == 302
    vc.refresh_from_db()
    after = {name: getattr(vc, name) for name in before}
    assert {name: value for name, value in after.items() if value != before[name]} == asked
    assert not vc.dedicated_nodes.exists()
    # Within the highest of all users there is one for each, which a manager gives up to the top.
    for priority, says in (("101", "whole number from 0 to 100"), ("100", "alice may use nlp")):
        form = {"username": "alice", "priority": priority, "action": "give"}
        assert says in client.post("/vcs/nlp/users", form, follow=True).content.decode()
    assert priorities("alice", is_admin=False)["nlp"] == 100
    assert client.post("/vcs/nlp/users", {"username": "alice", "manages": "1", "action": "give"}).status_code == 302
    assert not VcGrant.objects.filter(username="alice", manages=True).exists(), "only an admin makes managers"
    wrong = client.post("/vcs/nlp/settings", {"notebook_minutes": "0"})
    assert wrong.status_code == 400 and wrong.context["settings"].errors.keys() == {"notebook_minutes"}
    for form in ({"capacity": "50", "maximum": "50"}, {"capacity": "50", "maximum": "50", "action": "check"}):
        assert client.post("/vcs/nlp", form).status_code == 403


def test_who_manages_stays_when_grants_change(admin: User, manager: User) -> None:
    users.set_grants(admin, "carol", ["nlp"])
    assert VcGrant.objects.get(username="carol", vc__name="nlp").manages
    users.grant(admin, "nlp", "carol", manages=False)
    assert not VcGrant.objects.get(username="carol", vc__name="nlp").manages


def test_a_service_account_has_no_password_and_tokens_that_an_admin_makes(
    admin: User, alice: User, browse: Callable[[User | None], Any], api: Callable[[User | None], ApiClient]
) -> None:
    form = {"action": "add", "username": "ci", "owner": "alice", "active": "1"}
    assert browse(admin).post("/users", form).status_code == 302
    robot = User.objects.get(username="ci")
    assert (robot.owner, robot.has_usable_password()) == ("alice", False)
    made = {"name": "runner", "days": "30", "scope": ["jobs:read"]}
    token = browse(admin).post("/users/ci/tokens", made).context["token"]
    assert tokens.user_of(token) == robot
    assert browse(alice).post("/users/ci/tokens", made).status_code == 403
    assert browse(admin).get("/users/alice/tokens").status_code == 404
    asked = {"username": "ci", "password": PASSWORD}
    assert api(None).post("/api/v1/token", asked, format="json").status_code == 400
    with pytest.raises(BadRequest, match="service account"):
        users.update_user(admin, "ci", password=PASSWORD)
    for owner in ("nobody", "ci"):
        with pytest.raises(BadRequest, match="answer for"):
            users.create_user(admin, username="other", password="", owner=owner)
    id = robot.tokens.get().pk
    browse(admin).post(f"/users/ci/tokens/{id}/revoke")
    assert tokens.user_of(token) is None


def test_an_admin_makes_a_service_account_and_its_tokens_by_the_api(
    admin: User, alice: User, auditor: User, api: Callable[[User | None], ApiClient]
) -> None:
    url, new = "/api/v1/service-accounts", {"username": "ci", "owner": "alice", "role": "auditor"}
    made = api(admin).post(url, new, format="json")
    is_made = {**new, "enabled": True, "virtualCluster": ["default"]}
    assert (made.status_code, made.json()) == (201, is_made)
    assert not User.objects.get(username="ci").has_usable_password()
    assert api(auditor).get(url).json() == [is_made] and api(alice).get(url).status_code == 403
    for wrong in ({"username": "x"}, {**new, "username": "x", "owner": "ci"}, {**new, "password": PASSWORD}):
        assert api(admin).post(url, wrong, format="json").status_code == 400, wrong
    assert api(admin).post(url, new, format="json").status_code == 409
    asked = {"name": "runner", "days": 30, "scopes": ["jobs:read"]}
    for who, name, status in ((alice, "ci", 403), (auditor, "ci", 403), (admin, "alice", 404), (admin, "x", 404)):
        assert api(who).post(f"{url}/{name}/tokens", asked, format="json").status_code == status, (who, name)
        assert api(who).get(f"{url}/{name}/tokens").status_code == status, (who, name)
    for bad in ({"scopes": []}, {"scopes": ["jobs"]}, {"days": 0}, {"name": "a\u200bb"}):
        assert api(admin).post(f"{url}/ci/tokens", {**asked, **bad}, format="json").status_code == 400, bad
    token = api(admin).post(f"{url}/ci/tokens", asked, format="json").json()["token"]
    assert tokens.user_of(token) == User.objects.get(username="ci")
    [row] = api(admin).get(f"{url}/ci/tokens").json()
    assert (row["name"], row["scopes"]) == ("runner", "jobs:read") and token not in str(row)
    other = tokens.issue(alice, 60, "hers")
    hers = alice.tokens.get(name="hers").pk
    assert api(admin).delete(f"{url}/ci/tokens/{hers}").status_code == 404 and tokens.user_of(other) == alice
    assert [api(admin).delete(f"{url}/ci/tokens/{row['id']}").status_code for _ in range(2)] == [200, 404]
    assert tokens.user_of(token) is None
    assert api(admin).delete("/api/v1/user/ci").status_code == 200 and api(admin).get(url).json() == []


def test_an_admin_replaces_the_rules_of_sign_in_by_the_api(
    admin: User, alice: User, auditor: User, manager: User, settings: Any, api: Callable[[User | None], ApiClient]
) -> None:
    settings.SIGN_IN = {"lab": None}
    url = "/api/v1/sign-in/rules"
    staff = {"provider": "lab", "group": "staff", "role": "auditor", "virtualClusters": ["nlp"], "priority": 30}
    rules = [{**staff, "letsIn": True}, {**dict.fromkeys(("provider", "group", "role"), ""), "letsIn": False}]
    rules[1] |= {"virtualClusters": [], "priority": None}
    answer = api(admin).put(url, {"rules": [staff, {"letsIn": False}]}, format="json")
    assert (answer.status_code, answer.json()) == (200, {"rules": rules})
    for who in (alice, auditor, manager):
        assert [api(who).get(url).status_code, api(who).put(url, {"rules": []}, format="json").status_code] == [
            403,
            403,
        ]
    wrong = {
        "Rule 2: A rule that gives a role names a provider and a group": {"role": "admin"},
        "Rule 2: There is no provider": {"provider": "x"},
        "Rule 2: A rule that lets nobody in gives no role": {"letsIn": False, "virtualClusters": ["nlp"]},
        "Rule 2: A group has": {"group": "a\u0007"},
        "Rule 2": {"virtualClusters": ["none"]},
        "priority": {"priority": 101},
        "letsin": {"letsin": True},
    }
    for says, rule in wrong.items():
        answer = api(admin).put(url, {"rules": [{}, rule]}, format="json")
        assert answer.status_code == 400 and says in answer.json()["message"], (says, answer.json())
    for body in ({}, {"rules": {}}, {"rules": [{}] * 201}, {"rules": ["x"]}, {"rules": None}):
        assert api(admin).put(url, body, format="json").status_code == 400, str(body)[:80]
    assert api(admin).get(url).json() == {"rules": rules}, "nothing of a list that is refused is kept"
    assert AuditEvent.objects.filter(action="sign-in rules replaced").count() == 1


def test_the_guide_has_the_table_of_roles() -> None:
    guide = (Path(settings.BASE_DIR) / "docs" / "run" / "roles.md").read_text()
    columns = (Role.OWNER, Role.USER, Role.MANAGER, Role.AUDITOR, Role.ADMIN)
    rows = [
        f"| {each.value.says} | {' | '.join('x' if role in each.value.roles else '' for role in columns)} |"
        for each in Permission
    ]
    assert [line for line in guide.splitlines() if line in rows] == rows
    assert [role for role in ROLES if f"**{role}**" not in guide] == []
