"""``/group`` (v1 contract, 3.10): users read, admins write."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.users import bodies, groups, shapes
from clusters.users.api_v2 import NON_ADMIN
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_user
from portal.accounts.viewer import require_admin, viewer_of
from portal.web.api.openapi import Message, errors
from portal.web.api.v1 import V1View, said


class Groups(V1View):
    @extend_schema(summary="All groups", responses=list[shapes.GroupObject])
    def get(self, request: Request) -> Response:
        require_user(request)
        return Response([group_object(record) for record in groups.load_groups()])

    @extend_schema(summary="Make a group", request=shapes.NewGroup, responses={201: Message, **errors(409)})
    def post(self, request: Request) -> Response:
        user = require_user(request)
        name, description, external, extension = bodies.new_group(request)
        more: dict[str, Any] = {"description": description, "external_name": external, "extension": extension}
        groups.create_group(require_admin(user, NON_ADMIN), name, **more, ip=ip_of(request))
        return said("group is created successfully")


class OneGroup(V1View):
    @extend_schema(summary="One group", responses=shapes.GroupObject)
    def get(self, request: Request, group: str) -> Response:
        require_user(request)
        return Response(group_object(groups.find_group(group)))

    @extend_schema(summary="Remove a group", responses={200: Message})
    def delete(self, request: Request, group: str) -> Response:
        groups.delete_group(require_admin(viewer_of(request), NON_ADMIN), group, ip=ip_of(request))
        return said("group is removed successfully", 200)


class GroupUsers(V1View):
    @extend_schema(summary="Who is in a group", responses=list[shapes.GroupMember])
    def get(self, request: Request, group: str) -> Response:
        require_user(request)
        found = groups.members(group)
        answer: list[shapes.GroupMember] = [{"username": name, "clusterAdmin": admin} for name, admin in found]
        return Response(answer)


class GroupExtension(V1View):
    @extend_schema(summary="Merge into a group's extension", request=shapes.ExtensionChange, responses={201: Message})
    def put(self, request: Request, group: str) -> Response:
        user = require_user(request)
        extension = bodies.extension_put(request)
        groups.change_group(require_admin(user, NON_ADMIN), group, extension=extension, ip=ip_of(request))
        return said("update group extension data successfully.")


class GroupDescription(V1View):
    @extend_schema(summary="Describe a group", request=shapes.Description, responses={201: Message})
    def put(self, request: Request, group: str) -> Response:
        user = require_user(request)
        text = bodies.text_put(request, "description")
        groups.change_group(require_admin(user, NON_ADMIN), group, description=text, ip=ip_of(request))
        return said("update group description data successfully.")


class GroupExternalName(V1View):
    @extend_schema(summary="What a group is called elsewhere", request=shapes.ExternalName, responses={201: Message})
    def put(self, request: Request, group: str) -> Response:
        user = require_user(request)
        text = bodies.text_put(request, "externalName")
        groups.change_group(require_admin(user, NON_ADMIN), group, external_name=text, ip=ip_of(request))
        return said("update group externalNameData data successfully.")


def group_object(record: groups.GroupRecord) -> shapes.GroupObject:
    return {
        "groupname": record.name,
        "description": record.description,
        "externalName": record.external_name,
        "extension": record.extension,
    }
