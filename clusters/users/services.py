"""Every write to accounts and to what they may use, for pages and API alike: who may, the rows, the audit record.

``actor`` is the user or guest who asks. A password is never logged. Raises
Unauthorized, Forbidden, MissingUser, and what clusters.users.rules names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction
from django.db.models import Q

from base.accounts import audit, passwords, tokens
from base.accounts.viewer import NON_ADMIN, Viewer, require, require_admin, require_self_or_admin
from base.core.errors import BadRequest, ConflictUser, Forbidden, RemoveAdmin
from base.models import FormerUser, User
from base.roles import Permission, Role
from clusters.models import Appointment, GroupMember, VcGrant
from clusters.users import rules
from clusters.users.left import left_by
from clusters.users.queries import load_user
from clusters.vcs.grants import grants_of, managed_by
from clusters.vcs.rules import DEFAULT_VC


def create_user(
    actor: Viewer,
    *,
    username: str,
    password: str,
    role: Role = Role.USER,
    owner: str = "",
    vcs: Iterable[str] = (),
    email: str = "",
    extension: dict[str, Any] | None = None,
) -> User:
    """ConflictUser when the name is taken, UnknownVirtualCluster, BadRequest. ``vcs`` always gets ``default``. With an
    ``owner`` it is a service account, without a password: an admin makes its tokens. What a deleted account of this
    name left is now theirs: ``left_by`` tells it."""
    who = require_admin(actor).username
    wanted = list(vcs)
    rules.check_username(username)
    if User.objects.filter(username=username).exists():
        raise ConflictUser(f"User name {username} already exists.")
    if owner:
        rules.check_owner(owner, password)
    else:
        passwords.check(password)
    rules.check_email(email)
    fields = _merged({}, extension or {})
    granted = rules.known_vcs(wanted) if wanted else []
    user = User(username=username, email=email, owner=owner, password=make_password(password or None), **fields)
    user.is_admin, user.is_auditor = role == Role.ADMIN, role == Role.AUDITOR
    left = left_by([username]).get(username)
    data = {
        "role": role,
        "owner": owner,
        "virtualClusters": [vc.name for vc in granted],
        **(left.data() if left else {}),
    }
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            rules.write_grants(username, [] if user.is_admin else granted)
            audit.record(who, "user made", username, data)
    except IntegrityError:  # somebody else was faster with this name
        raise ConflictUser(f"User name {username} already exists.") from None
    return user


def update_user(
    actor: Viewer,
    username: str,
    *,
    password: str | None = None,
    admin: bool | None = None,
    role: Role | None = None,
    email: str | None = None,
) -> User:
    """Change what is not None, in one transaction. The role (``admin``: as v1 has it) is for admins; the rest also for
    oneself, and as in v1 the old password is not asked for here. A new one ends all tokens and sessions of the user.
    RemoveAdmin when nobody would be left who is an admin."""
    who = require_self_or_admin(actor, username)
    if not who.is_admin:
        if admin or role is not None:
            raise Forbidden(NON_ADMIN)
        admin = None
    user = rules.find_user(username)
    if password:
        if user.owner:
            raise BadRequest(f"{username} is a service account: it has no password, and an admin makes its tokens.")
        if not (who.is_admin or user.has_usable_password()):
            raise Forbidden("You have no password here: a provider signs you in. Ask an admin for one.")
        passwords.check(password, user)
    if email is not None:
        rules.check_email(email)
    hashed = make_password(password) if password else None
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        if admin is not None and admin != user.is_admin:
            role = Role.ADMIN if admin else Role.USER
        if role is not None:
            change_role(who.username, user, role)
        if email is not None and email != user.email:
            _write(who.username, user, "email changed", email=email)
        if hashed is not None:
            passwords.replace(user, hashed, by=who.username)
    return user


def delete_user(actor: Viewer, username: str) -> None:
    """Delete a user. Their tokens, sessions, grants and memberships end; their ended jobs and their files stay.
    RemoveAdmin for an admin, ConflictUser while jobs of theirs have not ended."""
    who = require_admin(actor).username
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        if user.is_admin:
            raise RemoveAdmin(f"Admin {username} is not allowed to remove.")
        rules.require_idle(username)
        VcGrant.objects.filter(username=username).delete()
        Appointment.objects.filter(Q(username=username) | Q(job__startswith=f"{username}~")).delete()
        GroupMember.objects.filter(username=username).delete()
        FormerUser.objects.get_or_create(username=username)
        user.delete()
        audit.record(who, "user deleted", username)


def set_active(actor: Viewer, username: str, active: bool) -> None:
    """Enable or disable a user. A disabled user cannot sign in; their tokens are revoked for good and their sessions
    end."""
    who = require_admin(actor).username
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        if user.is_active == active:
            return
        if user.is_admin and not active:
            rules.require_another_admin(username)
        user.is_active = active
        user.epoch += not active  # their sessions do not come back with them
        user.save(update_fields=["is_active", "epoch"])
        revoked = 0 if active else tokens.revoke_all(user)
        audit.record(who, "user enabled" if active else "user disabled", username, {"tokensRevoked": revoked})


def set_grants(
    actor: Viewer, username: str, vcs: Iterable[str], priorities: rules.Priorities = rules.NO_PRIORITIES
) -> tuple[str, ...]:
    """Set where the user may submit; ``default`` is always among it. Returns the names. ``priorities`` say how far up
    they may set that of a job there; what is not given stays, as does what they manage. Jobs that are there keep
    theirs. Forbidden for admins: they may submit anywhere, and set any."""
    who = require_admin(actor).username
    wanted = list(vcs)
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        granted = rules.known_vcs(wanted)
        if user.is_admin:
            raise Forbidden("Admin's virtual clusters cannot be updated.")
        rules.check_priorities(priorities, granted)
        rules.write_grants(username, granted, priorities)
        names = tuple(vc.name for vc in granted)
        given: dict[str, Any] = {"priorities": dict(priorities)} if priorities else {}
        audit.record(who, "grants changed", username, {"virtualClusters": names, **given})
    return names


def grant(actor: Viewer, vc: str, username: str, priority: int | None = None, *, manages: bool | None = None) -> None:
    """Let one more user submit to a virtual cluster, or change how far up they may set a priority there and whether
    they manage it (None: as it is). What they may use besides stays. The manager may do it too, but only an admin makes
    managers."""
    who = require(actor, Permission.GRANT, vc=vc)
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        if user.is_admin:
            raise Forbidden("Admins may use every virtual cluster.")
        managed = {*managed_by(username)}
        if manages is not None and manages != (vc in managed):
            require_admin(who, "Only an admin says who manages a virtual cluster.")
            managed ^= {vc}
        granted = rules.known_vcs([*grants_of([username])[username], vc])
        rules.check_priorities({vc: priority}, granted)
        rules.write_grants(username, granted, {vc: priority}, managed)
        data = {"virtualCluster": vc, "priority": priority, "manages": vc in managed}
        audit.record(who.username, "grants changed", username, data)


def withdraw(actor: Viewer, vc: str, username: str) -> None:
    """End what ``grant`` gave; their jobs go on. Only an admin ends that of a manager."""
    who = require(actor, Permission.GRANT, vc=vc)
    with transaction.atomic():
        rules.find_user(username, lock=True)
        row = VcGrant.objects.filter(vc__name=vc, username=username).first()
        if row is None or vc == DEFAULT_VC:
            raise BadRequest(f"Nobody gave {username} virtual cluster {vc}.")
        if row.manages:
            require_admin(who, "Only an admin says who manages a virtual cluster.")
        row.delete()
        rules.forget_given(username, grants_of([username]).get(username, {}))
        audit.record(who.username, "grants changed", username, {"withdrawn": vc})


def set_store_quota(actor: Viewer, username: str, quota: int | None) -> None:
    """Bytes that the user's files may take in the store; UNLIMITED, or None for what base.files.quota.use says."""
    who = require_admin(actor).username
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        change = {"from": user.store_quota, "to": quota}
        _write(who, user, "store quota set", change, store_quota=quota)


