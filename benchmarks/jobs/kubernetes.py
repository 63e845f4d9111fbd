"""How fast jobs start and end on a real Kubernetes cluster of two nodes, beside kubectl and beside a bare client of its
API, which make the pods that Longshore makes for these jobs: the same image, both containers with their commands, the
same limits and network. Only the Secret with a job's files is left out of them: that is Longshore's own way.

The bare client has as many pods at once as the portal has room for tasks, since a pod that finds no room waits for the
cluster's scheduler, which asks again more and more seldom."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.jobs.rates import unfinished
from benchmarks.processes import cpu_of
from benchmarks.report import Report, percentile, spread, wait_for
from benchmarks.sizes import size
from clusters.engines.kubernetes import spec
from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.kubernetes.events import events_of
from clusters.engines.runtime import LABEL_INSTANCE, ContainerRequest
from tests.acceptance.portal import Portal, config
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.kubernetes.portal import portal_over, wait_clean

STARTS, TURNS, JOBS, IDLE = size((7, 3, 12, 15.0), (1, 1, 2, 0.5))  # samples; turns and the jobs of each; seconds
_REQUESTS = re.compile(r'^apiserver_request_total\{.*resource="(?:pods|secrets)".*\} (\S+)$', re.M)
Json = dict[str, Any]


def measure(report: Report) -> None:
    report.title("Jobs on Kubernetes (a cluster of two nodes on this machine)")
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
    same = json.dumps({"apiVersion": "v1", "spec": _pod("same", "sleep 2", _label(portal))["spec"]})
    label, ours, bare, plain = f"--labels={_label(portal)}", [], [], []
    _start(portal, "first")  # the first in a worker imports what speaks with clusters
    for nth in range(STARTS):  # in turns, so that all meet the same load
        plain.append(_run(bed, f"plain{nth}", label, "--image-pull-policy=Never", "--", "sleep", "2"))
        bare.append(_run(bed, f"same{nth}", label, f"--overrides={same}"))
        ours.append(_start(portal, f"start{nth}"))
    ratio, beside = percentile(ours, 50) / percentile(bare, 50), percentile(ours, 50) / percentile(plain, 50)
    report.add("kubectl run of a plain pod -> Running", spread(plain), "one container, no volumes, no limits")
    report.add("kubectl run of the same pod -> Running", spread(bare), "two containers, as a job's")
    told = f"{ratio:.2f} x the same pod, {beside:.2f} x a plain one"
    report.add("submit -> RUNNING", spread(ours), told, "<= 1.5 x", ratio <= 1.5)


def _start(portal: Portal, name: str) -> float:
    began = time.monotonic()
    job = portal.submit(config(name, "sleep 2"))
    wait_for(lambda: _runs(portal.job(job)), 60, 0.05, f"{name} runs")
    took = time.monotonic() - began
    portal.wait_state(job, timeout=120)
    return took


def _runs(job: Json) -> bool:
    tasks = job["taskRoles"].get("main", {}).get("taskStatuses", ())
    return any(task["taskState"] in ("RUNNING", "SUCCEEDED") for task in tasks)


def _run(bed: KubernetesBed, name: str, *more: str) -> float:
    began = time.monotonic()
    bed.kubectl("-n", NAMESPACE, "run", name, f"--image={IMAGE}", "--restart=Never", *more)
    phase = ("-n", NAMESPACE, "get", "pod", name, "-o", "jsonpath={.status.phase}")
    wait_for(lambda: bed.kubectl(*phase) != "Pending", 60, 0.05, f"{name} runs")
    took = time.monotonic() - began
    bed.kubectl("-n", NAMESPACE, "delete", "pod", name)
    return took


def _rates(report: Report, portal: Portal, bed: KubernetesBed) -> None:
    """In turns, so that both meet the same load. Timed from the first request until the last pod is gone. What a portal
    asks while nothing is to be done is no request of its jobs."""
    wait_clean(portal, bed)
    places = sum(node["resourcesTotal"]["vCores"] for node in portal.get("/nodes"))
    idle = _counted(bed, lambda: time.sleep(IDLE))[1] / IDLE
    bare, ours, used = [], [], 0.0
    for turn in range(TURNS):
        bare.append(_counted(bed, lambda: _bare(bed, _label(portal), places)))
        began = _cpu(portal)
        prefix = f"many{turn}"
        ours.append(_counted(bed, lambda: _jobs(portal, prefix), lambda: wait_clean(portal, bed, 300)))  # noqa: B023
        used += _cpu(portal) - began
    ratio = sum(seconds for seconds, _ in bare) / sum(seconds for seconds, _ in ours)
    report.add(f"the same pods by a bare client, {places} at once", f"{_rate(bare)} pods/s", _turns(bare))
    told = f"{ratio:.2f} x bare; {_turns(ours)}"
    report.add("jobs of one task, until collected", f"{_rate(ours)} jobs/s", told, ">= 0.8 x", ratio >= 0.8)
    report.add("CPU of the portal for a job", f"{1000 * used / JOBS / TURNS:.0f} ms", "of all its processes")
    asked, asked_bare = (sum(asked - idle * took for took, asked in one) / JOBS / TURNS for one in (ours, bare))
    beside = f"of all clients, kubelets among them; {asked_bare:.1f} for a bare pod"
    report.add("requests to the API for a job", f"{asked:.1f}", beside)


def _rate(turns: Sequence[tuple[float, float]]) -> str:
    return f"{JOBS * len(turns) / sum(took for took, _ in turns):.2f}"


def _turns(turns: Sequence[tuple[float, float]]) -> str:
    return f"each of {len(turns)} turns: {', '.join(f'{JOBS / took:.2f}' for took, _ in turns)}"


def _jobs(portal: Portal, prefix: str) -> None:
    for nth in range(JOBS):
        portal.submit(config(f"{prefix}-{nth}", "true"))
    wait_for(lambda: portal.rows(unfinished(prefix)) == [(0,)], 300, 0.05, "all jobs are collected")


def _label(portal: Portal) -> str:
    """Of pods that are none of the portal's, and that it shall not count as taken by others."""
    return f"{LABEL_INSTANCE}={portal.instance}"


