"""Every write to accounts and to what they may use, for pages and API alike: who may, the rows, the audit record.

``actor`` is the user or guest who asks. ``ip`` goes to the audit record. A password is never logged. Raises
Unauthorized, Forbidden, MissingUser, and what clusters.users.rules names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction

from clusters.models import GroupMember, VcGrant
from clusters.users import rules
from clusters.users.csv_import import ImportResult as ImportResult
from clusters.users.csv_import import ImportRow as ImportRow
from clusters.users.csv_import import import_csv as import_csv
from clusters.users.queries import UserRecord as UserRecord
from clusters.users.queries import load_user, load_users
from portal.accounts import audit, passwords, tokens
from portal.accounts.viewer import NON_ADMIN, Viewer, require_admin, require_self_or_admin
from portal.core.errors import BadRequest, ConflictUser, Forbidden, RemoveAdmin
from portal.models import FormerUser, User

LONGEST_EXTENSION = 100_000  # characters of JSON


def list_users(actor: Viewer) -> list[UserRecord]:
    """All users by name, for admins."""
    require_admin(actor)
    return load_users()


def create_user(
    actor: Viewer,
    *,
    username: str,
    password: str,
    admin: bool = False,
    vcs: Iterable[str] = (),
    email: str = "",
    extension: dict[str, Any] | None = None,
    ip: str | None = None,
) -> User:
    """ConflictUser when the name is taken, UnknownVirtualCluster, BadRequest. ``vcs`` always gets ``default``."""
    who = require_admin(actor).username
    wanted = list(vcs)
    rules.check_username(username)
    rules.check_free(username)
    passwords.check(password)
    rules.check_email(email)
    kept = _merged({}, extension or {})
    granted = rules.known_vcs(wanted) if wanted else []
    user = User(username=username, email=email, is_admin=admin, password=make_password(password), **kept)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            rules.write_grants(username, [] if admin else granted)
            audit.record(
                who, "user made", username, ip, {"admin": admin, "virtualClusters": [vc.name for vc in granted]}
            )
    except IntegrityError:  # somebody else was faster with this name
        raise ConflictUser(f"User name {username} already exists.") from None
    return user


def update_user(
    actor: Viewer,
    username: str,
    *,
    password: str | None = None,
    admin: bool | None = None,
    email: str | None = None,
    ip: str | None = None,
) -> User:
    """Change what is not None, in one transaction. The role is for admins; the rest also for oneself. As in v1, the old
    password is not asked for here (``set_password`` does)."""
    who = require_self_or_admin(actor, username)
    if admin is not None and not who.is_admin:
        if admin:
            raise Forbidden(NON_ADMIN)
        admin = None
    user = rules.find_user(username)
    if password:
        passwords.check(password, user)
    if email is not None:
        rules.check_email(email)
    hashed = make_password(password) if password else None
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        if admin is not None:
            _change_admin(who.username, user, admin, ip)
        if email is not None:
            _change_email(who.username, user, email, ip)
        if hashed is not None:
            passwords.replace(user, hashed, by=who.username, ip=ip)
    return user


def delete_user(actor: Viewer, username: str, ip: str | None = None) -> None:
    """Delete a user. Their tokens, sessions, grants and memberships end; their ended jobs and their files stay.
    RemoveAdmin for an admin, ConflictUser while jobs of theirs have not ended."""
    who = require_admin(actor).username
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        if user.is_admin:
            raise RemoveAdmin(f"Admin {username} is not allowed to remove.")
        rules.require_idle(username)
        VcGrant.objects.filter(username=username).delete()
        GroupMember.objects.filter(username=username).delete()
        FormerUser.objects.get_or_create(username=username)
        user.delete()
        audit.record(who, "user deleted", username, ip)


def set_password(
    actor: Viewer, username: str, new: str, old: str | None = None, *, check_old: bool = True, ip: str | None = None
) -> None:
    """Set a password, which ends all tokens and sessions of the user. Users who are no admins give their old password
    (``check_old`` False: the caller has checked it)."""
    who = require_self_or_admin(actor, username)
    user = rules.find_user(username)
    if check_old and not who.is_admin and not user.check_password(old or ""):
        raise Forbidden("Pls input the correct password.")
    passwords.check(new, user)
    hashed = make_password(new)
    with transaction.atomic():
        passwords.replace(user, hashed, by=who.username, ip=ip)


def set_admin(actor: Viewer, username: str, admin: bool, ip: str | None = None) -> None:
    """Make a user an admin, or no longer one. RemoveAdmin when nobody would be left who is."""
    who = require_admin(actor).username
    with transaction.atomic():
        _change_admin(who, rules.find_user(username, lock=True), admin, ip)


def set_active(actor: Viewer, username: str, active: bool, ip: str | None = None) -> None:
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
        audit.record(who, "user enabled" if active else "user disabled", username, ip, {"tokensRevoked": revoked})


def set_grants(actor: Viewer, username: str, vcs: Iterable[str], ip: str | None = None) -> tuple[str, ...]:
    """Set where the user may submit; ``default`` is always among it. Returns the names. Forbidden for admins: they may
    submit anywhere."""
    who = require_admin(actor).username
    wanted = list(vcs)
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        granted = rules.known_vcs(wanted)
        if user.is_admin:
            raise Forbidden("Admin's virtual clusters cannot be updated.")
        rules.write_grants(username, granted)
        names = tuple(vc.name for vc in granted)
        audit.record(who, "grants changed", username, ip, {"virtualClusters": names})
    return names


def set_email(actor: Viewer, username: str, email: str, ip: str | None = None) -> None:
    update_user(actor, username, email=email, ip=ip)


def set_store_quota(actor: Viewer, username: str, quota: int | None, ip: str | None = None) -> None:
    """Bytes that the user's files may take in the store; UNLIMITED, or None for what portal.files.quota.limits says."""
    who = require_admin(actor).username
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        before, user.store_quota = user.store_quota, quota
        user.save(update_fields=["store_quota"])
        audit.record(who, "store quota set", username, ip, {"from": before, "to": quota})


