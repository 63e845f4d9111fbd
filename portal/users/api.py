"""``/user`` and ``/group`` as v0.14 has them (v1 contract, 3.10) and, below /api/v1, ``/user`` as v0.9 to v0.13 had it
(3.5). As there the token is checked first, then the body, then the role."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts.viewer import reads_all, require_admin, require_self_or_admin
from base.core.errors import Forbidden, IncorrectPassword, NoUser
from base.models import User
from base.roles import by_flag
from clusters.users import groups, services
from clusters.users.queries import UserRecord, load_user, load_users
from portal.shared.api.bodies import V1Body, read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.v1 import V1View, message_response, telling_what_is_left
from portal.shared.viewer import all_reader_of, user_of, viewer_of
from portal.sign_in.passwords import LOCAL, check_password
from portal.users import shapes

Body = TypeVar("Body", bound=V1Body)
NON_ADMIN = groups.NON_ADMIN


def putting(summary: str, shape: type[Body], says: str) -> Callable[[Callable[[User, Body, str], None]], type[V1View]]:
    """Makes a function that changes what its address names into a view, whose answer ``says`` that it was done. The
    function gets who asks, the body and the name; it asks who may."""

    def view_of(change: Callable[[User, Body, str], None]) -> type[V1View]:
        class Putting(V1View):
            @extend_schema(summary=summary, request=shape, responses={201: Message})
            def put(self, request: Request, **named: str) -> Response:
                change(user_of(request), read(shape, request), *named.values())
                return message_response(says)

        return Putting

    return view_of


class Users(V1View):
    @extend_schema(summary="All users", responses=list[shapes.UserObject])
    def get(self, request: Request) -> Response:
        viewer = user_of(request)
        return Response([user_object(record, _sees_all(viewer, record.user.username)) for record in load_users()])

    @extend_schema(summary="Make a user", request=shapes.NewUser, responses={201: Message, **errors(409)})
    def post(self, request: Request) -> Response:
        return make_user(request)


class OneUser(V1View):
    @extend_schema(summary="One user", responses={200: shapes.UserObject, **errors(400)})
    def get(self, request: Request, username: str) -> Response:
        viewer = user_of(request)
        record = load_user(username)
        if record is None:
            raise NoUser(f"User {username} is not found.")
        return Response(self.shown(record, _sees_all(viewer, username)))

    @extend_schema(summary="Remove a user", responses={200: Message, **errors(409)})
    def delete(self, request: Request, username: str) -> Response:
        services.delete_user(require_admin(viewer_of(request), NON_ADMIN), username)
        return message_response("user is removed successfully", 200)

    def shown(self, record: UserRecord, full: bool) -> shapes.UserObject:
        return user_object(record, full)


class Password(V1View):
    @extend_schema(summary="Change a password", request=shapes.PasswordChange, responses={201: Message, **errors(429)})
    def put(self, request: Request, username: str) -> Response:
        user = user_of(request)
        change = read(shapes.PasswordChange, request)
        actor = require_self_or_admin(user, username, NON_ADMIN)
        if not actor.is_admin:
            _prove(request, actor, change.old_password or "")
        services.update_user(actor, username, password=change.new_password)
        return message_response("update user password successfully.")


@putting("Where a user may submit", shapes.Grants, "Update user virtualCluster data successfully.")
def put_grants(user: User, body: shapes.Grants, username: str) -> None:
    services.set_grants(require_admin(user, NON_ADMIN), username, body.virtual_cluster, body.priorities)


@putting("Make a user admin or not", shapes.AdminFlag, "Update user admin permission successfully.")
def put_admin(user: User, body: shapes.AdminFlag, username: str) -> None:
    services.update_user(require_admin(user, NON_ADMIN), username, admin=body.admin)


@putting("Change an e-mail address", shapes.EmailChange, "Update user email data successfully.")
def put_email(user: User, body: shapes.EmailChange, username: str) -> None:
    services.update_user(require_self_or_admin(user, username, NON_ADMIN), username, email=body.email)


@putting("Limit what a user's files may take", shapes.StoreQuota, "Update user store quota successfully.")
def put_store_quota(user: User, body: shapes.StoreQuota, username: str) -> None:
    services.set_store_quota(require_admin(user, NON_ADMIN), username, body.store_quota)


@putting("Merge into what clients keep with a user", shapes.ExtensionChange, "Update user extension data successfully.")
def put_extension(user: User, body: shapes.ExtensionChange, username: str) -> None:
    services.merge_extension(require_self_or_admin(user, username, NON_ADMIN), username, body.extension)


@putting("Exactly these groups", shapes.GroupList, "update user grouplist successfully.")
def put_grouplist(user: User, body: shapes.GroupList, username: str) -> None:
    groups.set_grouplist(require_admin(user, NON_ADMIN), username, body.grouplist)


class Membership(V1View):
    @extend_schema(summary="Put a user into a group", request=shapes.GroupName, responses={201: Message})
    def put(self, request: Request, username: str) -> Response:
        user = user_of(request)
        name = read(shapes.GroupName, request).groupname
        groups.add_member(user, username, name)
        return message_response(f"User {username} is added into group {name}")

    @extend_schema(summary="Take a user out of a group", responses={201: Message, **errors(400, 413)})
    def delete(self, request: Request, username: str) -> Response:
        user = user_of(request)
        name = read(shapes.GroupName, request).groupname
        groups.remove_member(user, username, name)
        return message_response(f"User {username} is removed from group {name}")


class EarlierUsers(V1View):
    """All users as v0.9 to v0.13 had them."""

    @extend_schema(summary="All users, in v0.9's words", responses={200: list[shapes.UserItem], **errors(403)})
    def get(self, request: Request) -> Response:
        all_reader_of(request)
        return Response([_item(record) for record in load_users()])

    @extend_schema(
        summary="Make or change a user", request=shapes.UserPut, responses={201: Message, **errors(404, 409)}
    )
    def put(self, request: Request) -> Response:
        actor = user_of(request)
        put = read(shapes.UserPut, request)
        if put.modify:
            services.update_user(actor, put.username, password=put.password, admin=put.admin)
            return message_response("update successfully")
        services.create_user(actor, username=put.username, password=put.password, role=by_flag(bool(put.admin)))
        return telling_what_is_left(message_response("update successfully"), put.username)

    @extend_schema(summary="Make a user (v2 body)", request=shapes.NewUser, responses={201: Message, **errors(409)})
    def post(self, request: Request) -> Response:
        return make_user(request)

    @extend_schema(
        summary="Remove the user that the body names", responses={200: Message, **errors(400, 404, 409, 413)}
    )
    def delete(self, request: Request) -> Response:
        actor = user_of(request)
        services.delete_user(actor, read(shapes.UserDelete, request).username)
        return message_response("remove successfully", 200)


@putting("Where a user may submit: a comma string", shapes.GrantText, "update user virtual clusters successfully")
def put_virtual_clusters(user: User, body: shapes.GrantText, username: str) -> None:
    names = body.virtual_clusters.split(",")
    services.set_grants(user, username, [name for name in names if name])


@putting("Note or clear a GitHub token", shapes.GithubPat, "update user github PAT successfully")
def put_github_pat(user: User, body: shapes.GithubPat, username: str) -> None:
    services.set_github_pat(user, username, body.pat)


class OneUserToo(OneUser):
    """v0.14's object, with the key that v0.13 had besides."""

    def shown(self, record: UserRecord, full: bool) -> shapes.UserObject:
        return {**super().shown(record, full), "hasGithubPAT": record.user.has_github_pat}


