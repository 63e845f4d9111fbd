"""The contracts of engines on a real cluster, and what only a real one does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.engines.runtime import FaultReason, RuntimeFault
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.contract_attach import AttachContract
from tests.contract_runtime import Lab, RuntimeContract, found, request
from tests.kubernetes.lab import KubernetesLab, lab_on


@pytest.fixture
def lab(cluster: KubernetesBed, tmp_path: Path) -> Iterator[KubernetesLab]:
    yield from lab_on(cluster, tmp_path)


@pytest.fixture
def stranger(cluster: KubernetesBed) -> str:
    started = ("run", "somebody-elses", f"--image={IMAGE}", "--image-pull-policy=Never", "--", "sleep", "1000")
    cluster.kubectl("-n", NAMESPACE, *started)
    return "somebody-elses"


class TestRuntime(RuntimeContract):
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


class TestTerminals(AttachContract):
    pass