def _cpu(portal: Portal) -> float:
    return sum(map(cpu_of, portal.processes()))


def _counted(
    bed: KubernetesBed, work: Callable[[], None], rest: Callable[[], None] = lambda: None
) -> tuple[float, float]:
    """The seconds that it took, and the requests for pods and Secrets that the API server has answered meanwhile, and
    while ``rest`` waited for what comes behind."""
    before, began = _requests(bed), time.monotonic()
    work()
    took = time.monotonic() - began
    rest()
    return took, _requests(bed) - before


def _requests(bed: KubernetesBed) -> float:
    return sum(map(float, _REQUESTS.findall(bed.kubectl("get", "--raw", "/metrics"))))


def _bare(bed: KubernetesBed, label: str, places: int) -> None:
    """Makes the pods, ``places`` at once, deletes each that has ended, and returns when all are gone."""
    waiting, live, gone = [_pod(f"bare-{nth}", "true", label) for nth in range(JOBS)], set[str](), 0
    with _cluster_of(bed) as cluster, ThreadPoolExecutor(places) as hands:
        path, query = cluster.here("pods"), {"labelSelector": label}

        def make() -> None:
            while waiting and len(live) < places:
                pod = waiting.pop()
                live.add(pod["metadata"]["name"])
                hands.submit(cluster.ask, "POST", path, None, pod)

        watch = {**query, "watch": "true", "timeoutSeconds": "300", "resourceVersion": cluster.listed(path, query)[1]}
        with cluster.stream(path, watch, 300) as answer:
            make()
            for event in events_of(answer):
                name, status = event["object"]["metadata"]["name"], event["object"]["status"]
                if event["type"] == "DELETED":
                    gone += 1
                elif status.get("phase") == "Succeeded" and name in live:
                    live.remove(name)
                    hands.submit(cluster.ask, "DELETE", cluster.here("pods", name))
                    make()
                if gone == JOBS:
                    return
    raise TimeoutError(f"Of {JOBS} pods of the bare client {gone} have gone.")


@contextmanager
def _cluster_of(bed: KubernetesBed) -> Iterator[ClusterApi]:
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    shutil.copy(bed.kubeconfig, folder / "kubeconfig")
    try:
        yield ClusterApi(f"kubernetes://bare/{NAMESPACE}", folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pod(name: str, command: str, label: str) -> Json:
    """The pod of a job of one task as ``config`` has it, without its files, and with this label alone."""
    role = config(name, command)["taskRoles"][0]
    argv = ("/bin/sh", "-c", command)
    made = spec.pod(ContainerRequest(name, IMAGE, argv, cpus=role["cpuNumber"], memory_mb=role["memoryMB"]))
    key, _, value = label.partition("=")
    made["metadata"] = {"name": name, "labels": {key: value}}
    for holder, what in ((made["spec"], "volumes"), *((one, "volumeMounts") for one in made["spec"]["containers"])):
        holder[what] = [each for each in holder[what] if each["name"] != "files"]
    return made