class Groups(V1View):
    @extend_schema(summary="All groups", responses=list[shapes.GroupObject])
    def get(self, request: Request) -> Response:
        user_of(request)
        return Response([shapes.GroupObject.of(record) for record in groups.load_groups()])

    @extend_schema(summary="Make a group", request=shapes.NewGroup, responses={201: Message, **errors(409)})
    def post(self, request: Request) -> Response:
        user = user_of(request)
        new = read(shapes.NewGroup, request)
        groups.create_group(
            require_admin(user, NON_ADMIN),
            new.groupname,
            description=new.description,
            external_name=new.external_name,
            extension=new.extension,
        )
        return message_response("group is created successfully")


class OneGroup(V1View):
    @extend_schema(summary="One group", responses=shapes.GroupObject)
    def get(self, request: Request, group: str) -> Response:
        user_of(request)
        return Response(shapes.GroupObject.of(groups.find_group(group)))

    @extend_schema(summary="Remove a group", responses={200: Message})
    def delete(self, request: Request, group: str) -> Response:
        groups.delete_group(require_admin(viewer_of(request), NON_ADMIN), group)
        return message_response("group is removed successfully", 200)


class GroupUsers(V1View):
    @extend_schema(summary="Who is in a group", responses=list[shapes.MemberObject])
    def get(self, request: Request, group: str) -> Response:
        user_of(request)
        members = groups.members(group)
        answer: list[shapes.MemberObject] = [{"username": name, "clusterAdmin": admin} for name, admin in members]
        return Response(answer)


