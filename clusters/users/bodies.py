"""Reads the bodies of the routes about users and groups, in v1's order, and refuses them in its words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from rest_framework.request import Request

from portal.core.errors import BadRequest
from portal.web.api.v1 import fields, flag_of, quota_of, refuse_others, text_of, wrong

LEAST_PASSWORD = 6
MOST_NAMES = 1000
_LONGEST_TEXT = 255
_USERNAME = re.compile(r"[\w.-]+", re.ASCII)
_VCS = re.compile(r"[A-Za-z0-9_,]*")
_GROUP = re.compile(r"[A-Za-z0-9_]{1,64}")
_TOKEN = re.compile(r"[A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class UserPut:
    username: str
    password: str
    admin: bool | None
    modify: bool


@dataclass(frozen=True, slots=True)
class NewUser:
    username: str
    email: str
    vcs: list[str]
    admin: bool
    password: str
    extension: dict[str, Any]


def user_put(request: Request) -> UserPut:
    data = fields(request)
    username = username_of(data)
    admin = flag_of(data, "admin") if "admin" in data else None
    modify = flag_of(data, "modify")
    may_keep = modify and data.get("password", "") == ""
    password = "" if may_keep else password_of(data, "password")
    refuse_others(data, ("username", "admin", "modify", "password"))
    return UserPut(username, password, admin, modify)


def user_delete(request: Request) -> str:
    data = fields(request)
    username = username_of(data)
    refuse_others(data, ("username",))
    return username


def vcs_put(request: Request) -> list[str]:
    """A comma string, or nothing."""
    data = fields(request)
    text = text_of(data, "virtualClusters", empty=True) if "virtualClusters" in data else ""
    if not _VCS.fullmatch(text):
        sentence = f'with value "{text}" fails to match the required pattern: /^[A-Za-z0-9_,]+$/'
        raise wrong("virtualClusters", sentence)
    refuse_others(data, ("virtualClusters",))
    return [name for name in text.split(",") if name]


def pat_put(request: Request) -> str:
    data = fields(request)
    pat = text_of(data, "githubPAT", empty=True)
    if not _TOKEN.fullmatch(pat):
        raise wrong("githubPAT", "must only contain alpha-numeric and underscore characters")
    refuse_others(data, ("githubPAT",))
    return pat


def new_user(request: Request) -> NewUser:
    data = fields(request)
    username = username_of(data)
    email = email_of(data)
    vcs = names_of(data, "virtualCluster") if "virtualCluster" in data else []
    admin = flag_of(data, "admin", False)
    password = password_of(data, "password")
    extension = object_of(data, "extension") if "extension" in data else {}
    refuse_others(data, ("username", "email", "virtualCluster", "admin", "password", "extension"))
    return NewUser(username, email, vcs, admin, password, extension)


def passwords(request: Request) -> tuple[str, str]:
    """Old (empty when not given) and new."""
    data = fields(request)
    old = password_of(data, "oldPassword") if "oldPassword" in data else ""
    new = password_of(data, "newPassword")
    refuse_others(data, ("oldPassword", "newPassword"))
    return old, new


def admin_put(request: Request) -> bool:
    data = fields(request)
    admin = flag_of(data, "admin")
    refuse_others(data, ("admin",))
    return admin


def email_put(request: Request) -> str:
    data = fields(request)
    email = email_of(data)
    refuse_others(data, ("email",))
    return email


def quota_put(request: Request) -> int | None:
    data = fields(request)
    quota = quota_of(data, "storeQuota")
    refuse_others(data, ("storeQuota",))
    return quota


def extension_put(request: Request) -> dict[str, Any]:
    data = fields(request)
    extension = object_of(data, "extension") if "extension" in data else {}
    refuse_others(data, ("extension",))
    return extension


def names_put(request: Request, name: str) -> list[str]:
    data = fields(request)
    names = names_of(data, name)
    refuse_others(data, (name,))
    return names


def group_put(request: Request) -> str:
    data = fields(request)
    name = groupname_of(data)
    refuse_others(data, ("groupname",))
    return name


def text_put(request: Request, name: str) -> str:
    data = fields(request)
    text = short_text(data, name)
    refuse_others(data, (name,))
    return text


def new_group(request: Request) -> tuple[str, str, str, dict[str, Any]]:
    """Name, description, external name, extension."""
    data = fields(request)
    name = groupname_of(data)
    description, external = short_text(data, "description"), short_text(data, "externalName")
    extension = object_of(data, "extension") if "extension" in data else {}
    refuse_others(data, ("groupname", "description", "externalName", "extension"))
    return name, description, external, extension


def username_of(data: Mapping[str, Any]) -> str:
    name = text_of(data, "username")
    if not _USERNAME.fullmatch(name):
        raise wrong("username", f'with value "{name}" fails to match the username pattern')
    return name


def password_of(data: Mapping[str, Any], name: str) -> str:
    password = text_of(data, name)
    if len(password) < LEAST_PASSWORD:
        raise wrong(name, f"length must be at least {LEAST_PASSWORD} characters long")
    return password


def email_of(data: Mapping[str, Any]) -> str:
    email = text_of(data, "email", empty=True) if "email" in data else ""
    try:
        validate_email(email or "nobody@example.org")
    except ValidationError:
        raise wrong("email", "must be a valid email") from None
    return email


def groupname_of(data: Mapping[str, Any]) -> str:
    name = text_of(data, "groupname")
    if not _GROUP.fullmatch(name):
        raise wrong("groupname", f'with value "{name}" fails to match the groupname pattern')
    return name


def short_text(data: Mapping[str, Any], name: str) -> str:
    text = text_of(data, name, empty=True) if name in data else ""
    if len(text) > _LONGEST_TEXT:
        raise wrong(name, f"length must be less than or equal to {_LONGEST_TEXT} characters long")
    return text


def names_of(data: Mapping[str, Any], name: str) -> list[str]:
    if name not in data:
        raise wrong(name, "is required")
    names = data[name]
    if not isinstance(names, list):
        raise wrong(name, "must be an array")
    for position, item in enumerate(names):
        problem = "" if isinstance(item, str) else "must be a string"
        problem = problem or ("" if item else "is not allowed to be empty")
        if problem:
            raise wrong(name, f'at position {position} fails because ["{position}" {problem}]')
    if len(names) > MOST_NAMES:
        raise BadRequest(f"More than {MOST_NAMES} names.")
    return names


def object_of(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(data[name], dict):
        raise wrong(name, "must be an object")
    found: dict[str, Any] = data[name]
    return found
