"""Which kubeconfigs Longshore takes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from clusters.engines.kubernetes import kubeconfig

CLUSTER = {"server": "https://10.0.0.1:6443", "certificate-authority-data": "Q0E="}
USER = {"token": "abc"}


def text(cluster: dict[str, Any] = CLUSTER, user: dict[str, Any] = USER, **more: Any) -> str:
    return yaml.safe_dump(
        {
            "current-context": "lab",
            "contexts": [
                {"name": "other", "context": {"cluster": "x", "user": "y"}},
                {"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": "ns"}},
            ],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            **more,
        }
    )


def test_only_the_current_context_is_read() -> None:
    assert kubeconfig.entries(text()) == (CLUSTER, USER)


def test_nothing_else_is_kept() -> None:
    kept = kubeconfig.kept(text())
    assert len(yaml.safe_load(kept)["contexts"]) == 1
    assert kubeconfig.entries(kept) == (CLUSTER, USER)


def test_a_value_that_is_empty_is_none() -> None:
    """A cluster with a certificate that everybody trusts has none of a CA of its own."""
    cluster, _ = kubeconfig.entries(text(cluster={**CLUSTER, "certificate-authority-data": None}))
    assert cluster == {"server": CLUSTER["server"]}


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        (text(user={"exec": {"command": "rm"}}), "has exec, which"),
        (text(user={"auth-provider": {}, **USER}), "has auth-provider, which"),
        (text(user={"tokenFile": "/etc/shadow"}), "has tokenFile, which"),
        (text(user={"client-certificate": "/a", "client-key": "/b"}), "has client-certificate, client-key, which"),
        (text(cluster={**CLUSTER, "certificate-authority": "/a"}), "has certificate-authority, which"),
        (text(cluster={**CLUSTER, "proxy-url": "http://x"}), "has proxy-url, which"),
        (text(cluster={**CLUSTER, "insecure-skip-tls-verify": True}), "must not turn off"),
        (text(cluster={"server": "http://10.0.0.1"}), "must name a server that begins with https://"),
        (text(user={}), "has neither a token nor"),
        (text(user={"client-certificate-data": "x"}), "has neither a token nor"),
        (text(users=[]), "lacks an entry u among its users"),
        (text(users="u"), "lacks an entry u among its users"),
        (text(**{"current-context": None}), "lacks an entry without a name among its contexts"),
        ("- 1", "is no kubeconfig"),
        ("", "is no kubeconfig"),
        ("a: [", "is no YAML"),
        ("!!python/object/apply:os.system ['true']", "is no YAML"),
        ("x" * 300_000, "is too long"),
        ("a: !!bool x", "is no YAML"),
        ('a: !!int ""', "is no YAML"),
        ("a: !!timestamp x", "is no YAML"),
        ("a: 2001-99-99", "is no YAML"),
        ("a: &a [1]\nb: [*a, *a]", "is no YAML"),
        ("[" * 30_000, "is no YAML"),
    ],
)
def test_what_would_run_programs_or_read_files_here_is_refused(sent: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        kubeconfig.entries(sent)