@putting("Merge into a group's extension", shapes.ExtensionChange, "update group extension data successfully.")
def put_group_extension(user: User, body: shapes.ExtensionChange, group: str) -> None:
    groups.change_group(require_admin(user, NON_ADMIN), group, {"extension": body.extension})


@putting("Describe a group", shapes.Description, "update group description data successfully.")
def put_group_description(user: User, body: shapes.Description, group: str) -> None:
    groups.change_group(require_admin(user, NON_ADMIN), group, {"description": body.description})


@putting("What a group is called elsewhere", shapes.ExternalName, "update group externalNameData data successfully.")
def put_external_name(user: User, body: shapes.ExternalName, group: str) -> None:
    groups.change_group(require_admin(user, NON_ADMIN), group, {"external_name": body.external_name})


def make_user(request: Request) -> Response:
    user = user_of(request)
    new = read(shapes.NewUser, request)
    services.create_user(
        require_admin(user, NON_ADMIN),
        username=new.username,
        password=new.password,
        role=by_flag(new.admin),
        vcs=new.virtual_cluster,
        email=new.email,
        extension=new.extension,
    )
    return telling_what_is_left(message_response("User is created successfully"), new.username)


def user_object(record: UserRecord, full: bool) -> shapes.UserObject:
    """``full``: with all that clients keep with the user, their quota and priorities, for themselves and admins."""
    user, vcs = record.user, list(record.vcs)
    answer: shapes.UserObject = {
        "username": user.username,
        "email": user.email,
        "grouplist": list(record.groups),
        "extension": {**(user.extension if full else {}), "virtualCluster": vcs},
        "admin": user.is_admin,
        "virtualCluster": vcs,
    }
    if full:
        answer["storeQuota"] = user.store_quota
        answer["priorities"] = dict(record.priorities)
    return answer


def _item(record: UserRecord) -> shapes.UserItem:
    item: shapes.UserItem = {
        "username": record.user.username,
        "admin": "true" if record.user.is_admin else "false",
        "hasGithubPAT": record.user.has_github_pat,
    }
    if record.is_granted:
        item["virtualCluster"] = ",".join(sorted(record.vcs))
    return item


def _sees_all(viewer: User, username: str) -> bool:
    return reads_all(viewer) or viewer.username == username


def _prove(request: Request, user: User, password: str) -> None:
    """Forbidden when the password is wrong. Failures count as those of the login do."""
    try:
        check_password(request._request, user.username, password, LOCAL)
    except IncorrectPassword:
        raise Forbidden("Pls input the correct password.") from None
