"""What the routes about users and groups take and answer, as the API's document shows it. Views return TypedDicts."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from pydantic import AfterValidator, Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator
from pydantic_core import PydanticKnownError
from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from base.core.values import V1Answer, absent, called
from clusters.vcs.rules import MOST_PRIORITY
from portal.shared.api.bodies import (
    STORABLE,
    Flag,
    Password,
    Quota,
    ShortText,
    V1Body,
    V1Matches,
    WholeNumber,
    invalid_value,
)

_ABSENT: Any = object()


def _email(value: str) -> str:
    try:
        validate_email(value or "nobody@example.org")
    except ValidationError:
        raise invalid_value("must be a valid email") from None
    return value


_NO_NAMES = 'with value "{value}" fails to match the required pattern: /^[A-Za-z0-9_,]+$/'
_NO_USERNAME = 'with value "{value}" fails to match the username pattern'
_NO_GROUPNAME = 'with value "{value}" fails to match the groupname pattern'
_SIGNS_OF_PAT = "must only contain alpha-numeric and underscore characters"

Username = Annotated[str, Field(min_length=1, max_length=64), V1Matches("[A-Za-z0-9_.-]+", _NO_USERNAME)]
_Groupname = Annotated[str, Field(min_length=1, max_length=64), V1Matches("[A-Za-z0-9_]+", _NO_GROUPNAME)]
Names = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=1000)]
_Email = Annotated[str, STORABLE, AfterValidator(_email)]


class UserItem(TypedDict):
    """v0.9's: ``admin`` is a text, ``virtualCluster`` is there once grants were set."""

    username: str
    admin: Literal["true", "false"]
    virtualCluster: NotRequired[Annotated[str, Field(description="Names with commas between them")]]
    hasGithubPAT: bool


class UserObject(TypedDict):
    """``extension`` holds what clients keep with the user; for other users than this one and admins only
    virtualCluster."""

    username: str
    email: str
    grouplist: list[str]
    extension: dict[str, Any]
    admin: bool
    virtualCluster: list[str]
    priorities: NotRequired[
        Annotated[
            dict[str, int],
            Field(
                description="How far up the user may set the priority of a job, by virtual cluster; of others its"
                " userPriority holds, and admins may set any. Shown to the user and to admins."
            ),
        ]
    ]
    hasGithubPAT: NotRequired[Annotated[bool, Field(description="Below /api/v1 only")]]
    storeQuota: NotRequired[
        Annotated[
            int | None,
            Field(
                description="Bytes; -1: no limit; null: as the virtual clusters or LONGSHORE_STORE_QUOTA say."
                " Shown to the user and to admins."
            ),
        ]
    ]


class GroupObject(V1Answer):
    """``extension.groupType`` is vc for the group of a virtual cluster, admin for that of the admins."""

    groupname: str = called("name")
    description: str
    externalName: str = called("external_name")
    extension: dict[str, Any]


class MemberObject(TypedDict):
    username: str
    clusterAdmin: bool


class UserPut(V1Body):
    """``modify`` false makes a user; true changes one, and a password left out or empty stays."""

    username: Username
    admin: Flag = Field(default_factory=absent)
    modify: Flag
    password: Password = Field(default_factory=lambda: _ABSENT, validate_default=True)

    @field_validator("password", mode="wrap")
    @classmethod
    def _may_stay(cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> str:
        if info.data.get("modify") and value in (_ABSENT, ""):
            return ""
        if value is _ABSENT:
            raise PydanticKnownError("missing")
        return str(check(value))


class UserDelete(V1Body):
    username: Username


class NewUser(V1Body):
    username: Username
    email: _Email = ""
    virtual_cluster: Names = []
    admin: Flag = False
    password: Password
    extension: dict[str, Any] = {}


class GrantText(V1Body):
    virtual_clusters: Annotated[str, V1Matches("[A-Za-z0-9_,]*", _NO_NAMES)] = ""


class GithubPat(V1Body):
    pat: Annotated[str, V1Matches("[A-Za-z0-9_]*", _SIGNS_OF_PAT)] = Field(
        alias="githubPAT", description="Empty clears it. Only that there is one is kept."
    )


class PasswordChange(V1Body):
    """Admins may leave out the old one."""

    old_password: Password = Field(default_factory=absent)
    new_password: Password


class Grants(V1Body):
    virtual_cluster: Names
    priorities: dict[str, Annotated[WholeNumber, Field(ge=0, le=MOST_PRIORITY)] | None] = Field(
        {},
        description="How far up the user may set the priority of a job, by virtual cluster; null: as all its users."
        " What is absent stays as it is.",
    )


class AdminFlag(V1Body):
    admin: Flag


class StoreQuota(V1Body):
    store_quota: Quota = Field(description="Bytes, a text such as 100g, none or -1 for no limit, or null.")


class EmailChange(V1Body):
    email: _Email = ""


class ExtensionChange(V1Body):
    extension: dict[str, Any] = {}


class GroupList(V1Body):
    grouplist: Names


class GroupName(V1Body):
    groupname: _Groupname


class NewGroup(V1Body):
    groupname: _Groupname
    description: ShortText = ""
    external_name: ShortText = ""
    extension: dict[str, Any] = {}


class Description(V1Body):
    description: ShortText = ""


class ExternalName(V1Body):
    external_name: ShortText = ""
