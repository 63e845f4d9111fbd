"""``/user`` as v0.9 to v0.13 had it (v1 contract, 3.5). As there the token is checked first, then the body, then the
role."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.users import bodies, shapes
from clusters.users import services as users
from clusters.users.api_v2 import OneUser, make_user
from clusters.users.queries import UserRecord
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_user
from portal.web.api.openapi import Message, errors
from portal.web.api.v1 import V1View, said


class Users(V1View):
    @extend_schema(summary="All users, in v0.9's words", responses={200: list[shapes.UserItem], **errors(403)})
    def get(self, request: Request) -> Response:
        return Response([_item(record) for record in users.list_users(require_user(request))])

    @extend_schema(
        summary="Make or change a user", request=shapes.UserPut, responses={201: Message, **errors(404, 409)}
    )
    def put(self, request: Request) -> Response:
        actor = require_user(request)
        put = bodies.user_put(request)
        if put.modify:
            users.update_user(actor, put.username, password=put.password, admin=put.admin, ip=ip_of(request))
        else:
            new: dict[str, Any] = {"username": put.username, "password": put.password, "admin": bool(put.admin)}
            users.create_user(actor, **new, ip=ip_of(request))
        return said("update successfully")

    @extend_schema(summary="Make a user (v2 body)", request=shapes.NewUser, responses={201: Message, **errors(409)})
    def post(self, request: Request) -> Response:
        return make_user(request)

    @extend_schema(
        summary="Remove the user that the body names", responses={200: Message, **errors(400, 404, 409, 413)}
    )
    def delete(self, request: Request) -> Response:
        actor = require_user(request)
        users.delete_user(actor, bodies.user_delete(request), ip=ip_of(request))
        return said("remove successfully", 200)


class UserVirtualClusters(V1View):
    @extend_schema(
        summary="Where a user may submit: a comma string", request=shapes.GrantText, responses={201: Message}
    )
    def put(self, request: Request, username: str) -> Response:
        actor = require_user(request)
        users.set_grants(actor, username, bodies.vcs_put(request), ip=ip_of(request))
        return said("update user virtual clusters successfully")


class UserGithubPat(V1View):
    @extend_schema(summary="Note or clear a GitHub token", request=shapes.GithubPat, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        actor = require_user(request)
        users.set_github_pat(actor, username, bodies.pat_put(request), ip=ip_of(request))
        return said("update user github PAT successfully")


class OneUserToo(OneUser):
    """v0.14's object, with the key that v0.13 had besides."""

    def shown(self, record: UserRecord, full: bool) -> shapes.UserObject:
        return {**super().shown(record, full), "hasGithubPAT": record.has_github_pat}


def _item(record: UserRecord) -> shapes.UserItem:
    item: shapes.UserItem = {
        "username": record.username,
        "admin": "true" if record.admin else "false",
        "hasGithubPAT": record.has_github_pat,
    }
    if record.is_granted:
        item["virtualCluster"] = ",".join(sorted(record.vcs))
    return item