def set_github_pat(actor: Viewer, username: str, pat: str) -> None:
    """Note whether there is a token, and forget the token itself: nothing here ever used it."""
    who = require_self_or_admin(actor, username)
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        did = "GitHub token noted" if pat else "GitHub token cleared"
        _write(who.username, user, did, has_github_pat=bool(pat))


def merge_extension(actor: Viewer, username: str, extension: dict[str, Any]) -> None:
    """Merge into what clients store with a user. ``virtualCluster`` in it is a grant, so only an admin may change
    that."""
    who = require_self_or_admin(actor, username)
    vcs = _vcs_in(extension)
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        record = load_user(username)
        if vcs is not None and record is not None and set(vcs) != set(record.vcs):
            set_grants(who, username, vcs)
        keys = {"keys": sorted(extension)[:50]}
        _write(who.username, user, "extension changed", keys, **_merged(user.extension, extension))


def change_role(who: str, user: User, role: Role, **data: str) -> None:
    """Inside a transaction, with the user's row locked. ``role`` is one of base.roles.ROLES. Raises
    RemoveAdmin."""
    if role == user.role:
        return
    if user.is_admin:
        rules.require_another_admin(user.username)
    did = "made admin" if role == Role.ADMIN else "admin removed" if user.is_admin else "role changed"
    change = {"from": user.role, "to": role, **data}
    _write(who, user, did, change, is_admin=role == Role.ADMIN, is_auditor=role == Role.AUDITOR)


def _write(who: str, user: User, did: str, data: Mapping[str, Any] | None = None, **columns: Any) -> None:
    """Write these columns, and down what ``who`` did."""
    for name, value in columns.items():
        setattr(user, name, value)
    user.save(update_fields=[*columns])
    audit.record(who, did, user.username, data)


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The fields of a user for the merged extension. Grants and secrets are not stored in it."""
    merged = {**old, **new}
    merged.pop("virtualCluster", None)
    fields: dict[str, Any] = {"extension": merged}
    if "githubPAT" in merged:
        fields["has_github_pat"] = bool(merged.pop("githubPAT"))
    rules.check_extension(merged)
    return fields


def _vcs_in(extension: dict[str, Any]) -> list[str] | None:
    if "virtualCluster" not in extension:
        return None
    names = extension["virtualCluster"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest('"virtualCluster" must be an array of names')
    return names
