"""Groups as v0.14 had them: who may change them, their rows, the audit record.

Every virtual cluster is a group, ``admingroup`` holds the admins, and other groups are the organisation's own and grant
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from base.accounts import audit
from base.accounts.viewer import Viewer, require, require_admin
from base.core.errors import BadRequest, ConflictGroup, Forbidden, NoGroup
from base.models import User
from base.roles import Permission
from clusters.models import Group, GroupMember, VcGrant, VirtualCluster
from clusters.users import rules
from clusters.users.queries import load_users
from clusters.users.services import update_user
from clusters.vcs.grants import grants_of, managed_by, vc_names
from clusters.vcs.rules import ADMIN_GROUP, DEFAULT_VC

VC, ADMIN = "vc", "admin"  # group types

NON_ADMIN = "Non-admin is not allow to do this operation."  # as v1 has it


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
    kinds = {**dict.fromkeys(vcs, VC), **dict.fromkeys(own, ""), ADMIN_GROUP: ADMIN}
    return [_record(name, kind, rows.get(name)) for name, kind in kinds.items()]


def find_group(name: str) -> GroupRecord:
    """Return the group, or NoGroup (404)."""
    for group in load_groups():
        if group.name == name:
            return group
    raise NoGroup(f"Group {name} is not found.")


def members(name: str) -> list[tuple[str, bool]]:
    """Return (user name, whether an admin) of each member, by name. Raises NoGroup."""
    find_group(name)
    return [(record.user.username, record.user.is_admin) for record in load_users() if name in record.groups]


def create_group(actor: Viewer, name: str, *, description: str, external_name: str, extension: dict[str, Any]) -> None:
    """ConflictGroup when a group or a virtual cluster has the name."""
    who = require_admin(actor).username
    checked = _checked(extension)
    if extension.get("groupType") in (VC, ADMIN):
        raise BadRequest("A virtual cluster brings its group with it: make the virtual cluster.")
    if name == ADMIN_GROUP or VirtualCluster.objects.filter(name=name).exists():
        raise ConflictGroup(f"Group name {name} already exists.")
    try:
        with transaction.atomic():
            Group.objects.create(name=name, description=description, external_name=external_name, extension=checked)
            audit.record(who, "group made", name)
    except IntegrityError:
        raise ConflictGroup(f"Group name {name} already exists.") from None


def change_group(actor: Viewer, name: str, changes: Mapping[str, Any]) -> None:
    """Change columns: description, external_name, and extension, which is merged. A group's type stays what it is."""
    who = require_admin(actor).username
    find_group(name)
    with transaction.atomic():
        vc = VirtualCluster.objects.filter(name=name).first()
        row, _ = Group.objects.select_for_update().get_or_create(name=name, defaults={"vc": vc})
        for field, value in changes.items():
            setattr(row, field, value if field != "extension" else {**row.extension, **value})
        row.extension = _checked(row.extension)
        row.save()
        audit.record(who, "group changed", name, {"changed": sorted(changes)})


def delete_group(actor: Viewer, name: str) -> None:
    """Delete one of the organisation's own groups. Forbidden for the admins' and for those of virtual clusters."""
    who = require_admin(actor).username
    group = find_group(name)
    if group.kind:
        raise Forbidden(f"Group {name} is not allowed to remove.")
    with transaction.atomic():
        Group.objects.filter(name=name, vc=None).delete()
        audit.record(who, "group deleted", name)


def set_grouplist(actor: Viewer, username: str, names: Iterable[str]) -> None:
    """From now on the user is in exactly these groups, and in ``default``: grants, memberships and, by ``admingroup``,
    the role."""
    who = require_admin(actor).username
    wanted = set(names)
    kinds = {group.name: group.kind for group in load_groups()}
    if missing := sorted(wanted - set(kinds)):
        raise NoGroup(f"Updated nonexistent grouplist: {','.join(missing)}")
    with transaction.atomic():
        user = rules.find_user(username, lock=True)
        update_user(actor, username, admin=ADMIN_GROUP in wanted)
        vcs = rules.known_vcs(sorted(name for name in wanted if kinds[name] == VC))
        rules.write_grants(username, [] if ADMIN_GROUP in wanted else vcs)
        GroupMember.objects.filter(username=username).delete()
        own = Group.objects.filter(vc=None, name__in=[name for name in wanted if not kinds[name]])
        GroupMember.objects.bulk_create(GroupMember(group=group, username=user.username) for group in own)
        audit.record(who, "groups changed", username, {"groups": sorted(wanted)})


def add_member(actor: Viewer, username: str, name: str) -> None:
    """Put a user into a group. Forbidden for admins, who are in all of them."""
    who = require(actor, Permission.GRANT, NON_ADMIN, vc=name).username
    with transaction.atomic():
        user = _changeable(username)
        kind = find_group(name).kind
        if kind == ADMIN:
            update_user(actor, username, admin=True)
        elif kind == VC:
            _grant(user, name)
        else:
            GroupMember.objects.get_or_create(group=Group.objects.get(name=name), username=username)
        audit.record(who, "added to group", username, {"group": name})


def remove_member(actor: Viewer, username: str, name: str) -> None:
    """Take a user out of a group. Forbidden for admins, and for ``default``, which everybody is in."""
    who = require(actor, Permission.GRANT, NON_ADMIN, vc=name).username
    with transaction.atomic():
        _changeable(username)
        find_group(name)
        if name == DEFAULT_VC:
            raise Forbidden("Every user is in the group default.")
        if name in managed_by(username):
            require_admin(actor, "Only an admin says who manages a virtual cluster.")
        VcGrant.objects.filter(username=username, vc__name=name).delete()
        rules.forget_given(username, grants_of([username])[username])
        GroupMember.objects.filter(username=username, group__name=name).delete()
        audit.record(who, "removed from group", username, {"group": name})


def _record(name: str, kind: str, row: Group | None) -> GroupRecord:
    group = row or Group(name=name)
    extension = {**({"groupType": kind} if kind else {}), **group.extension}
    return GroupRecord(name, kind, group.description, group.external_name, extension)


def _checked(extension: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in extension.items() if key != "groupType" or value not in (VC, ADMIN)}
    rules.check_extension(kept)
    return kept


def _changeable(username: str) -> User:
    user = rules.find_user(username, lock=True)
    if user.is_admin:
        raise Forbidden("Admin's grouplist cannot be updated.")
    return user


def _grant(user: User, vc: str) -> None:
    rules.write_grants(user.username, rules.known_vcs([*grants_of([user.username])[user.username], vc]))
