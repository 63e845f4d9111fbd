"""Reads a kubeconfig and refuses what would make this host run programs or read files for it. Pure.

Whoever registers a cluster sends its kubeconfig. So only what is written in the file itself counts: a server with the
certificate of its CA, and a token or a client certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

NAME = "kubeconfig"  # of the file in a node's folder of keys
LONGEST = 256 * 1024  # bytes
_DEEPEST = 32  # brackets in brackets
_USER_KEYS = frozenset({"token", "client-certificate-data", "client-key-data"})
_CLUSTER_KEYS = frozenset({"server", "certificate-authority-data", "tls-server-name"})
_HARMLESS = frozenset({"extensions"})


def entries(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the entries of the current context's cluster and user that Longshore uses. Raises ValueError with what is
    wrong, to be put after "The kubeconfig" or to stand alone."""
    if len(text) > LONGEST:
        raise ValueError("is too long")
    whole = _parsed(text)
    if not isinstance(whole, Mapping):
        raise ValueError("is no kubeconfig: it must have clusters, users and contexts")
    name = str(whole.get("current-context") or "")
    context = _named(whole, "contexts", "context", name)
    cluster = _named(whole, "clusters", "cluster", str(context.get("cluster") or ""))
    user = _named(whole, "users", "user", str(context.get("user") or ""))
    _check(cluster, user)
    return _texts(cluster, _CLUSTER_KEYS), _texts(user, _USER_KEYS)


def kept(text: str) -> str:
    """Make a kubeconfig that has these entries and nothing else. Raises ValueError as ``entries`` does."""
    cluster, user = entries(text)
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "here", "user": user}],
        }
    )


def _parsed(text: str) -> Any:
    """Neither deep, which takes the library minutes, nor with aliases, by which a short text gets any size."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
                raise yaml.YAMLError
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError):  # all but the first of wrong tags
        raise ValueError("is no YAML of a kubeconfig") from None


def _named(whole: Mapping[str, Any], many: str, one: str, name: str) -> Mapping[str, Any]:
    entries = whole.get(many)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name and isinstance(entry.get(one), Mapping):
            found: Mapping[str, Any] = entry[one]
            return found
    raise ValueError(f"lacks an entry {name or 'without a name'} among its {many}")


def _texts(entry: Mapping[str, Any], keys: frozenset[str]) -> dict[str, str]:
    """Those of the keys that have a value: without the certificate of a CA, those of the host's own CAs count."""
    return {key: str(entry[key]) for key in sorted(keys & set(entry)) if entry[key]}


def _check(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    if not str(cluster.get("server", "")).startswith("https://"):
        raise ValueError("must name a server that begins with https://")
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError("must not turn off the check of the server's certificate")
    foreign = sorted((set(user) - _USER_KEYS) | (set(cluster) - _CLUSTER_KEYS - {"insecure-skip-tls-verify"}))
    foreign = [key for key in foreign if key not in _HARMLESS]
    if foreign:
        raise ValueError(
            f"has {', '.join(foreign)}, which names files or programs of this host; write the data itself into it "
            "(kubectl config view --flatten --minify --raw)"
        )
    if not (user.get("token") or (user.get("client-certificate-data") and user.get("client-key-data"))):
        raise ValueError("has neither a token nor a client certificate with its key")