def set_github_pat(actor: Viewer, username: str, pat: str, ip: str | None = None) -> None:
    """Note whether there is a token, and forget the token itself: nothing here ever used it."""
    who = require_self_or_admin(actor, username)
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        user.has_github_pat = bool(pat)
        user.save(update_fields=["has_github_pat"])
        audit.record(who.username, "GitHub token noted" if pat else "GitHub token cleared", username, ip)


def merge_extension(actor: Viewer, username: str, extension: dict[str, Any], ip: str | None = None) -> None:
    """Merge into what clients store with a user. ``virtualCluster`` in it is a grant, so only an admin may change
    that."""
    who = require_self_or_admin(actor, username)
    vcs = _vcs_in(extension)
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        record = load_user(username)
        if vcs is not None and record is not None and set(vcs) != set(record.vcs):
            set_grants(who, username, vcs, ip)
        for name, value in _merged(user.extension, extension).items():
            setattr(user, name, value)
        user.save(update_fields=["extension", "has_github_pat"])
        audit.record(who.username, "extension changed", username, ip, {"keys": sorted(extension)[:50]})


def _change_admin(who: str, user: User, admin: bool, ip: str | None) -> None:
    if user.is_admin == admin:
        return
    if not admin:
        rules.require_another_admin(user.username)
    user.is_admin = admin
    user.save(update_fields=["is_admin"])
    audit.record(who, "made admin" if admin else "admin removed", user.username, ip)


def _change_email(who: str, user: User, email: str, ip: str | None) -> None:
    user.email = email
    user.save(update_fields=["email"])
    audit.record(who, "email changed", user.username, ip)


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The fields of a user for the merged extension. Grants and secrets are not stored in it."""
    merged = {**old, **new}
    merged.pop("virtualCluster", None)
    kept: dict[str, Any] = {"extension": merged}
    if "githubPAT" in merged:
        kept["has_github_pat"] = bool(merged.pop("githubPAT"))
    if len(json.dumps(merged)) > LONGEST_EXTENSION:
        raise BadRequest(f"The extension is longer than {LONGEST_EXTENSION} characters.")
    return kept


def _vcs_in(extension: dict[str, Any]) -> list[str] | None:
    if "virtualCluster" not in extension:
        return None
    found = extension["virtualCluster"]
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise BadRequest('"virtualCluster" must be an array of names')
    return found
