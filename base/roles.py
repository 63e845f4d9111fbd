"""Who may do what: one table, from which checks, pages and docs/run/roles.md come. Pure.

An account has one of ROLES. Beside that everybody is the owner of what is theirs, and the manager of the virtual
clusters that an admin gave them to manage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum


class Role(StrEnum):
    ADMIN = "admin"
    AUDITOR = "auditor"
    USER = "user"
    MANAGER = "manager"  # of the virtual cluster that it is about
    OWNER = "owner"  # whose job or account it is about


ROLES: Mapping[Role, str] = {
    Role.USER: "May use what was granted",
    Role.AUDITOR: "Reads what admins read, and changes nothing but the own account",
    Role.ADMIN: "May use every virtual cluster, change nodes, users and all jobs",
}


def by_flag(is_admin: bool) -> Role:
    """The role as v1 gave it."""
    return Role.ADMIN if is_admin else Role.USER


@dataclass(frozen=True, slots=True)
class AllowedRoles:
    says: str
    roles: frozenset[Role]


def _to(says: str, *roles: Role) -> AllowedRoles:
    return AllowedRoles(says, frozenset(roles))


class Permission(Enum):
    """What somebody may do, and who."""

    READ_JOB = _to("Read all of a private job: config, logs, metrics, events", Role.OWNER, Role.AUDITOR, Role.ADMIN)
    READ_ALL = _to(
        "Read what everybody did, users, hosts, forecasts, policies, and the use of all", Role.AUDITOR, Role.ADMIN
    )
    USE = _to("Submit jobs, write files, save templates", Role.USER, Role.ADMIN)
    CHANGE_JOB = _to("Stop, change, delete and get into a job, and share its pages", Role.OWNER, Role.ADMIN)
    ORDER_JOBS = _to("Raise a job and change the order in its virtual cluster", Role.MANAGER, Role.ADMIN)
    GRANT = _to("Say who may use the virtual cluster, and how far up their priorities go", Role.MANAGER, Role.ADMIN)
    SET_VC = _to(
        "Stop and activate the virtual cluster; set what its users share and may have at most, and how long logs stay",
        Role.MANAGER,
        Role.ADMIN,
    )
    APPOINT = _to("Make appointments of the virtual cluster within its guarantee", Role.MANAGER, Role.ADMIN)
    CHANGE_ACCOUNT = _to("Change an account: password, e-mail, tokens, keys", Role.OWNER, Role.ADMIN)
    ADMINISTER = _to(
        "All else: nodes, users and roles, capacity of virtual clusters, replay, files of others", Role.ADMIN
    )


OF_AUDITORS = frozenset(action for action in Permission if Role.AUDITOR in action.value.roles) | {
    Permission.CHANGE_ACCOUNT
}
