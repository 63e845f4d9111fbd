"""The contracts of engines on a real cluster, and what only a real one does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.kubernetes import runtime
from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.kubernetes.events import PodWatch
from clusters.engines.runtime import FaultReason, RuntimeFault
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.contract_attach import AttachContract
from tests.contract_runtime import Lab, RuntimeContract, found, request, text
from tests.helpers import LIMIT, until
from tests.kubernetes.lab import KubernetesLab, lab_on

# What a cluster is given for what takes a moment, in seconds: of clusters.engines.kubernetes.
_MOMENTS = (
    "connect.CONNECT",
    "execs.PodTerminals.patience",
    "execs._ENDING",
    "execs._OPENING",
    "runtime.DIAL",
    "runtime.DISCARDED_WITHIN",
    "runtime.GONE_WITHIN",
    "runtime._ANSWER",
    "runtime._SEEN",
)


@pytest.fixture
def lab(cluster: KubernetesBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesLab]:
    """Which answers as soon as it comes to that: how soon, is nothing that these tests are about."""
    for name in _MOMENTS:
        monkeypatch.setattr(f"clusters.engines.kubernetes.{name}", LIMIT)
    monkeypatch.setattr("clusters.engines.exec_terminal.STARTING", LIMIT)
    yield from lab_on(cluster, tmp_path)


@pytest.fixture
def stranger(cluster: KubernetesBed) -> str:
    started = ("run", "somebody-elses", f"--image={IMAGE}", "--image-pull-policy=Never", "--", "sleep", "1000")
    cluster.kubectl("-n", NAMESPACE, *started)
    return "somebody-elses"


class TestRuntime(RuntimeContract):
    def test_it_tells_of_images_that_come_and_go_apart_from_containers(self, lab: Lab) -> None:
        """A cluster does not: its inventory has them."""
        assert lab.runtime.wait_event(0.3, lambda: None, pytest.fail) is True

    def test_it_makes_an_image_of_a_container_that_has_ended(self, lab: Lab) -> None:
        """A cluster does not: what it says is true."""
        asked = request(lab)
        lab.runtime.ensure(asked)
        with pytest.raises(RuntimeFault) as caught:
            lab.runtime.keep(asked.name, "localhost/longshore-kept:1", 1 << 20)
        assert caught.value.reason is FaultReason.REFUSED
        assert lab.runtime.image_names() == frozenset()
        with pytest.raises(RuntimeFault) as caught:
            lab.runtime.keep("longshore-contract-none", "localhost/longshore-kept:1", 1 << 20)
        assert caught.value.reason is FaultReason.GONE

    def test_it_says_that_an_image_does_not_exist(self, lab: Lab) -> None:
        """These nodes reach no registry. What others answer is in the table of tests/unit/test_pod_status.py."""
        asked = request(lab, image=lab.absent_image, argv=("true",))
        with pytest.raises(RuntimeFault) as raised:
            lab.runtime.ensure(asked)
        assert (raised.value.reason, raised.value.permanent) == (FaultReason.REGISTRY_UNREACHABLE, False)
        assert lab.absent_image in raised.value.sentence

    def test_it_says_that_a_port_is_taken(self, lab: Lab) -> None:
        """On the same host."""
        lab.runtime.ensure(request(lab, network="bridge", ports=(23456,), host="n1"))
        asked = request(lab, network="bridge", ports=(23456,), host="n1")
        with pytest.raises(RuntimeFault) as raised:
            lab.runtime.ensure(asked)
        assert (raised.value.reason, raised.value.permanent) == (FaultReason.PORT_TAKEN, False)
        assert found(lab, asked.name) is None


def test_a_task_that_has_removed_its_shell_is_stopped_all_the_same(
    lab: KubernetesLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_SEEN", 3.0)
    deaf = "trap '' TERM; rm -f /bin/sh; echo deaf; while :; do sleep 1; done"
    asked = request(lab, argv=("sh", "-c", deaf))
    lab.runtime.ensure(asked)
    until(lambda: text(lab.runtime.logs(asked.name, "stdout")))
    lab.runtime.stop(asked.name, 1)
    assert found(lab, asked.name) is None


def test_a_watch_that_is_too_old_says_so_and_begins_anew(lab: KubernetesLab, cluster: KubernetesBed) -> None:
    """410: an API server that was restarted has forgotten what came before."""
    woken: list[int] = []
    watch = PodWatch(lab.cluster)
    watch.listed("1")
    cluster.api_down()
    cluster.api_up()
    assert watch.follow(LIMIT, lambda: woken.append(1)) is False and woken == [1]
    assert watch.follow(1, lambda: None) is True


def test_a_list_whose_next_page_is_too_old_is_read_again(lab: KubernetesLab, cluster: KubernetesBed) -> None:
    pages = 0

    def ask(*asked: Any) -> Any:
        nonlocal pages
        answer, pages = ClusterApi.ask(lab.cluster, asked[0], asked[1], {**asked[2], "limit": 1}), pages + 1
        if pages == 1:
            assert answer["metadata"]["continue"]
            cluster.forget_history()
        return answer

    lab.cluster.ask = ask  # type: ignore[method-assign]
    nodes, version = lab.cluster.listed("/api/v1/nodes")
    assert [node["metadata"]["name"] for node in nodes] == ["n1", "n2"] and version
    assert pages > 2


class TestTerminals(AttachContract):
    pass
