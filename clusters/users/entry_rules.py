"""The rules by which groups of a provider become virtual clusters and roles. Reading them is pure; admins write them.

Rules are read from the top. The first that fits decides who gets in, as what, and gives its virtual clusters; later
ones that let in add theirs. Nobody gets in by a provider whom no rule lets in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from base.accounts import audit
from base.accounts.providers.said import LONGEST
from base.accounts.viewer import Viewer, require_admin
from base.core.errors import BadRequest, NotFound
from base.models import Identity, SignInRule
from base.roles import Role
from clusters.models import VirtualCluster
from clusters.users.rules import known_vcs, vcs_by_name
from clusters.vcs.rules import MOST_PRIORITY

MOST = 200
ROLES = (Role.AUDITOR, Role.ADMIN)  # that a rule may give; without one they are users


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules give. ``by`` and the values of ``vcs`` are numbers of rules, from 1; 0: none fits. ``steps`` say
    of each rule why it fits or not, and whether it decides."""

    lets_in: bool = False
    by: int = 0
    role: str = ""
    vcs: Mapping[str, int] = field(default_factory=dict)
    priorities: Mapping[str, int | None] = field(default_factory=dict)
    steps: tuple[tuple[str, bool], ...] = ()


def decide(rules: Sequence[SignInRule], provider: str, groups: Collection[str]) -> Outcome:
    first, vcs, priorities, steps = 0, dict[str, int](), dict[str, int | None](), []
    groups = set(groups)
    for number, rule in enumerate(rules, 1):
        if rule.provider and rule.provider != provider:
            steps.append(("another provider", False))
        elif rule.group and rule.group not in groups:
            steps.append((f"not in {rule.group}", False))
        elif first and not (rules[first - 1].lets_in and rule.lets_in):
            steps.append(("fits too, changes nothing", False))
        else:
            new = [vc for vc in rule.vcs if vc not in vcs]
            steps.append((f"fits too, adds {', '.join(new) or 'nothing'}", False) if first else (_fits(rule), True))
            first = first or number
            vcs |= dict.fromkeys(new, number)
            priorities |= dict.fromkeys(new, rule.priority)
    if not first or not rules[first - 1].lets_in:
        return Outcome(False, first, steps=tuple(steps))
    return Outcome(True, first, rules[first - 1].role, vcs, priorities, tuple(steps))


def _fits(rule: SignInRule) -> str:
    return f"fits: group {rule.group}" if rule.group else "fits: everybody"


def load_rules() -> list[SignInRule]:
    return list(SignInRule.objects.order_by("place", "pk"))


@dataclass(frozen=True, slots=True)
class Gained:
    """What a change of the rules would give somebody at their next sign-in, and what it would take."""

    username: str
    gains: tuple[str, ...]
    loses: tuple[str, ...]


def effect(old: Sequence[SignInRule], new: Sequence[SignInRule]) -> list[Gained]:
    """Who has signed in before and would get something else now, by name."""
    changes = []
    rows = Identity.objects.order_by("user__username", "pk").values_list("user__username", "provider", "groups")
    for username, provider, groups in rows.iterator():
        before, after = (_given(decide(rules, provider, groups)) for rules in (old, new))
        if before != after:
            gains, loses = (
                tuple(x for x in one if x not in other) for one, other in ((after, before), (before, after))
            )
            changes.append(Gained(username, gains, loses))
    return changes


def _given(outcome: Outcome) -> list[str]:
    if not outcome.lets_in:
        return []
    return ["sign-in", *filter(None, [outcome.role and f"role {outcome.role}"]), *map(_with_priority, *_cells(outcome))]


def _cells(outcome: Outcome) -> tuple[Iterable[str], Iterable[int | None]]:
    return outcome.priorities.keys(), outcome.priorities.values()


def _with_priority(vc: str, priority: int | None) -> str:
    return f"VC {vc}" if priority is None else f"VC {vc} up to priority {priority}"


