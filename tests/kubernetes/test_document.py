"""docs/run/kubernetes.md: every command works as it is written, and the portal then follows the cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.portal import ROOT, Portal
from tests.acceptance.test_documents import COMMANDS, blocks
from tests.bed.kubernetes_bed import KubernetesBed, cache
from tests.helpers import LIMIT, until

PAGE = ROOT / "docs" / "run" / "kubernetes.md"


@pytest.fixture
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    portal = Portal(tmp_path_factory.mktemp("portal"), "unix:///nowhere.sock")
    try:
        portal.start()
        yield portal
    finally:
        portal.close()


@pytest.fixture
def desk(cluster: KubernetesBed, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the reader: an administrator of the cluster, in a clone of Longshore."""
    (tmp_path / "Dockerfiles").symlink_to(ROOT / "Dockerfiles")
    programs = tmp_path / ".bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(cache() / "bin" / "kubectl")
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    yield {
        "HOME": str(tmp_path),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.kubeconfig),
    }
    for folder in ("longshore", "longshore-jobs"):
        cluster.kubectl("delete", "deployments,jobs,persistentvolumeclaims", "--all", "-n", folder, "--wait=false")
    made = ("secret/longshore-settings", "secret/longshore-token")
    cluster.kubectl("delete", "-n", "longshore", "--ignore-not-found", *made)


def test_every_command_works_and_the_portal_follows_the_cluster(
    cluster: KubernetesBed, portal: Portal, desk: dict[str, str], tmp_path: Path
) -> None:
    script = "\n".join(block.script for block in blocks(PAGE.read_text()) if block.language in COMMANDS)
    password = (portal.home / "secrets" / "admin-password").read_text().strip()
    text = script.replace("127.0.0.1:9186", portal.settings["LONGSHORE_BIND"]).replace(
        "password=…", f"password={password}"
    )
    text = "set -e\n" + re.sub(r"\bcurl (?!-f)", "curl --fail-with-body -sS ", text)
    bash = [shutil.which("bash") or "bash", "-c", text]
    done = subprocess.run(bash, cwd=tmp_path, env=desk, capture_output=True, text=True, timeout=3 * LIMIT)
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{done.stdout[-2000:]}"
    assert '"code":' not in done.stdout
    assert [node["name"] for node in portal.http.get("/nodes").json()] == ["lab/n1", "lab/n2"]
    cluster.kubectl("cordon", "n1")
    try:
        until(lambda: reason(portal, "lab/n1") == "cordoned in Kubernetes", 60)
    finally:
        cluster.kubectl("uncordon", "n1")
    until(lambda: not reason(portal, "lab/n1"), 60)
    cluster.node_down("n2", "cut")
    try:
        until(lambda: shown(portal, "lab/n2")["health"] == "unreachable", 180)
        assert "does not hear of it" in reason(portal, "lab/n2")
        assert shown(portal, "lab/n1")["health"] == "ready"
    finally:
        cluster.node_up("n2")
    until(lambda: shown(portal, "lab/n2")["health"] == "ready", 90)


def shown(portal: Portal, node: str) -> dict[str, Any]:
    found: dict[str, Any] = portal.http.get(f"/nodes/{node}").json()
    return found


def reason(portal: Portal, node: str) -> str:
    return str(shown(portal, node)["healthReason"])
