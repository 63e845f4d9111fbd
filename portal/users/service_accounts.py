"""``/api/v1/service-accounts``: accounts of programs, which have no password, and their tokens. Apart from ``/user``,
whose words are v1's; that removes them too, and changes what they may use."""

from __future__ import annotations

from typing import Annotated, Literal

from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.accounts.scopes import ALL, Scope
from base.accounts.services import LONGEST_TOKEN_NAME, MOST_TOKEN_DAYS, create_token, live_tokens, revoke_token
from base.core.errors import NotFound
from base.core.values import Moment, MomentOrNull, V1Answer, called
from base.roles import ROLES, Role
from clusters.users.queries import find_service_account, load_user, load_users
from clusters.users.services import create_user
from portal.shared.api.bodies import STORABLE, V1Body, WholeNumber, read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.v1 import V1View, message_response, telling_what_is_left
from portal.shared.viewer import admin_of, all_reader_of
from portal.users.shapes import Names, Username


class ServiceAccount(V1Answer):
    """``owner`` is the user who answers for it."""

    username: str = called("user.username")
    owner: str = called("user.owner")
    role: Annotated[str, Field(json_schema_extra={"enum": [*ROLES]})] = called("user.role")
    enabled: bool = called("user.is_active")
    virtualCluster: list[str] = called("vcs")


class NewServiceAccount(V1Body):
    username: Username
    owner: Username
    role: Literal["user", "auditor", "admin"] = "user"
    virtual_cluster: Names = []


class TokenItem(V1Answer):
    """``scopes`` is empty where it may do all that its account may."""

    id: int = called("pk")
    name: str
    scopes: str
    created: Moment = called("created_at")
    expires: Moment = called("expires_at")
    lastUsed: MomentOrNull = called("last_used_at")


class NewToken(V1Body):
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_TOKEN_NAME), STORABLE]
    days: WholeNumber = Field(ge=1, le=MOST_TOKEN_DAYS)
    scopes: list[Annotated[str, Field(json_schema_extra={"enum": [ALL, *Scope]})]] = Field(
        min_length=1, max_length=len(Scope) + 1, description=f"{ALL} is all."
    )


class MadeToken(TypedDict):
    """``token`` is shown this once."""

    token: str


class ServiceAccounts(V1View):
    @extend_schema(summary="Accounts of programs", responses={200: list[ServiceAccount], **errors(403)})
    def get(self, request: Request) -> Response:
        all_reader_of(request)
        return Response([ServiceAccount.of(record) for record in load_users() if record.user.owner])

    @extend_schema(
        summary="Make an account for a program",
        request=NewServiceAccount,
        responses={201: ServiceAccount, **errors(409)},
    )
    def post(self, request: Request) -> Response:
        admin, new = admin_of(request), read(NewServiceAccount, request)
        grants, role = new.virtual_cluster, Role(new.role)
        create_user(admin, username=new.username, password="", role=role, owner=new.owner, vcs=grants)
        made = Response(ServiceAccount.of(load_user(new.username)), status=status.HTTP_201_CREATED)
        return telling_what_is_left(made, new.username)


class ServiceTokens(V1View):
    @extend_schema(summary="The tokens of a program", responses={200: list[TokenItem], **errors(403, 404)})
    def get(self, request: Request, username: str) -> Response:
        admin_of(request)
        return Response([TokenItem.of(row) for row in live_tokens(find_service_account(username))])

    @extend_schema(summary="Make a token for a program", request=NewToken, responses={201: MadeToken, **errors(404)})
    def post(self, request: Request, username: str) -> Response:
        admin, robot, new = admin_of(request), find_service_account(username), read(NewToken, request)
        answer: MadeToken = {"token": create_token(robot, new.name, new.days, new.scopes, by=admin)}
        return Response(answer, status=status.HTTP_201_CREATED)


class ServiceToken(V1View):
    @extend_schema(summary="Revoke a token of a program", responses={200: Message})
    def delete(self, request: Request, username: str, id: int) -> Response:
        admin, robot = admin_of(request), find_service_account(username)
        if not revoke_token(robot, id, by=admin):
            raise NotFound("There is no such token; it may have been revoked.")
        return message_response("The token was revoked.", status.HTTP_200_OK)
