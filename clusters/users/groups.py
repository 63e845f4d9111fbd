"""Groups as v0.14 had them: who may change them, their rows, the audit record.

Every virtual cluster is a group, ``admingroup`` holds the admins, and other groups are the organisation's own and grant
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from clusters.models import Group, GroupMember, VcGrant, VirtualCluster
from clusters.users import rules
from clusters.users import services as users
from clusters.users.queries import load_users, vc_names
from clusters.vcs.rules import ADMIN_GROUP, DEFAULT
from portal.accounts import audit
from portal.accounts.viewer import Viewer, require_admin
from portal.core.errors import BadRequest, ConflictGroup, Forbidden, NoGroup
from portal.models import User

VC, ADMIN = "vc", "admin"  # group types
LONGEST_EXTENSION = 100_000  # characters of JSON


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """``kind`` is vc, admin or empty."""

    name: str
    kind: str
    description: str
    external_name: str
    extension: dict[str, Any]


def load_groups() -> list[GroupRecord]:
    """Virtual clusters first, then the organisation's own by name, then the admins'. Two queries."""
    rows = {group.name: group for group in Group.objects.order_by("name")}
    vcs = vc_names()
    own = [name for name in rows if name not in vcs and name != ADMIN_GROUP]
    return [_record(name, VC if name in vcs else _kind(name), rows.get(name)) for name in (*vcs, *own, ADMIN_GROUP)]


def find_group(name: str) -> GroupRecord:
    """The group, or NoGroup (404)."""
    for group in load_groups():
        if group.name == name:
            return group
    raise NoGroup(f"Group {name} is not found.")


def members(name: str) -> list[tuple[str, bool]]:
    """(user name, whether an admin) of each member, by name. Raises NoGroup."""
    find_group(name)
    return [(user.username, user.admin) for user in load_users() if name in user.groups]


def create_group(
    actor: Viewer,
    name: str,
    *,
    description: str = "",
    external_name: str = "",
    extension: dict[str, Any] | None = None,
    ip: str | None = None,
) -> None:
    """ConflictGroup when a group or a virtual cluster has the name."""
    who = require_admin(actor).username
    kept = _checked(extension or {})
    if (extension or {}).get("groupType") in (VC, ADMIN):
        raise BadRequest("A virtual cluster brings its group with it: make the virtual cluster.")
    if name == ADMIN_GROUP or VirtualCluster.objects.filter(name=name).exists():
        raise ConflictGroup(f"Group name {name} already exists.")
    try:
        with transaction.atomic():
            Group.objects.create(name=name, description=description, external_name=external_name, extension=kept)
            audit.record(who, "group made", name, ip)
    except IntegrityError:
        raise ConflictGroup(f"Group name {name} already exists.") from None


def change_group(
    actor: Viewer,
    name: str,
    *,
    description: str | None = None,
    external_name: str | None = None,
    extension: dict[str, Any] | None = None,
    ip: str | None = None,
) -> None:
    """What is not None is changed; ``extension`` is merged. A group's type stays what it is."""
    who = require_admin(actor).username
    find_group(name)
    given = {"description": description, "external_name": external_name}
    with transaction.atomic():
        vc = VirtualCluster.objects.filter(name=name).first()
        row, _ = Group.objects.select_for_update().get_or_create(name=name, defaults={"vc": vc})
        for field, value in given.items():
            if value is not None:
                setattr(row, field, value)
        row.extension = _checked({**row.extension, **(extension or {})})
        row.save()
        changed = [field for field, value in (*given.items(), ("extension", extension)) if value is not None]
        audit.record(who, "group changed", name, ip, {"changed": changed})


def delete_group(actor: Viewer, name: str, ip: str | None = None) -> None:
    """One of the organisation's own; Forbidden for the admins' and for those of virtual clusters."""
    who = require_admin(actor).username
    group = find_group(name)
    if group.kind:
        raise Forbidden(f"Group {name} is not allowed to remove.")
    with transaction.atomic():
        Group.objects.filter(name=name, vc=None).delete()
        audit.record(who, "group deleted", name, ip)


def set_grouplist(actor: Viewer, username: str, names: Iterable[str], ip: str | None = None) -> None:
    """From now on the user is in exactly these groups, and in ``default``: grants, memberships and, by ``admingroup``,
    the role."""
    who = require_admin(actor).username
    wanted = set(names)
    kinds = {group.name: group.kind for group in load_groups()}
    if missing := sorted(wanted - set(kinds)):
        raise NoGroup(f"Updated nonexistent grouplist: {','.join(missing)}")
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        users.set_admin(actor, username, ADMIN_GROUP in wanted, ip)
        vcs = rules.known_vcs(sorted(name for name in wanted if kinds[name] == VC))
        rules.write_grants(username, [] if ADMIN_GROUP in wanted else vcs)
        GroupMember.objects.filter(username=username).delete()
        own = Group.objects.filter(vc=None, name__in=[name for name in wanted if not kinds[name]])
        GroupMember.objects.bulk_create(GroupMember(group=group, username=user.username) for group in own)
        audit.record(who, "groups changed", username, ip, {"groups": sorted(wanted)})


def add_member(actor: Viewer, username: str, name: str, ip: str | None = None) -> None:
    """Put a user into a group. Forbidden for admins, who are in all of them."""
    who = require_admin(actor).username
    with transaction.atomic():
        user = _changeable(username)
        kind = find_group(name).kind
        if kind == ADMIN:
            users.set_admin(actor, username, True, ip)
        elif kind == VC:
            _grant(user, name)
        else:
            GroupMember.objects.get_or_create(group=Group.objects.get(name=name), username=username)
        audit.record(who, "added to group", username, ip, {"group": name})


def remove_member(actor: Viewer, username: str, name: str, ip: str | None = None) -> None:
    """Take a user out of a group. Forbidden for admins, and for ``default``, which everybody is in."""
    who = require_admin(actor).username
    with transaction.atomic():
        _changeable(username)
        find_group(name)
        if name == DEFAULT:
            raise Forbidden("Every user is in the group default.")
        VcGrant.objects.filter(username=username, vc__name=name).delete()
        GroupMember.objects.filter(username=username, group__name=name).delete()
        audit.record(who, "removed from group", username, ip, {"group": name})


def _kind(name: str) -> str:
    return ADMIN if name == ADMIN_GROUP else ""


def _record(name: str, kind: str, row: Group | None) -> GroupRecord:
    group = row or Group(name=name)
    extension = {**({"groupType": kind} if kind else {}), **group.extension}
    return GroupRecord(name, kind, group.description, group.external_name, extension)


def _checked(extension: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in extension.items() if key != "groupType" or value not in (VC, ADMIN)}
    if len(json.dumps(kept)) > LONGEST_EXTENSION:
        raise BadRequest(f"The extension is longer than {LONGEST_EXTENSION} characters.")
    return kept


def _changeable(username: str) -> User:
    user = rules.find_user(username, lock=True)
    if user.is_admin:
        raise Forbidden("Admin's grouplist cannot be updated.")
    return user


def _grant(user: User, vc: str) -> None:
    have = VcGrant.objects.filter(username=user.username).values_list("vc__name", flat=True)
    rules.write_grants(user.username, rules.known_vcs([*have, vc]))
