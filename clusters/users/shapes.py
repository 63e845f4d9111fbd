"""What the routes about users and groups take and answer, as the API's document shows it.

Views return the TypedDicts. The models describe bodies, which ``clusters.users.bodies`` reads in v1's order and words.
"""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,  # pydantic reads no other TypedDict before Python 3.12
)

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

_Username = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", min_length=1, max_length=64)]
_Groupname = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$", min_length=1, max_length=64)]
_Password = Annotated[str, Field(min_length=6, max_length=1024)]
_ShortText = Annotated[str, Field(max_length=255)]
_Flag = bool | Literal["true", "false"]  # forms send text


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


class GroupObject(TypedDict):
    """``extension.groupType`` is vc for the group of a virtual cluster, admin for that of the admins."""

    groupname: str
    description: str
    externalName: str
    extension: dict[str, Any]


class GroupMember(TypedDict):
    username: str
    clusterAdmin: bool


class UserPut(BaseModel):
    """``modify`` false makes a user; true changes one, and a password left out or empty stays."""

    username: _Username
    password: _Password | Literal[""] | None = None
    admin: _Flag | None = None
    modify: _Flag


class NewUser(BaseModel):
    username: _Username
    password: _Password
    email: str = ""
    virtualCluster: list[str] = []
    admin: _Flag = False
    extension: dict[str, Any] = {}


class GrantText(BaseModel):
    virtualClusters: str = Field("", pattern=r"^[A-Za-z0-9_,]*$")


class GithubPat(BaseModel):
    githubPAT: str = Field(pattern=r"^[A-Za-z0-9_]*$", description="Empty clears it. Only that there is one is kept.")


class PasswordChange(BaseModel):
    """Admins may leave out the old one."""

    oldPassword: _Password | None = None
    newPassword: _Password


class Grants(BaseModel):
    virtualCluster: list[str]


class AdminFlag(BaseModel):
    admin: _Flag


class StoreQuota(BaseModel):
    storeQuota: int | str | None = Field(description="Bytes, a text such as 100g, none or -1 for no limit, or null.")


class EmailChange(BaseModel):
    email: str = ""


class ExtensionChange(BaseModel):
    extension: dict[str, Any] = {}


class GroupList(BaseModel):
    grouplist: list[str]


class GroupName(BaseModel):
    groupname: _Groupname


class NewGroup(BaseModel):
    groupname: _Groupname
    description: _ShortText = ""
    externalName: _ShortText = ""
    extension: dict[str, Any] = {}


class Description(BaseModel):
    description: _ShortText = ""


class ExternalName(BaseModel):
    externalName: _ShortText = ""
