"""A real small Kubernetes cluster for tests: a control plane and hosts with a kubelet (kubernetes-bed.sh)."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

import httpx

from tests.bed import docker_bed
from tests.limits import LIMIT

SCRIPT = Path(__file__).with_name("kubernetes-bed.sh")
PREFIX = "longshore-k8s-"
NAMESPACE = "longshore-jobs"  # of tasks, see Dockerfiles/kubernetes/rights
IMAGE = "longshore/sample:1"  # busybox; each node has it
PROGRAMS = ("pgrep", "mount", "curl", "openssl")
STARTED = 12 * LIMIT  # the limits of the script come first, and name the part that is not ready


def cache() -> Path:
    """Where the compiled cluster is: outside the clone, so that a fresh one need not compile it again."""
    given = os.environ.get("K8S_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "longshore" / "kubernetes"


def missing() -> str:
    """Empty when this machine can run a cluster, else why not."""
    if reason := docker_bed.missing():
        return reason
    if lacking := [program for program in PROGRAMS if not shutil.which(program)]:
        return f"not installed: {', '.join(lacking)}"
    if not Path("/sys/fs/cgroup/memory").is_dir():
        return "its kubelets need the first version of control groups"
    if not list((cache() / "bin").glob("done-*")):
        return f"no Kubernetes is compiled in {cache()}: LONGSHORE_REQUIRE=kubernetes scripts/setup test does it"
    return ""


class KubernetesBed:
    """A cluster with a folder, networks and keys of its own, so that several sessions may run at once. ``kubeconfig``
    is the administrator's, ``portal_kubeconfig`` that of the account that the manifests give to a portal."""

    def __init__(self) -> None:
        bury_the_dead()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def portal_kubeconfig(self) -> Path:
        return self.folder / "kubeconfig-portal"

    @property
    def api(self) -> str:
        """Where the API server listens: https://host:port."""
        return self._fact("K8S_API")

    def up(self, nodes: int = 2, **settings: str) -> list[str]:
        """Starts it, unless it runs, and returns the names of its nodes. ``settings``: those of kubernetes-bed.sh."""
        try:
            self.run("start", str(self.folder), str(nodes), **settings)
        except BaseException:
            self.stop()
            raise
        return self._fact("K8S_NODES").split()

    @property
    def host(self) -> str:
        """The address of this machine in the cluster's network."""
        return self.api.removeprefix("https://").rpartition(":")[0]

    @property
    def bridge(self) -> str:
        """What the network of each node begins with: the namespace of n1 is ``<bridge>-n1``."""
        return self._known("BR")

    def node_down(self, node: int | str, mode: Literal["cut", "kill", "hang", "freeze", "crash"] = "cut") -> None:
        """cut: its network, pods run on. kill, hang: its kubelet. freeze: all of it hangs. crash: it loses power."""
        self.run("node-down", str(self.folder), str(node), mode)

    def node_up(self, node: int | str) -> None:
        """Undoes any of them; returns when the node is ready."""
        self.run("node-up", str(self.folder), str(node))

    def api_down(self, mode: Literal["kill", "hang"] = "kill") -> None:
        self.run("api-down", str(self.folder), mode)

    def api_up(self) -> None:
        self.run("api-up", str(self.folder))

    def forget_history(self) -> None:
        """etcd keeps the newest state alone: lists of earlier versions cannot be read on, and watches not followed."""
        base = f"http://{self._known('LO')}:2379/v3/kv"
        with httpx.Client(timeout=LIMIT) as etcd:
            for _ in range(2):  # the API server is the one who knows two versions: of now, and of a moment ago
                self.kubectl("-n", NAMESPACE, "create", "configmap", "of-a-test")
                self.kubectl("-n", NAMESPACE, "delete", "configmap", "of-a-test")
                at = etcd.post(f"{base}/range", json={"key": "AA=="}).json()["header"]["revision"]
                etcd.post(f"{base}/compaction", json={"revision": at, "physical": True}).raise_for_status()

    def kubectl(self, *arguments: str, given: str = "", check: bool = True, config: Path | None = None) -> str:
        """What kubectl prints, as the administrator unless ``config`` is another's. RuntimeError when it fails."""
        done = subprocess.run(
            [cache() / "bin" / "kubectl", "--kubeconfig", config or self.kubeconfig, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout + ("" if check else done.stderr)

    def docker(self, node: str, *arguments: str) -> str:
        """What the docker command prints about the engine below that node's kubelet."""
        socket = f"unix://{self.folder}/bed/nodes/{node}/docker.sock"
        return subprocess.run(
            ["docker", "-H", socket, *arguments], check=True, capture_output=True, text=True, timeout=LIMIT
        ).stdout.strip()

    def stop(self) -> None:
        """Ends everything that it started, also after a start that failed half way."""
        _stop(self.folder)

    def run(self, *arguments: str, **settings: str) -> str:
        return _script(*arguments, **settings)

    def _known(self, name: str) -> str:
        """A value of the file ``conf``."""
        words = (self.folder / "conf").read_text().split()
        return next(value for key, _, value in (word.partition("=") for word in words) if key == name)

    def _fact(self, name: str) -> str:
        """A value of the file ``env`` that the start has written."""
        said = ["bash", "-c", f'. "$1"; printf %s "${name}"', "bash", str(self.folder / "env")]
        return subprocess.run(said, check=True, capture_output=True, text=True).stdout


def bury_the_dead() -> None:
    """Take down clusters whose test session was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            _stop(folder)


def _stop(folder: Path) -> None:
    with contextlib.suppress(RuntimeError):  # nothing was started, or another session does it at the same time
        _script("stop", str(folder))
    shutil.rmtree(folder, ignore_errors=True)


def _script(*arguments: str, **settings: str) -> str:
    done = subprocess.run(
        ["bash", str(SCRIPT), *arguments],
        env={**os.environ, "K8S_CACHE": str(cache()), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=STARTED,
    )
    if done.returncode:
        raise RuntimeError(f"kubernetes-bed.sh {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout
