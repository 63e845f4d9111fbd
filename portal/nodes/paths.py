"""The names of nodes in addresses: ``<node:name>`` takes ``gpu-01`` and, of a host of a cluster, ``lab/gpu-01``."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import StringConverter

from clusters.engines.inventory import RESERVED


class NodeName(StringConverter):
    # A word that follows a name in some addresses belongs to none (clusters.engines.inventory.name_of sees to that).
    regex = rf"[^/]+(?:/(?!(?:{'|'.join(RESERVED)})(?:/|$))[^/]+)?"


register_converter(NodeName, "node")
