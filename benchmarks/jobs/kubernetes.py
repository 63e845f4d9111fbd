"""How fast jobs start and end on a real Kubernetes cluster of two nodes, beside kubectl and beside a bare client of its
API that makes, watches and deletes the same pods."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Report, percentile, spread, wait_for
from clusters.engines.kubernetes.connect import Cluster
from tests.acceptance.portal import Portal, config
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed, missing
from tests.kubernetes.portal import portal_over, wait_clean

STARTS, JOBS, IDLE = 7, 24, 15.0  # samples, jobs at once, seconds
_REQUESTS = re.compile(r'^apiserver_request_total\{.*resource="(?:pods|secrets)".*\} (\S+)$', re.M)


def measure(report: Report) -> None:
    report.title("Jobs on Kubernetes (a cluster of two nodes on this machine)")
    if reason := missing():
        print(f"  There is no cluster: {reason}")
        return
    folder, bed = Path(tempfile.mkdtemp(prefix="ls-bench-")), KubernetesBed()
    try:
        bed.up(2)
        with portal_over(bed, folder) as portal:
            _starts(report, portal, bed)
            _rates(report, portal, bed)
    finally:
        bed.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _starts(report: Report, portal: Portal, bed: KubernetesBed) -> None:
    ours, bare = [], []
    for nth in range(STARTS):  # in turns, so that both meet the same load
        bare.append(_run(bed, f"bare{nth}"))
        ours.append(_start(portal, f"start{nth}"))
    ratio = percentile(ours, 50) / percentile(bare, 50)
    report.add("kubectl run -> Running", spread(bare))
    beside = f"{ratio:.2f} x kubectl run"
    report.add("submit -> RUNNING", spread(ours), beside, "<= 1.5 x", ratio <= 1.5)


def _start(portal: Portal, name: str) -> float:
    began = time.monotonic()
    job = portal.submit(config(name, "sleep 2"))
    portal.wait_running(job, timeout=60)
    took = time.monotonic() - began
    portal.wait_state(job, timeout=120)
    return took


def _run(bed: KubernetesBed, name: str) -> float:
    began = time.monotonic()
    run = ("run", name, f"--image={IMAGE}", "--image-pull-policy=Never", "--restart=Never")
    bed.kubectl("-n", NAMESPACE, *run, "--", "sleep", "2")
    phase = ("-n", NAMESPACE, "get", "pod", name, "-o", "jsonpath={.status.phase}")
    wait_for(lambda: bed.kubectl(*phase) != "Pending", 60, 0.05, f"{name} runs")
    took = time.monotonic() - began
    bed.kubectl("-n", NAMESPACE, "delete", "pod", name)
    return took


def _rates(report: Report, portal: Portal, bed: KubernetesBed) -> None:
    """Both are timed from the first request until the last pod is gone. What a portal asks while nothing is to be done
    is no request of its jobs."""
    wait_clean(portal, bed)
    idle = _counted(bed, lambda: time.sleep(IDLE))[1] / IDLE

    def jobs() -> None:
        sent = [portal.submit(config(f"many{nth}", "true")) for nth in range(JOBS)]
        for job in sent:
            portal.wait_state(job, timeout=300)
        wait_clean(portal, bed, timeout=300)

    bare = _counted(bed, lambda: _bare(bed))
    ours = _counted(bed, jobs)
    ratio = bare[0] / ours[0]
    report.add("pods of a bare client", f"{JOBS / bare[0]:.2f} pods/s", f"{_each(bare, idle):.0f} requests a pod")
    report.add("jobs of one task", f"{JOBS / ours[0]:.2f} jobs/s", f"{ratio:.2f} x bare", ">= 0.8 x", ratio >= 0.8)
    report.add("requests to the API for a job", f"{_each(ours, idle):.0f}", "of all clients, kubelets among them")


def _each(counted: tuple[float, float], idle: float) -> float:
    seconds, requests = counted
    return (requests - idle * seconds) / JOBS


def _counted(bed: KubernetesBed, work: Callable[[], None]) -> tuple[float, float]:
    """The seconds that it took, and the requests for pods and Secrets that the API server has answered meanwhile."""
    before, began = _requests(bed), time.monotonic()
    work()
    took = time.monotonic() - began
    return took, _requests(bed) - before


def _requests(bed: KubernetesBed) -> float:
    return sum(map(float, _REQUESTS.findall(bed.kubectl("get", "--raw", "/metrics"))))


def _bare(bed: KubernetesBed) -> None:
    """Makes the pods at once, deletes each that has ended, and returns when all are gone."""
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    shutil.copy(bed.kubeconfig, folder / "kubeconfig")
    cluster = Cluster(f"kubernetes://bare/{NAMESPACE}", folder)
    path, query = cluster.here("pods"), {"labelSelector": "bench=bare"}
    threads = [threading.Thread(target=cluster.ask, args=("POST", path, None, _pod(nth))) for nth in range(JOBS)]
    gone: set[str] = set()
    watch = {**query, "watch": "true", "timeoutSeconds": "300", "resourceVersion": cluster.listed(path, query)[1]}
    with cluster.stream(path, watch, 300) as answer:
        for thread in threads:
            thread.start()
        rest, ended = b"", set[str]()
        for piece in answer.stream(64 * 1024):
            *lines, rest = (rest + piece).split(b"\n")
            for event in map(json.loads, filter(None, lines)):
                name = event["object"]["metadata"]["name"]
                if event["type"] == "DELETED":
                    gone.add(name)
                elif event["object"]["status"].get("phase") == "Succeeded" and name not in ended:
                    ended.add(name)
                    cluster.ask("DELETE", cluster.here("pods", name))
            if len(gone) == JOBS:
                break
    for thread in threads:
        thread.join()
    shutil.rmtree(folder, ignore_errors=True)


def _pod(nth: int) -> dict[str, object]:
    main = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"bare-{nth}", "labels": {"bench": "bare"}},
        "spec": {
            "restartPolicy": "Never",
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "containers": [{**main, "resources": {"limits": {"cpu": "100m", "memory": "100Mi"}}}],
        },
    }