def check(rule: SignInRule, rows: Mapping[str, VirtualCluster] | None = None) -> None:
    """BadRequest, or UnknownVirtualCluster, for a rule that cannot be."""
    if rule.provider and rule.provider not in settings.SIGN_IN:
        raise BadRequest(f"There is no provider {rule.provider}.")
    if len(rule.group) > LONGEST or not rule.group.isprintable():
        raise BadRequest(f"A group has {LONGEST} characters at most, all of which can be seen.")
    if rule.role and rule.role not in ROLES:
        raise BadRequest(f"There is no role {rule.role}.")
    if rule.role and not (rule.provider and rule.group):
        raise BadRequest("A rule that gives a role names a provider and a group: nobody is admin by default.")
    if not rule.lets_in and (rule.role or rule.vcs):
        raise BadRequest("A rule that lets nobody in gives no role and no virtual cluster.")
    if rule.priority is not None and not 0 <= rule.priority <= MOST_PRIORITY:
        raise BadRequest(f"The highest priority is a whole number from 0 to {MOST_PRIORITY}, or nothing.")
    known_vcs(rule.vcs, rows)


def changed(rules: Sequence[SignInRule], rule: SignInRule) -> list[SignInRule]:
    """The rules as they would be with this one saved."""
    others = [rule if each.pk == rule.pk else each for each in rules]
    return others if rule.pk else [*rules, rule]


def save_rule(actor: Viewer, rule: SignInRule) -> None:
    who = require_admin(actor).username
    with transaction.atomic():
        if rule.pk is None:
            if SignInRule.objects.count() >= MOST:
                raise BadRequest(f"There are {MOST} rules, which are the most. Remove one first.")
            rule.place = (SignInRule.objects.aggregate(last=Max("place"))["last"] or 0) + 1
        check(rule)
        rule.save()
        audit.record(who, "sign-in rule saved", _name(rule), _data(rule))


def replace_rules(actor: Viewer, rules: Sequence[SignInRule]) -> None:
    """Let these be all rules, read in this order. What the others gave is taken back at the next sign-in of each."""
    who = require_admin(actor).username
    if len(rules) > MOST:
        raise BadRequest(f"There may be {MOST} rules at most.")
    vcs = vcs_by_name()
    for place, rule in enumerate(rules, 1):
        rule.place = place
        try:
            check(rule, vcs)
        except BadRequest as error:
            raise BadRequest(f"Rule {place}: {error.message}") from None
    with transaction.atomic():
        before = list(SignInRule.objects.select_for_update().order_by("place", "pk"))
        SignInRule.objects.all().delete()
        SignInRule.objects.bulk_create(rules)
        lists = {
            name: [{"rule": _name(each), **_data(each)} for each in x] for name, x in (("from", before), ("to", rules))
        }
        audit.record(who, "sign-in rules replaced", "all", lists)


def delete_rule(actor: Viewer, rule_id: int) -> None:
    """Remove a rule. What it gave is taken back at the next sign-in of each."""
    who = require_admin(actor).username
    with transaction.atomic():
        rule = find_rule(rule_id)
        audit.record(who, "sign-in rule removed", _name(rule), _data(rule))
        rule.delete()


def raise_rule(actor: Viewer, rule_id: int) -> None:
    """Let it be read one place earlier."""
    who = require_admin(actor).username
    with transaction.atomic():
        rules = load_rules()
        at = next((at for at, rule in enumerate(rules) if rule.pk == rule_id), None)
        if not at:
            return
        rules[at - 1], rules[at] = rules[at], rules[at - 1]
        for place, rule in enumerate(rules, 1):
            rule.place = place
        SignInRule.objects.bulk_update(rules, ["place"])
        audit.record(who, "sign-in rule moved", _name(rules[at - 1]), {"from": at + 1, "to": at})


def find_rule(rule_id: int) -> SignInRule:
    if (rule := SignInRule.objects.filter(pk=rule_id).first()) is None:
        raise NotFound("There is no such rule; somebody may have removed it.")
    return rule


def _name(rule: SignInRule) -> str:
    return f"{rule.provider or 'any provider'}, {rule.group or 'everybody'}"


def _data(rule: SignInRule) -> dict[str, object]:
    given = {"role": rule.role, "virtualClusters": rule.vcs, "priority": rule.priority}
    return {"letsIn": rule.lets_in, **(given if rule.lets_in else {})}
