"""Longshore in the cluster that it uses: its manifests as docs/run/kubernetes.md has them, and a job, on real nodes.

Some minutes: it runs where LONGSHORE_REQUIRE names ``kubernetes-pods``. The image is made of this machine's own files.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.acceptance.portal import ROOT, config, register
from tests.bed import host_image
from tests.bed.kubernetes_bed import NAMESPACE, KubernetesBed
from tests.bed.postgres_bed import Postgres
from tests.bed.s3_bed import KEY, SECRET, S3Bed
from tests.helpers import LIMIT, need, until

IMAGE = "longshore/longshore:1"
SOURCES = ("manage.py", "portal", "jobs", "clusters", "base", "client", "templates", "static", "docs")
OWNER = 10001
CHANGES = (
    *("WORKDIR /opt/longshore", "ENV HOME=/var/lib/longshore", "ENV LONGSHORE_HOME=/var/lib/longshore"),
    *("ENV PYTHONUNBUFFERED=1", f"USER {OWNER}:{OWNER}", 'CMD ["python3", "manage.py", "up"]'),
)
PASSWORD = "a-password-of-this-test"
HOME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "longshore-home"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "20Gi"},
        "persistentVolumeReclaimPolicy": "Retain",
    },
}


@pytest.fixture(scope="module")
def image(cluster: KubernetesBed, tmp_path_factory: pytest.TempPathFactory) -> None:
    if "kubernetes-pods" not in os.environ.get("LONGSHORE_REQUIRE", ""):
        pytest.skip("takes minutes: LONGSHORE_REQUIRE=kubernetes,kubernetes-pods runs it")
    need("postgres")
    folder = tmp_path_factory.mktemp("image")
    opt = folder / "opt" / "longshore"
    listed = subprocess.check_output(["git", "ls-files", *SOURCES], cwd=ROOT, text=True).splitlines()
    for name in listed:
        (opt / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, opt / name)
    shutil.copy2(ROOT / "Dockerfiles/healthcheck.py", opt)
    subprocess.run([shutil.which("python3") or "python3", "-m", "compileall", "-q", opt], check=False)
    host_image.write(folder / "root.tar", ROOT / "requirements/run.txt")
    with tarfile.open(folder / "root.tar", "a") as tar:
        tar.add(folder / "opt", "opt", filter=_readable)
    for node in ("n1", "n2"):
        changes = [word for change in (*host_image.CHANGES[:1], *CHANGES) for word in ("-c", change)]
        cluster.docker(node, "import", *changes, str(folder / "root.tar"), IMAGE)
    (folder / "root.tar").unlink()


@pytest.fixture(scope="module")
def outside(cluster: KubernetesBed) -> Iterator[dict[str, str]]:
    """A PostgreSQL and a store beside the cluster: the settings that name them."""
    server, store = Postgres(cluster.host), S3Bed(cluster.host)
    with (server.folder / "data" / "pg_hba.conf").open("a") as file:
        file.write("host all all 0.0.0.0/0 trust\n")
    server.execute("SELECT pg_reload_conf()")
    try:
        yield {
            "DATABASE_URL": server.over_network,
            "LONGSHORE_STORE_URL": f"s3://{store.bucket}/files",
            "LONGSHORE_S3_ENDPOINT": store.url,
            "LONGSHORE_S3_ACCESS_KEY": KEY,
            "LONGSHORE_S3_SECRET_KEY": SECRET,
        }
    finally:
        store.close()
        server.close()


@pytest.fixture(scope="module")
def longshore(
    cluster: KubernetesBed, image: None, outside: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A client of a portal that runs in pods, as its admin."""
    home = tmp_path_factory.mktemp("home")
    for folder in home.parents[:3]:
        folder.chmod(folder.stat().st_mode | 0o711)
    os.chown(home, 0, OWNER)  # as a volume of the group ``fsGroup`` is; of a hostPath a kubelet leaves it as it is
    home.chmod(0o2775)
    volume = {**HOME, "spec": {**HOME["spec"], "hostPath": {"path": str(home)}}}  # type: ignore[dict-item]
    cluster.kubectl("apply", "-f", "-", given=json.dumps(volume))
    settings = {
        **outside,
        "LONGSHORE_PUBLIC_URL": "http://longshore.lab",
        "LONGSHORE_BIND": "0.0.0.0:9186",
        "LONGSHORE_ADMIN_PASSWORD": PASSWORD,
        "LONGSHORE_SECRET_KEY": secrets.token_hex(40),
        "LONGSHORE_TOKEN_KEY": secrets.token_hex(40),
    }
    given = [f"--from-literal={name}={value}" for name, value in settings.items()]
    cluster.kubectl("-n", "longshore", "create", "secret", "generic", "longshore-settings", *given)
    cluster.kubectl("apply", "-k", str(ROOT / "Dockerfiles" / "kubernetes" / "longshore"))
    try:
        until(lambda: _ready(cluster), 200, 2, "all of Longshore's pods are ready")
        yield _client(cluster)
    finally:
        print(cluster.kubectl("-n", "longshore", "get", "pods", "-o", "wide", check=False))
        for kind in ("prepare", "web", "scheduler", "workers"):
            one = ("job/prepare",) if kind == "prepare" else (f"deploy/{kind}",)
            print(kind, cluster.kubectl("-n", "longshore", "logs", *one, "--all-containers", "--tail=15", check=False))
        for folder in ("longshore", NAMESPACE):
            what = ("deployments,jobs,persistentvolumeclaims", "--all", "-n", folder, "--wait=false")
            cluster.kubectl("delete", *what)
        cluster.kubectl("-n", "longshore", "delete", "secret", "longshore-settings")
        until(lambda: "No resources" in cluster.kubectl("-n", "longshore", "get", "pods", check=False), 120, 1)
        cluster.kubectl("delete", "persistentvolume", "longshore-home", "--wait=false")


