"""The page on which admins write the rules of sign-in, try them, and see who gains and loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from base.models import AuditEvent, Identity, SignInRule, User
from clusters.models import VirtualCluster
from clusters.users import entry, services
from tests.integration.test_entry import said
from tests.oidc_provider import SECRET, OidcProvider, oidc_provider

pytestmark = pytest.mark.django_db
Browse = Callable[[User | None], Client]
PATHS = ("/admin/sign-in", "/admin/sign-in/rules/new", "/admin/sign-in/rules/1", "/admin/sign-in/rules/1/remove")


@pytest.fixture
def lab(db: None, settings: Any) -> Iterator[OidcProvider]:
    for name in ("nlp", "vision"):
        VirtualCluster.objects.create(name=name, capacity=10, max_capacity=10)
    with oidc_provider() as provider:
        settings.SIGN_IN = provider.settings()
        yield provider


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def test_they_are_for_admins_alone(browse: Browse, alice: User, lab: OidcProvider) -> None:
    SignInRule.objects.create(pk=1, place=1)
    for path in PATHS:
        for post in (False, True):
            client = browse(alice)
            assert (client.post(path) if post else client.get(path)).status_code == 403, path
            guest = browse(None)
            answer = guest.post(path) if post else guest.get(path)
            assert (answer.status_code, answer.headers["Location"][:12]) == (302, "/login?next="), path
    assert SignInRule.objects.count() == 1


def test_a_rule_is_written_shown_changed_moved_and_removed(browse: Browse, admin: User, lab: OidcProvider) -> None:
    client = browse(admin)
    form = {"provider": "lab", "group": " vision ", "lets_in": "1", "vcs": ["vision", "default"], "priority": "50"}
    assert client.post("/admin/sign-in/rules/new", form).headers["Location"] == "/admin/sign-in"
    rule = SignInRule.objects.get()
    assert (rule.group, rule.vcs, rule.priority, rule.role) == ("vision", ["vision", "default"], 50, "")
    page = text(client.get("/admin/sign-in"))
    assert 'priority up to <b class="fw-medium">50</b>' in page and "Lab account" in page
    client.post("/admin/sign-in/rules/new", {"provider": "lab", "role": "admin", "vcs": "vision"})
    second = SignInRule.objects.exclude(pk=rule.pk).get()
    assert (second.lets_in, second.role, second.vcs) == (False, "", []), "who is not let in is given nothing"
    client.post("/admin/sign-in", {"raise": second.pk})
    assert [each.pk for each in SignInRule.objects.order_by("place")] == [second.pk, rule.pk]
    form["priority"] = ""
    client.post(f"/admin/sign-in/rules/{rule.pk}", form)
    assert SignInRule.objects.get(pk=rule.pk).priority is None
    assert "Remove the rule for vision?" in text(client.get(f"/admin/sign-in/rules/{rule.pk}/remove"))
    client.post(f"/admin/sign-in/rules/{rule.pk}/remove")
    assert client.get(f"/admin/sign-in/rules/{rule.pk}").status_code == 404
    done = [row.action for row in AuditEvent.objects.filter(actor="admin").order_by("id")]
    assert done == [*["sign-in rule saved"] * 2, "sign-in rule moved", "sign-in rule saved", "sign-in rule removed"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"priority": "high"}, "Highest priority: give a whole number, or nothing."),
        ({"priority": "101"}, "The highest priority is a whole number from 0 to 100, or nothing."),
        ({"role": "admin", "group": ""}, "A rule that gives a role names a provider and a group"),
        ({"role": "king"}, "There is no role king."),
        ({"vcs": "gone"}, "Virtual cluster gone not found."),
        ({"provider": "x" * 400}, "There is no provider"),
    ],
)
def test_what_is_wrong_is_told_and_what_was_typed_stays(
    browse: Browse, admin: User, lab: OidcProvider, wrong: dict[str, str], says: str
) -> None:
    form = {"provider": "lab", "group": "bikes", "lets_in": "1", "vcs": "vision", **wrong}
    for more in ({}, {"show": "1"}):
        answer = browse(admin).post("/admin/sign-in/rules/new", {**form, **more})
        assert answer.status_code == 400 and says in answer.context["error"]
        assert answer.context["rule"].group == form["group"]
    assert not SignInRule.objects.exists()


def test_who_gains_and_who_loses_is_shown_before_it_is_saved(browse: Browse, admin: User, lab: OidcProvider) -> None:
    rule = SignInRule.objects.create(place=1, provider="lab", group="vision", vcs=["vision"])
    entry.enter(said("vision"))
    client = browse(admin)
    form = {"provider": "lab", "group": "vision", "lets_in": "1", "vcs": "nlp", "show": "1"}
    page = text(client.post(f"/admin/sign-in/rules/{rule.pk}", form))
    assert '<b class="fw-medium">mira</b> gains VC nlp; loses VC vision' in page
    assert SignInRule.objects.get().vcs == ["vision"]
    page = text(client.post(f"/admin/sign-in/rules/{rule.pk}", {**form, "lets_in": ""}))
    assert "loses sign-in, VC vision" in page
    page = text(client.get(f"/admin/sign-in/rules/{rule.pk}/remove"))
    assert "1 person loses something at their next sign-in." in page
    page = text(client.post("/admin/sign-in/rules/new", {**form, "group": "bikes"}))
    assert "Nobody who has signed in before gains or loses anything." in page


def test_rules_are_tried_on_a_name_and_groups_and_change_nothing(
    browse: Browse, admin: User, lab: OidcProvider
) -> None:
    for place, (group, vcs, priority) in enumerate((("vision", ["vision"], 5), ("", ["default", "nlp"], None)), 1):
        SignInRule.objects.create(place=place, provider="lab", group=group, vcs=vcs, priority=priority)
    mira = entry.enter(said("vision", "bikes"))
    services.set_grants(admin, "mira", ["nlp", "vision"])
    client = browse(admin)
    page = text(client.get("/admin/sign-in?provider=lab&user=mira"))
    assert 'value="vision, bikes"' in page and "fits: group vision" in page and "fits too, adds default, nlp" in page
    page = text(client.get("/admin/sign-in?provider=lab&user=mira&groups=bikes"))
    assert "not in vision" in page and "fits: everybody" in page
    page = text(client.get("/admin/sign-in?provider=lab&user=nobody-here&groups=" + "x," * 5000))
    assert "nobody-here would get" in page
    assert text(client.get("/admin/sign-in?provider=nowhere&user=%01&groups=%01"))
    assert Identity.objects.get(user=mira).groups == ["vision", "bikes"]


def test_what_was_given_by_hand_is_told_apart(browse: Browse, admin: User, lab: OidcProvider) -> None:
    SignInRule.objects.create(place=1, provider="lab", vcs=["vision"])
    entry.enter(said())
    services.set_grants(admin, "mira", ["nlp", "vision"])
    page = text(browse(admin).get("/admin/sign-in?provider=lab&user=mira"))
    assert "mira also has nlp, given by hand. Rules never take that away. Rules gave" in page


def test_a_provider_is_tested(browse: Browse, admin: User, lab: OidcProvider) -> None:
    client = browse(admin)
    client.post("/admin/sign-in", {"test": "lab"})
    assert "Lab account answers in " in text(client.get("/admin/sign-in"))
    lab.lies["answers"] = {"/keys": (200, '{"keys": 1}')}
    client.post("/admin/sign-in", {"test": "lab"})
    page = text(client.get("/admin/sign-in"))
    assert "Lab account cannot sign anybody in: its keys cannot be read." in page
    assert "fails since" in page
    assert client.post("/admin/sign-in", {"test": "nowhere", "raise": "x"}).status_code == 302


def test_no_page_shows_a_secret(browse: Browse, admin: User, lab: OidcProvider, settings: Any) -> None:
    now = timezone.now()
    Identity.objects.create(user=admin, provider="gone", issuer="x", subject="y", seen_at=now, groups=["<b>"])
    client = browse(admin)
    for path in ("/admin/sign-in", "/account", "/login", "/admin/sign-in?provider=lab&user=admin"):
        assert SECRET not in client.get(path).content.decode()
    assert SECRET not in repr(settings.SIGN_IN)
