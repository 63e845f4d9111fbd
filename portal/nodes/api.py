"""/api/v1/nodes: a thin skin over clusters.nodes.services. Every user may read, admins may write."""

from __future__ import annotations

from django.conf import settings
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.models import Cluster, Node
from clusters.nodes import services
from clusters.nodes.gone import confirm_gone
from clusters.nodes.kubernetes.body import ENDPOINT, ClusterChange, ClusterObject, NewCluster, cluster_object
from clusters.nodes.kubernetes.services import change_cluster, register_cluster, remove_cluster
from clusters.nodes.serializers import NewNode, NodeChange, NodeObject, NodeStatus, node_objects
from portal.shared.api.openapi import Message, errors
from portal.shared.api.parsers import Json
from portal.shared.viewer import admin_of, user_of


def _one_of(name: str, *kinds: type) -> PolymorphicProxySerializer:
    return PolymorphicProxySerializer(name, list(kinds), None)


class NodeApi(APIView):
    # Permission comes first: the body of a guest is not even read.
    parser_classes = [Json]


class NodeList(NodeApi):
    @extend_schema(summary="All nodes, by name", responses=list[NodeObject])
    def get(self, request: Request) -> Response:
        _reader(request)
        return Response(node_objects(Node.objects.order_by("name")))

    @extend_schema(
        summary="Register a node, or all nodes of a Kubernetes cluster",
        request=_one_of("NewNodeOrCluster", NewNode, NewCluster),
        responses={201: _one_of("NodeOrCluster", NodeObject, ClusterObject), **errors(409)},
    )
    def post(self, request: Request) -> Response:
        admin, body = admin_of(request), request.data
        if _is_cluster(body):
            cluster, hints = register_cluster(admin, body)
            return Response(cluster_object(cluster, hints), status=status.HTTP_201_CREATED)
        node = services.register_node(admin, body)
        return Response(node_objects([node])[0], status=status.HTTP_201_CREATED)


class NodeDetail(NodeApi):
    @extend_schema(
        summary="One node, or a Kubernetes cluster with all its nodes",
        responses=_one_of("NodeOrCluster", NodeObject, ClusterObject),
    )
    def get(self, request: Request, name: str) -> Response:
        _reader(request)
        if cluster := Cluster.objects.filter(name=name).first():
            return Response(cluster_object(cluster))
        return Response(node_objects([services.find_node(name)])[0])

    @extend_schema(
        summary="Change what the body names",
        request=_one_of("NodeOrClusterChange", NodeChange, ClusterChange),
        responses={200: _one_of("NodeOrCluster", NodeObject, ClusterObject), **errors(409)},
    )
    def put(self, request: Request, name: str) -> Response:
        admin, body = admin_of(request), request.data
        if Cluster.objects.filter(name=name).exists():
            return Response(cluster_object(*change_cluster(admin, name, body)))
        return Response(node_objects([services.change_node(admin, name, body)])[0])

    @extend_schema(
        summary="Remove a node, or a cluster with its nodes, that nothing runs on",
        responses={200: Message, **errors(409)},
    )
    def delete(self, request: Request, name: str) -> Response:
        admin = admin_of(request)
        if Cluster.objects.filter(name=name).exists():
            remove_cluster(admin, name)
            return Response({"message": f"cluster {name} removed"})
        services.remove_node(admin, name)
        return Response({"message": f"node {name} removed"})


class NodeStatusView(NodeApi):
    @extend_schema(summary="Activate, cordon or drain a node", request=NodeStatus, responses=NodeObject)
    def put(self, request: Request, name: str) -> Response:
        node = services.set_node_status(admin_of(request), name, request.data)
        return Response(node_objects([node])[0])


class NodeGone(NodeApi):
    @extend_schema(
        summary="Say that a node which does not answer is gone for good, so that its tasks are tried elsewhere at once",
        request=None,
        responses={200: NodeObject, **errors(409)},
    )
    def put(self, request: Request, name: str) -> Response:
        node = confirm_gone(admin_of(request), name)
        return Response(node_objects([node])[0])


def _is_cluster(body: object) -> bool:
    return isinstance(body, dict) and str(body.get("endpoint", "")).startswith(ENDPOINT)


def _reader(request: Request) -> None:
    if settings.ANONYMOUS_READ != "all":
        user_of(request)
