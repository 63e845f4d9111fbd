"""``/user`` as v0.14 has it (v1 contract, 3.10). As there the token is checked first, then the body, then the role."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.users import bodies, groups, shapes
from clusters.users import services as users
from clusters.users.queries import UserRecord, load_user, load_users
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_user
from portal.accounts.services import check_password
from portal.accounts.viewer import require_admin, require_self_or_admin, viewer_of
from portal.core.errors import Forbidden, IncorrectPassword, NoUser
from portal.models import User
from portal.web.api.openapi import Message, errors
from portal.web.api.v1 import V1View, said

NON_ADMIN = "Non-admin is not allow to do this operation."


class Users(V1View):
    @extend_schema(summary="All users", responses=list[shapes.UserObject])
    def get(self, request: Request) -> Response:
        viewer = require_user(request)
        return Response([user_object(record, _sees_all(viewer, record.username)) for record in load_users()])

    @extend_schema(summary="Make a user", request=shapes.NewUser, responses={201: Message, **errors(409)})
    def post(self, request: Request) -> Response:
        return make_user(request)


class OneUser(V1View):
    @extend_schema(summary="One user", responses={200: shapes.UserObject, **errors(400)})
    def get(self, request: Request, username: str) -> Response:
        viewer = require_user(request)
        record = load_user(username)
        if record is None:
            raise NoUser(f"User {username} is not found.")
        return Response(self.shown(record, _sees_all(viewer, username)))

    @extend_schema(summary="Remove a user", responses={200: Message, **errors(409)})
    def delete(self, request: Request, username: str) -> Response:
        users.delete_user(require_admin(viewer_of(request), NON_ADMIN), username, ip=ip_of(request))
        return said("user is removed successfully", 200)

    def shown(self, record: UserRecord, full: bool) -> shapes.UserObject:
        return user_object(record, full)


class Password(V1View):
    @extend_schema(summary="Change a password", request=shapes.PasswordChange, responses={201: Message, **errors(429)})
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        old, new = bodies.passwords(request)
        actor = require_self_or_admin(user, username, NON_ADMIN)
        if not actor.is_admin:
            _prove(request, actor, old)
        users.set_password(actor, username, new, check_old=False, ip=ip_of(request))
        return said("update user password successfully.")


class VirtualClusters(V1View):
    @extend_schema(summary="Where a user may submit", request=shapes.Grants, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        names = bodies.names_put(request, "virtualCluster")
        users.set_grants(require_admin(user, NON_ADMIN), username, names, ip=ip_of(request))
        return said("Update user virtualCluster data successfully.")


class Admin(V1View):
    @extend_schema(summary="Make a user admin or not", request=shapes.AdminFlag, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        admin = bodies.admin_put(request)
        users.set_admin(require_admin(user, NON_ADMIN), username, admin, ip=ip_of(request))
        return said("Update user admin permission successfully.")


class Email(V1View):
    @extend_schema(summary="Change an e-mail address", request=shapes.EmailChange, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        email = bodies.email_put(request)
        users.set_email(require_self_or_admin(user, username, NON_ADMIN), username, email, ip=ip_of(request))
        return said("Update user email data successfully.")


class StoreQuota(V1View):
    @extend_schema(summary="Limit what a user's files may take", request=shapes.StoreQuota, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        quota = bodies.quota_put(request)
        users.set_store_quota(require_admin(user, NON_ADMIN), username, quota, ip=ip_of(request))
        return said("Update user store quota successfully.")


class Extension(V1View):
    @extend_schema(
        summary="Merge into what clients keep with a user", request=shapes.ExtensionChange, responses={201: Message}
    )
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        extension = bodies.extension_put(request)
        users.merge_extension(require_self_or_admin(user, username, NON_ADMIN), username, extension, ip=ip_of(request))
        return said("Update user extension data successfully.")


class Grouplist(V1View):
    @extend_schema(summary="Exactly these groups", request=shapes.GroupList, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        names = bodies.names_put(request, "grouplist")
        groups.set_grouplist(require_admin(user, NON_ADMIN), username, names, ip=ip_of(request))
        return said("update user grouplist successfully.")


class Membership(V1View):
    @extend_schema(summary="Put a user into a group", request=shapes.GroupName, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        user = require_user(request)
        name = bodies.group_put(request)
        groups.add_member(require_admin(user, NON_ADMIN), username, name, ip=ip_of(request))
        return said(f"User {username} is added into group {name}")

    @extend_schema(summary="Take a user out of a group", responses={201: Message, **errors(400, 413)})
    def delete(self, request: Request, username: str) -> Response:
        user = require_user(request)
        name = bodies.group_put(request)
        groups.remove_member(require_admin(user, NON_ADMIN), username, name, ip=ip_of(request))
        return said(f"User {username} is removed from group {name}")


def make_user(request: Request) -> Response:
    user = require_user(request)
    new = bodies.new_user(request)
    users.create_user(
        require_admin(user, NON_ADMIN),
        username=new.username,
        password=new.password,
        admin=new.admin,
        vcs=new.vcs,
        email=new.email,
        extension=new.extension,
        ip=ip_of(request),
    )
    return said("User is created successfully")


def user_object(record: UserRecord, full: bool) -> shapes.UserObject:
    """``full``: with all of what clients keep with the user and their quota, for themselves and admins."""
    vcs = list(record.vcs)
    answer: shapes.UserObject = {
        "username": record.username,
        "email": record.email,
        "grouplist": list(record.groups),
        "extension": {**(record.extension if full else {}), "virtualCluster": vcs},
        "admin": record.admin,
        "virtualCluster": vcs,
    }
    if full:
        answer["storeQuota"] = record.store_quota
    return answer


def _sees_all(viewer: User, username: str) -> bool:
    return viewer.is_admin or viewer.username == username


def _prove(request: Request, user: User, password: str) -> None:
    """Forbidden when the password is wrong. Failures count as those of the login do."""
    try:
        check_password(request._request, user.username, password)
    except IncorrectPassword:
        raise Forbidden("Pls input the correct password.") from None
