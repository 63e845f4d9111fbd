"""What rules of sign-in give to an account, and what they take back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from base.accounts.providers.said import Said
from base.core.errors import BadRequest, NotLetIn, RemoveAdmin, UnknownVirtualCluster
from base.models import AuditEvent, Identity, SignInRule, User
from base.roles import Role
from clusters.models import VirtualCluster
from clusters.users import entry, entry_rules, groups, services
from clusters.users.queries import load_user
from clusters.vcs.grants import grants_of, managed_by, priorities
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _some_vcs(db: None) -> None:
    for name in ("nlp", "vision"):
        VirtualCluster.objects.create(name=name, capacity=10, max_capacity=10)


def rule(group: str = "", *vcs: str, **more: object) -> SignInRule:
    place = SignInRule.objects.count() + 1
    return SignInRule.objects.create(place=place, provider="lab", group=group, vcs=list(vcs), **more)


def said(*groups: str, subject: str = "1", username: str = "mira", issuer: str = "https://id.lab") -> Said:
    return Said("lab", "Lab account", issuer, subject, username, groups=groups)


def test_a_list_of_rules_reads_the_virtual_clusters_once(admin: User) -> None:
    asked = []
    for number in (2, 20):
        with CaptureQueriesContext(connection) as queries:
            entry_rules.replace_rules(admin, [SignInRule(vcs=["nlp", "vision"]) for _ in range(number)])
        asked.append(len(queries))
    assert asked[0] == asked[1]


def vcs() -> list[str]:
    record = load_user("mira")
    assert record is not None
    return list(record.vcs)


def test_what_groups_gave_goes_with_them_and_what_an_admin_gave_stays(admin: User) -> None:
    rule("vision", "vision", "nlp", priority=50)
    rule()
    entry.enter(said("vision"))
    assert vcs() == ["default", "nlp", "vision"]
    assert priorities("mira", is_admin=False) == {"default": 0, "nlp": 50, "vision": 50}
    services.set_grants(admin, "mira", ["vision"])
    services.set_grants(admin, "mira", ["vision", "nlp"])
    entry.enter(said())
    assert vcs() == ["default", "nlp"], "nlp was taken and given again by hand"
    entry.enter(said("vision"))
    assert vcs() == ["default", "nlp", "vision"]
    assert Identity.objects.get().vcs == ["vision"]
    groups.remove_member(admin, "mira", "vision")
    groups.add_member(admin, "mira", "vision")
    entry.enter(said())
    assert vcs() == ["default", "nlp", "vision"]


def test_who_was_made_manager_of_what_a_rule_gave_keeps_it_until_an_admin_ends_that(admin: User) -> None:
    rule("vision", "vision", "nlp", priority=50)
    rule()
    entry.enter(said("vision"))
    services.grant(admin, "vision", "mira", 60, manages=True)
    entry.enter(said())
    assert vcs() == ["default", "vision"] and managed_by("mira") == ["vision"]
    assert Identity.objects.get().vcs == []
    entry.enter(said("vision"))
    services.grant(admin, "nlp", "mira", manages=True)
    services.grant(admin, "nlp", "mira", manages=False)
    entry.enter(said())
    assert vcs() == ["default", "vision"], "nlp was the rule's again when they no longer managed it"


def test_what_is_withdrawn_and_given_again_by_hand_stays(admin: User) -> None:
    rule("vision", "vision")
    rule()
    entry.enter(said("vision"))
    services.withdraw(admin, "vision", "mira")
    services.grant(admin, "vision", "mira")
    entry.enter(said())
    assert vcs() == ["default", "vision"]


def test_a_priority_that_an_admin_gave_is_not_changed_and_one_of_a_rule_follows_it(admin: User) -> None:
    given = rule("", "vision", "default", priority=10)
    entry.enter(said())
    assert priorities("mira", is_admin=False) == {"default": 10, "vision": 10}
    given.priority = 20
    given.save()
    services.set_grants(admin, "mira", ["vision", "nlp"], {"nlp": 5})
    entry.enter(said())
    assert priorities("mira", is_admin=False) == {"default": 20, "nlp": 5, "vision": 20}


def test_two_providers_of_one_user_take_back_only_what_the_other_does_not_give() -> None:
    rule("vision", "vision")
    rule("nlp", "nlp", "vision")
    user = entry.enter(said("vision"))
    entry.link(user, said("nlp", subject="2"))
    assert vcs() == ["default", "nlp", "vision"]
    with pytest.raises(NotLetIn):
        entry.enter(said())
    assert vcs() == ["default", "nlp", "vision"]
    with pytest.raises(NotLetIn):
        entry.enter(said(subject="2"))
    assert vcs() == ["default"]


def test_who_is_in_no_group_any_more_is_not_let_in_and_loses_what_rules_gave() -> None:
    rule("vision", "vision")
    entry.enter(said("vision"))
    with pytest.raises(NotLetIn, match="as mira, but no rule lets you in here. Ask the admin of this cluster."):
        entry.enter(said("bikes"))
    assert vcs() == ["default"]
    assert Identity.objects.get().groups == ["bikes"]
    with pytest.raises(NotLetIn):
        entry.enter(said("bikes", subject="2", username="paul"))
    assert not User.objects.filter(username="paul").exists()


def test_a_virtual_cluster_that_is_gone_is_not_given() -> None:
    rule("", "vision", "nlp")
    VirtualCluster.objects.filter(name="nlp").delete()
    entry.enter(said())
    assert vcs() == ["default", "vision"]


def test_admins_are_made_by_a_rule_alone_and_end_with_it(admin: User) -> None:
    rule("cluster-admins", role="admin")
    rule("", "vision")
    assert not entry.enter(said("vision", "Cluster-Admins", "admin", "admins")).is_admin
    user = entry.enter(said("cluster-admins"))
    assert user.is_admin and grants_of(["mira"])["mira"].keys() == {"default"}
    assert not entry.enter(said()).is_admin
    assert vcs() == ["default", "vision"]
    services.update_user(admin, "mira", admin=True)
    entry.enter(said("cluster-admins"))
    assert entry.enter(said()).is_admin, "an admin made them one"
    rows = AuditEvent.objects.filter(action__in=("made admin", "admin removed")).order_by("id")
    assert [row.action for row in rows] == ["made admin", "admin removed", "made admin"]


def test_an_auditor_whom_a_rule_made_admin_is_an_auditor_again(admin: User) -> None:
    rule("cluster-admins", role="admin")
    rule("safety", role="auditor")
    rule()
    entry.enter(said())
    services.update_user(admin, "mira", role=Role.AUDITOR)
    roles = [entry.enter(said(*groups)).role for groups in ((), ("cluster-admins",), ("cluster-admins",), ())]
    assert roles == ["auditor", "admin", "admin", "auditor"]
    services.update_user(admin, "mira", role=Role.USER)
    roles = [entry.enter(said(*groups)).role for groups in (("safety",), ("cluster-admins", "safety"), ())]
    assert roles == ["auditor", "admin", "user"], "no admin made them an auditor"
    entry.enter(said("cluster-admins"))
    services.update_user(admin, "mira", role=Role.AUDITOR)
    assert entry.enter(said()).role == "auditor"


def test_the_last_admin_with_a_password_is_always_there(admin: User) -> None:
    rule("cluster-admins", role="admin")
    rule()
    entry.enter(said("cluster-admins"))
    with pytest.raises(RemoveAdmin, match="admin is the last admin with a password"):
        services.update_user(admin, "admin", admin=False)
    with pytest.raises(RemoveAdmin):
        services.set_active(admin, "admin", False)
    User.objects.filter(username="admin").update(is_admin=False)
    linked = User.objects.create_user("lena", PASSWORD)
    entry.link(linked, said("cluster-admins", subject="2"))
    assert entry.enter(said("cluster-admins", subject="2")).is_admin
    assert entry.enter(said(subject="2")).is_admin, "she is the only one who gets in without the provider"


def test_an_identity_keeps_the_address_that_was_verified_at_the_last_sign_in() -> None:
    rule()
    for email in ("mira@example.org", ""):
        entry.enter(replace(said(), email=email))
        assert Identity.objects.get().email == email


def test_a_name_of_one_provider_is_nobody_at_another() -> None:
    rule()
    entry.enter(said())
    with pytest.raises(NotLetIn, match="There is a user mira here already"):
        entry.enter(said(issuer="https://elsewhere"))
    assert Identity.objects.count() == 1


def test_an_account_that_both_of_two_sign_ins_make_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rule()
    made, find = entry._made, entry._identity
    seen: list[object] = []

    def not_there_yet(one: Said) -> Identity | None:
        seen.append(one)
        return None if len(seen) == 1 else find(one)

    with transaction.atomic():
        entry._new(made(said()), said())
    monkeypatch.setattr(entry, "_identity", not_there_yet)
    monkeypatch.setattr(entry, "_why_not_new", lambda _: "")
    assert entry.enter(said()).username == "mira"
    assert (User.objects.count(), Identity.objects.count(), len(seen)) == (1, 1, 2)
    assert connection.is_usable()


def test_who_writes_rules_is_an_admin_and_a_rule_that_cannot_be_is_refused(
    admin: User, alice: User, settings: object
) -> None:
    settings.SIGN_IN = {"lab": object()}  # type: ignore[attr-defined]
    for wrong, error in (
        (SignInRule(provider="nowhere"), BadRequest),
        (SignInRule(group="x" * 256), BadRequest),
        (SignInRule(group="a\x00b"), BadRequest),
        (SignInRule(role="king"), BadRequest),
        (SignInRule(provider="lab", role="admin"), BadRequest),
        (SignInRule(group="staff", role="admin"), BadRequest),
        (SignInRule(vcs=["vision"], priority=101), BadRequest),
        (SignInRule(vcs=["gone"]), UnknownVirtualCluster),
    ):
        with pytest.raises(error):
            entry_rules.save_rule(admin, wrong)
    with pytest.raises(entry_rules.BadRequest, match="nobody is admin by default"):
        entry_rules.save_rule(admin, SignInRule(role="admin"))
    good = SignInRule(provider="lab", group="staff", role="admin", vcs=["vision"])
    for refused in (entry_rules.save_rule, entry_rules.delete_rule, entry_rules.raise_rule):
        with pytest.raises(Exception, match="Non-admin"):
            refused(alice, good)  # type: ignore[operator]
    entry_rules.save_rule(admin, good)
    entry_rules.save_rule(admin, SignInRule(provider="lab"))
    entry_rules.raise_rule(admin, SignInRule.objects.last().pk)  # type: ignore[union-attr]
    assert [each.group for each in entry_rules.load_rules()] == ["", "staff"]
    assert [each.place for each in entry_rules.load_rules()] == [1, 2]
    SignInRule.objects.bulk_create(SignInRule(place=each) for each in range(3, entry_rules.MOST + 1))
    with pytest.raises(BadRequest, match="There are 200 rules, which are the most"):
        entry_rules.save_rule(admin, SignInRule(provider="lab"))
