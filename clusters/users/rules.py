"""What must hold before an account changes. Each function raises the error that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import Q

from base.core import words
from base.core.errors import BadRequest, ConflictUser, MissingUser, RemoveAdmin, UnknownVirtualCluster
from base.core.signals import NO_JOBS, about_jobs
from base.models import USERNAME, Identity, User
from clusters.models import VcGrant, VirtualCluster
from clusters.vcs.grants import in_order
from clusters.vcs.rules import DEFAULT_VC, MOST_PRIORITY

Priorities = Mapping[str, int | None]  # by virtual cluster; None: as all its users
NO_PRIORITIES: Priorities = {}
LONGEST_EXTENSION = 100_000  # characters of JSON


def find_user(username: str, *, lock: bool = False) -> User:
    """Return the user, or MissingUser. ``lock`` inside a transaction only."""
    if "\x00" in username:
        raise MissingUser(f"User {username} not found.")
    if lock:  # with all admins and in one order, or two admins who change each other wait for ever
        rows = User.objects.select_for_update().filter(Q(username=username) | Q(is_admin=True)).order_by("pk")
        user = next((row for row in rows if row.username == username), None)
    else:
        user = User.objects.filter(username=username).first()
    if user is None:
        raise MissingUser(f"User {username} not found.")
    return user


def check_username(username: str) -> None:
    try:
        USERNAME(username)
    except ValidationError as error:
        raise BadRequest(f"The user name {username!r} cannot be used. {error.messages[0]}") from error


def check_owner(owner: str, password: str) -> None:
    """BadRequest for who cannot answer for a service account, and for a password that it would have."""
    if not User.objects.filter(username=owner.replace("\0", ""), owner="").exists():
        raise BadRequest(f"There is no user {owner[:64]} who could answer for a service account.")
    if password:
        raise BadRequest("A service account has no password: leave it empty, and make API tokens for it.")


def check_email(email: str) -> None:
    if not email:
        return
    try:
        validate_email(email)
        User._meta.get_field("email").run_validators(email)
    except ValidationError as error:
        raise BadRequest(f"{email!r} is not an e-mail address.") from error


def check_extension(extension: dict[str, Any]) -> None:
    """BadRequest when what clients keep with a user or a group is too long."""
    if len(json.dumps(extension)) > LONGEST_EXTENSION:
        raise BadRequest(f"The extension is longer than {LONGEST_EXTENSION} characters.")


def vcs_by_name() -> dict[str, VirtualCluster]:
    return {vc.name: vc for vc in VirtualCluster.objects.all()}


def known_vcs(names: Iterable[str], rows: Mapping[str, VirtualCluster] | None = None) -> list[VirtualCluster]:
    """The rows of ``names`` and of ``default``, or UnknownVirtualCluster for the first name that does not exist. Who
    asks many times reads ``rows`` once."""
    wanted = [name for name in dict.fromkeys(names) if name]
    rows = vcs_by_name() if rows is None else rows
    for name in wanted:
        if name not in rows:
            raise UnknownVirtualCluster(f"Virtual cluster {name} not found.")
    return [rows[name] for name in in_order({DEFAULT_VC, *wanted}) if name in rows]


def write_grants(
    username: str,
    vcs: Iterable[VirtualCluster],
    priorities: Priorities = NO_PRIORITIES,
    managed: Collection[str] | None = None,
) -> None:
    """Inside a transaction. ``default`` is written too: its presence marks that an admin has set the grants. Those that
    stay keep their priority where ``priorities`` say nothing, and their managers where ``managed`` is None."""
    old = VcGrant.objects.filter(username=username)
    most = {**dict(old.values_list("vc__name", "priority")), **priorities}
    if managed is None:
        managed = set(old.filter(manages=True).values_list("vc__name", flat=True))
    old.delete()
    new = [VcGrant(vc=vc, username=username, priority=most.get(vc.name), manages=vc.name in managed) for vc in vcs]
    VcGrant.objects.bulk_create(new)
    forget_given(username, {grant.vc.name for grant in new})


def forget_given(username: str, kept: Collection[str]) -> None:
    """What rules of sign-in gave and an admin takes is theirs no longer: given again by hand, it stays."""
    for identity in Identity.objects.filter(user__username=username).exclude(vcs=[]):
        identity.vcs = [vc for vc in identity.vcs if vc in kept]
        identity.save(update_fields=["vcs"])


def check_priorities(priorities: Priorities, granted: Iterable[VirtualCluster]) -> None:
    """BadRequest where one is none, or of a virtual cluster that is not granted."""
    if others := priorities.keys() - {vc.name for vc in granted}:
        raise BadRequest(f"The user may not use virtual cluster {min(others)}, so they have no priority there.")
    if not all(most is None or 0 <= most <= MOST_PRIORITY for most in priorities.values()):
        raise BadRequest(f"The highest priority of a user is a whole number from 0 to {MOST_PRIORITY}.")


def require_another_admin(username: str) -> None:
    """RemoveAdmin when there is no other who signs in by a password: a provider may be away, or change its groups.
    Inside a transaction: of two admins who remove each other at once, the second waits here."""
    admins = User.objects.select_for_update().filter(is_admin=True, is_active=True).order_by("pk")
    if not [admin for admin in admins if admin.username != username and admin.has_usable_password()]:
        raise RemoveAdmin(f"{username} is the last admin with a password. Make another user admin first.")


def require_idle(username: str) -> None:
    if jobs := about_jobs().live("username", [username]).get(username, NO_JOBS).all:
        what = words.count(jobs, "job that has not ended", "jobs that have not ended")
        raise ConflictUser(f"User {username} has {what}. Stop them first.")
