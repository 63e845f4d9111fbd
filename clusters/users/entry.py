"""Lets somebody in whom a provider has let in: finds or makes the user that they are here, and gives them what the
rules say, no more and no less."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction
from django.utils import timezone

from base.accounts import audit
from base.accounts.providers.said import Said
from base.core.errors import BadRequest, NotFound, NotLetIn, RemoveAdmin
from base.models import USERNAME, FormerUser, Identity, User
from base.roles import Role
from clusters.users import rules
from clusters.users.entry_rules import Outcome, decide, load_rules
from clusters.users.services import change_role
from clusters.vcs.grants import grants_of, managed_by, vc_names
from clusters.vcs.rules import DEFAULT_VC

REFUSED = "sign-in refused"


@dataclass(frozen=True, slots=True)
class _Refusal:
    user: User | None
    says: str


def enter(said: Said) -> User:
    """The user who signs in. Whoever is new gets an account without a password. Raises NotLetIn, with the reason; what
    rules no longer give is taken back then too."""
    try:
        with transaction.atomic():
            found = _enter(said)
    except IntegrityError:  # they sign in twice at once, and the other has made the account
        with transaction.atomic():
            found = _enter(said)
    if isinstance(found, User):
        return found
    who = found.user.username if found.user else said.username
    audit.record(who, REFUSED, said.subject, {"provider": said.provider, "reason": found.says})
    raise NotLetIn(found.says)


def link(user: User, said: Said) -> None:
    """From now on this user also signs in so. Raises NotLetIn where that is somebody else here already."""
    with transaction.atomic():
        identity = _identity(said)
        if identity is not None and identity.user_id != user.pk:
            raise NotLetIn(f"At {said.title} you are somebody who has another account here. Sign in there, not here.")
        if identity is None:
            identity = _new(user, said)
            audit.record(user.username, "sign-in linked", user.username, {"provider": said.provider})
        _give(user, identity, said, decide(load_rules(), said.provider, said.groups))


def unlink(user: User, identity_id: int) -> None:
    """The user no longer signs in so. BadRequest where they could not sign in at all then."""
    with transaction.atomic():
        identity = Identity.objects.select_for_update().filter(user=user, pk=identity_id).first()
        if identity is None:
            raise NotFound("You have no such way to sign in.")
        if not user.has_usable_password():
            raise BadRequest(
                "You have no password here, so this is how you sign in. Ask an admin for a password first."
            )
        said = Said(identity.provider, "", identity.issuer, identity.subject, user.username)
        _give(user, identity, said, Outcome())
        identity.delete()
        audit.record(user.username, "sign-in unlinked", user.username, {"provider": identity.provider})


def _enter(said: Said) -> User | _Refusal:
    outcome = decide(load_rules(), said.provider, said.groups)
    identity = _identity(said)
    if identity is None:
        if not outcome.lets_in:
            return _Refusal(None, _no_rule(said, said.username))
        if refusal := _why_not_new(said):
            return _Refusal(None, refusal)
        identity = _new(_made(said), said)
    user = rules.find_user(identity.user.username, lock=True)
    if not user.is_active:
        return _Refusal(user, f"The account {user.username} is disabled here. Ask the admin of this cluster.")
    _give(user, identity, said, outcome)
    return user if outcome.lets_in else _Refusal(user, _no_rule(said, user.username))


def _no_rule(said: Said, username: str) -> str:
    return f"{said.title} has signed you in as {username}, but no rule lets you in here. Ask the admin of this cluster."


def _why_not_new(said: Said) -> str:
    """Why no account can be made for them; empty where it can. A name or an address that somebody has is no proof that
    they are the same."""
    name = said.username
    link = f"If that is you, sign in with your password, then link {said.title} on the page of your account"
    if not USERNAME.regex.match(name):  # type: ignore[union-attr]
        return f"{said.title} calls you {name!r}, which cannot be a user name here. Ask the admin of this cluster."
    if User.objects.filter(username__iexact=name).exists():
        return f"There is a user {name} here already. {link}."
    if FormerUser.objects.filter(username__iexact=name).exists():
        return f"An account {name} was deleted here, and what it left is not given away. Ask the admin of this cluster."
    if said.email and User.objects.filter(email__iexact=said.email).exists():
        return f"Another user here has the address {said.email}. {link}."
    return ""


def _made(said: Said) -> User:
    user = User(username=said.username, email=said.email, password=make_password(None))
    user.save(force_insert=True)
    audit.record(user.username, "user made", user.username, {"provider": said.provider})
    return user


def _identity(said: Said) -> Identity | None:
    rows = Identity.objects.select_for_update(of=("self",)).select_related("user")
    return rows.filter(issuer=said.issuer, subject=said.subject).first()


def _new(user: User, said: Said) -> Identity:
    keys = {"provider": said.provider, "issuer": said.issuer, "subject": said.subject}
    return Identity.objects.create(user=user, seen_at=timezone.now(), groups=list(said.groups), **keys)


def _give(user: User, identity: Identity, said: Said, outcome: Outcome) -> None:
    """Inside a transaction. What an admin gave stays as it is, and so does what another identity of the user has."""
    others = list(Identity.objects.filter(user=user).exclude(pk=identity.pk))
    _give_role(user, identity, outcome.role, {each.role for each in others})
    known = set() if user.is_admin else set(vc_names())  # admins may use all of them
    have = grants_of([user.username]).get(user.username, {})
    wanted = {vc: most for vc, most in outcome.priorities.items() if vc in known}
    by_others = {vc for each in others for vc in each.vcs}
    given = {vc for vc in wanted if vc not in have or vc in identity.vcs or vc in by_others}
    gone = set(identity.vcs) - given - by_others - {*managed_by(user.username)}  # whose managers admins make
    names, most = have.keys() - gone | given, {vc: wanted[vc] for vc in given}
    if names != have.keys() or any(have[vc] != most[vc] for vc in given):
        rules.write_grants(user.username, rules.known_vcs(names), most)
        changes = {"from": sorted(have), "to": sorted(names), "provider": said.provider, "rule": outcome.by}
        audit.record(user.username, "grants changed", user.username, changes)
        given |= {DEFAULT_VC} - have.keys()  # it is written with them
    identity.vcs, identity.groups, identity.seen_at = sorted(given), list(said.groups), timezone.now()
    identity.provider, identity.email = said.provider, said.email
    identity.save(update_fields=["vcs", "groups", "seen_at", "provider", "role", "email"])


def _give_role(user: User, identity: Identity, role: str, others: set[str]) -> None:
    """The highest of what rules give, by this or another identity, and of what an admin gave, which stays: an auditor
    whom a rule made admin is an auditor again. So does the last admin who could get in by a password."""
    before, identity.role = identity.role, role
    by_admin = user.role not in {before, *others}
    by_hand = user.role if by_admin else Role.AUDITOR if user.is_admin and user.is_auditor else Role.USER
    best = max({by_hand, *(Role(each or Role.USER) for each in (role, *others))}, key=_rank)
    if best == user.role:
        if by_admin and role:
            identity.role = ""
        return
    try:
        change_role(user.username, user, best, by="a sign-in rule")
    except RemoveAdmin:
        identity.role = before  # looked at again at the next sign-in
        return
    if best == Role.ADMIN and by_hand == Role.AUDITOR:
        user.is_auditor = True
        user.save(update_fields=["is_auditor"])


def _rank(role: Role) -> int:
    return [Role.USER, Role.AUDITOR, Role.ADMIN].index(role)