def test_its_pods_come_up_add_their_own_cluster_and_run_a_job_that_outlives_each_of_them(
    cluster: KubernetesBed, longshore: httpx.Client
) -> None:
    register(longshore, {"name": "lab", "endpoint": "kubernetes://"})
    until(lambda: [one["health"] for one in longshore.get("/nodes").json()] == ["ready", "ready"], 60, 0.5, "nodes")
    assert run(longshore, "first", "echo hello from a pod; exit 3") == ("FAILED", "hello from a pod\n")
    cluster.kubectl("-n", "longshore", "delete", "pods", "-l", "app.kubernetes.io/component in (scheduler,workers)")
    until(lambda: _ready(cluster), 200, 2, "they are back")
    assert run(longshore, "second", "echo again") == ("SUCCEEDED", "again\n")


def run(longshore: httpx.Client, name: str, command: str) -> tuple[str, str]:
    """How the job ends, and its log."""
    sent = longshore.post("/jobs", json=config(name, command))
    assert sent.status_code == 201, sent.text
    address = f"/user/admin/jobs/{sent.json()['name']}"
    ends = ("SUCCEEDED", "FAILED", "STOPPED")
    state = until(lambda: _state(longshore, address) in ends and _state(longshore, address), 120, 0.5, f"{name} ends")
    log = f"{address}/taskRoles/main/0/logs/stdout"
    until(lambda: longshore.get(log).status_code == 200, 60, 1, "its log")
    return str(state), longshore.get(log).text


def _state(longshore: httpx.Client, address: str) -> str:
    return str(longshore.get(address).json()["jobStatus"]["state"])


def _ready(cluster: KubernetesBed) -> bool:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("-n", "longshore", "get", "deploy", "-o", "json"))["items"]
    return len(found) == 5 and all(
        one["status"].get("readyReplicas", 0) == one["spec"]["replicas"] == one["status"].get("replicas")
        for one in found
    )


def _client(cluster: KubernetesBed) -> httpx.Client:
    """To one of its web pods, since this cluster has no kube-proxy for the Service."""
    named = ("-l", "app.kubernetes.io/component=web", "-o", "jsonpath={.items[0].status.podIP}")
    address = cluster.kubectl("-n", "longshore", "get", "pods", *named)
    client = httpx.Client(base_url=f"http://{address}:9186/api/v1", timeout=LIMIT)
    answer = client.post("/token", json={"username": "admin", "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
    return client


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.mode |= 0o755 if member.isdir() else 0o444
    return member
