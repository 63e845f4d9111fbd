"""/api/v1/nodes: a thin skin over clusters.nodes.services. Every user may read, admins may write."""

from __future__ import annotations

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.models import Node
from clusters.nodes import services
from clusters.nodes.serializers import NewNode, NodeChange, NodeObject, NodeStatus, node_objects
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin, require_user
from portal.core.errors import BadRequest
from portal.web.api.openapi import Message, errors
from portal.web.api.parsers import Json


class NodeView(APIView):
    parser_classes = [Json]


class NodeList(NodeView):
    @extend_schema(summary="All nodes, by name", responses=list[NodeObject])
    def get(self, request: Request) -> Response:
        _reader(request)
        return Response(node_objects(Node.objects.order_by("name")))

    @extend_schema(summary="Register a node", request=NewNode, responses={201: NodeObject, **errors(409)})
    def post(self, request: Request) -> Response:
        node = services.register_node(require_admin(request), _body(request), ip_of(request))
        return Response(node_objects([node])[0], status=status.HTTP_201_CREATED)


class NodeDetail(NodeView):
    @extend_schema(summary="One node", responses=NodeObject)
    def get(self, request: Request, name: str) -> Response:
        _reader(request)
        return Response(node_objects([services.find_node(name)])[0])

    @extend_schema(summary="Change what the body names", request=NodeChange, responses={200: NodeObject, **errors(409)})
    def put(self, request: Request, name: str) -> Response:
        node = services.change_node(require_admin(request), name, _body(request), ip_of(request))
        return Response(node_objects([node])[0])

    @extend_schema(summary="Remove a node that nothing runs on", responses={200: Message, **errors(409)})
    def delete(self, request: Request, name: str) -> Response:
        services.remove_node(require_admin(request), name, ip_of(request))
        return Response({"message": f"node {name} removed"})


class NodeStatusView(NodeView):
    @extend_schema(summary="Activate, cordon or drain a node", request=NodeStatus, responses=NodeObject)
    def put(self, request: Request, name: str) -> Response:
        node = services.set_node_status(require_admin(request), name, _body(request), ip_of(request))
        return Response(node_objects([node])[0])


def _reader(request: Request) -> None:
    if settings.ANONYMOUS_READ != "all":
        require_user(request)


def _body(request: Request) -> object:
    """The JSON value of the body. Permission comes first: the body of a guest is not even read."""
    require_admin(request)
    try:
        return request.data
    except RecursionError:
        raise BadRequest("The body is nested too deep.") from None
