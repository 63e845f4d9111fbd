"""The page of sign-in, for admins: providers, the rules by which groups become rights, and what somebody would get."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from base.accounts.providers import oidc
from base.accounts.providers.config import Directory, Provider
from base.accounts.providers.said import names
from base.accounts.providers.state import fails, forget
from base.core import words
from base.core.errors import BadRequest, LongshoreError
from base.models import Identity, SignInRule, User
from clusters.users import entry_rules
from clusters.users.queries import load_user
from clusters.vcs.grants import vc_names
from clusters.vcs.rules import DEFAULT_VC
from portal.shared.confirm import ask_to_confirm, question
from portal.shared.guard import own_form
from portal.shared.viewer import admin_of

_HERE = "/admin/sign-in"
_SHOWN = 20  # people whom a change concerns, by name; of the others the number


@own_form
def sign_in_page(request: HttpRequest) -> HttpResponse:
    """?provider=, user= and groups= try the rules. POST: ``test`` a provider, or ``raise`` the rule of this id."""
    admin = admin_of(request)
    if request.method == "POST":
        if rule_id := words.whole(request.POST.get("raise", "")):
            entry_rules.raise_rule(admin, rule_id)
        elif provider := settings.SIGN_IN.get(request.POST.get("test", "")):
            _test(request, provider)
        return redirect(_HERE)
    rules = entry_rules.load_rules()
    outcomes = [entry_rules.decide(rules, *row) for row in Identity.objects.values_list("provider", "groups")]
    deciding = Counter(outcome.by for outcome in outcomes)
    tried = _tried(request, rules)
    page = {
        "nav": "users",
        "ways": _ways(),
        "locals": User.objects.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX).count(),
        "rules": [(rule, _title(rule.provider), deciding[number]) for number, rule in enumerate(rules, 1)],
        "unmatched": deciding[0],
        "accounts": len(outcomes),
        "tried": tried,
    }
    return render(request, "sign_in/rules.html", page)


@own_form
def rule_page(request: HttpRequest, rule_id: int = 0) -> HttpResponse:
    """Fields: provider, group, vcs (many), priority, role, lets_in; ``show`` says what a change would do."""
    admin = admin_of(request)
    rule = entry_rules.find_rule(rule_id) if rule_id else SignInRule()
    page: dict[str, Any] = {"nav": "users", "rule": rule, "priority": "" if rule.priority is None else rule.priority}
    status = 200
    if request.method == "POST":
        page["priority"] = request.POST.get("priority", "").strip()
        try:
            _read(request, rule)
            entry_rules.check(rule)
            if "show" not in request.POST:
                entry_rules.save_rule(admin, rule)
                messages.success(request, "The rule is saved. It takes hold at the next sign-in of each.")
                return redirect(_HERE)
            old = entry_rules.load_rules()
            page |= _effect(entry_rules.effect(old, entry_rules.changed(old, rule)))
        except LongshoreError as error:
            page["error"], status = error.message, error.status
    page |= {"ways": settings.SIGN_IN.values(), "all_vcs": vc_names(), "roles": entry_rules.ROLES}
    return render(request, "sign_in/rule.html", page, status=status)


@own_form
def remove_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    admin = admin_of(request)
    if request.method == "POST":
        entry_rules.delete_rule(admin, rule_id)
        messages.success(request, "The rule is removed.")
        return redirect(_HERE)
    rule, rules = entry_rules.find_rule(rule_id), entry_rules.load_rules()
    changes = entry_rules.effect(rules, [each for each in rules if each.pk != rule.pk])
    lose = sum(1 for change in changes if change.loses)
    says = f"{words.count(lose, 'person loses', 'people lose')} something at their next sign-in." if lose else ""
    title = f"Remove the rule for {rule.group or 'everybody'}?"
    asked = question(title, says or "Nobody who has signed in loses anything.", "Remove rule", keep="Keep it")
    return ask_to_confirm(request, _HERE, nav="users", **asked)


def _title(name: str) -> str:
    return settings.SIGN_IN[name].title if name in settings.SIGN_IN else name or "any provider"


def _ways() -> list[tuple[Any, int, Any, str]]:
    """Each provider, how many people it has, when it was last used and why it fails."""
    counted = Identity.objects.order_by().values_list("provider").annotate(Count("user", distinct=True), Max("seen_at"))
    used = {name: (people, seen) for name, people, seen in counted}
    return [(each, *used.get(name, (0, None)), fails(each)) for name, each in settings.SIGN_IN.items()]


def _test(request: HttpRequest, provider: Provider | Directory) -> None:
    try:
        messages.success(request, f"{provider.title} answers in {_measure(provider)} ms.")
    except LongshoreError as error:
        messages.warning(request, error.message)


def _measure(provider: Provider | Directory) -> int:
    forget(provider)
    if isinstance(provider, Provider):
        return oidc.measure(provider)
    from base.accounts.providers import ldap  # needs ldap3, which is there where a directory is named

    return ldap.measure(provider)


def _read(request: HttpRequest, rule: SignInRule) -> None:
    rule.provider, rule.role = request.POST.get("provider", ""), request.POST.get("role", "")
    rule.group = request.POST.get("group", "").strip()
    rule.lets_in = bool(request.POST.get("lets_in"))
    rule.vcs = [vc for vc in dict.fromkeys(request.POST.getlist("vcs")) if vc] if rule.lets_in else []
    rule.role = rule.role if rule.lets_in else ""
    typed = request.POST.get("priority", "").strip()
    rule.priority = words.whole(typed, 5) if rule.vcs else None
    if typed and rule.vcs and rule.priority is None:
        raise BadRequest("Highest priority: give a whole number, or nothing.")


def _effect(changes: list[entry_rules.Gained]) -> dict[str, Any]:
    return {"shown": True, "changes": changes[:_SHOWN], "more": len(changes[_SHOWN:])}


def _tried(request: HttpRequest, rules: list[SignInRule]) -> dict[str, Any]:
    """What the form asks, and what somebody would get. Without groups in it: those of their last sign-in."""
    provider, username = request.GET.get("provider", ""), request.GET.get("user", "").replace("\x00", "").strip()[:64]
    identity = Identity.objects.filter(provider=provider, user__username=username).first()
    typed = request.GET.get("groups")
    if typed is None:
        groups = tuple(identity.groups) if identity else ()
    else:
        groups = names([each.strip() for each in typed[:20_000].split(",")])
    page = {"provider": provider, "username": username, "groups": ", ".join(groups), "identity": identity}
    if provider not in settings.SIGN_IN:
        return page
    record = load_user(username) if username else None
    given = set(identity.vcs) if identity else set()
    by_hand = [vc for vc in (record.vcs if record and record.is_granted else ()) if vc not in {*given, DEFAULT_VC}]
    return {**page, "outcome": entry_rules.decide(rules, provider, groups), "record": record, "by_hand": by_hand}
