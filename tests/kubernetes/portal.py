"""A whole portal whose nodes are those of a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.acceptance.portal import Portal, portal_beside, register
from tests.bed.kubernetes_bed import NAMESPACE, KubernetesBed
from tests.helpers import until

CLUSTER = "lab"


@contextmanager
def portal_over(bed: KubernetesBed, home: Path, **settings: str) -> Iterator[Portal]:
    """With the nodes lab/n1 and lab/n2, which reach it."""
    with portal_beside(home=home, address=urlsplit(bed.api).hostname or "", **settings) as portal:
        asked = {
            "name": CLUSTER,
            "endpoint": "kubernetes://",
            "namespace": NAMESPACE,
            "kubeconfig": bed.portal_kubeconfig.read_text(),
        }
        register(portal.http, asked)
        for host in ("n1", "n2"):
            until(lambda host=host: portal.node(f"{CLUSTER}/{host}")["health"] == "ready", 30, what=f"{host} is ready")  # type: ignore[misc]
        yield portal


def pods(bed: KubernetesBed, portal: Portal) -> list[str]:
    """Names of the portal's pods, in whatever state."""
    ours = f"longshore.instance={portal.instance}"
    said = bed.kubectl("-n", NAMESPACE, "get", "pods", "-l", ours, "-o", "name")
    return said.split()


def wait_clean(portal: Portal, bed: KubernetesBed, timeout: float = 90) -> None:
    """Nothing taken, and nothing left in the cluster: no pod, no Secret."""
    until(lambda: portal.rows("SELECT count(*) FROM clusters_allocation") == [(0,)], timeout, 0.2, "no allocation")
    until(lambda: not pods(bed, portal), timeout, 0.5, "no pod")
    until(lambda: "longshore" not in bed.kubectl("-n", NAMESPACE, "get", "secrets", "-o", "name"), 60, 0.5, "no Secret")
