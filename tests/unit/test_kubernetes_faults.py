"""What errors of a cluster's API mean."""

from __future__ import annotations

import pytest
import urllib3

from clusters.engines.inventory import parts_of
from clusters.engines.kubernetes.errors import refused, unreachable
from clusters.engines.runtime import FaultReason


@pytest.mark.parametrize(
    ("status", "text", "reason", "permanent", "said"),
    [
        (401, "Unauthorized", FaultReason.UNREACHABLE, True, "credentials"),
        (403, 'pods "q" is forbidden: exceeded quota: q, requested: ...', FaultReason.REFUSED, False, "quota"),
        (403, 'pods is forbidden: User "x" cannot list', FaultReason.REFUSED, False, "forbids"),
        (404, 'pods "q" not found', FaultReason.GONE, True, "does not have"),
        (409, "already exists", FaultReason.REFUSED, False, "refused"),
        (422, "Pod is invalid", FaultReason.REFUSED, True, "refused"),
        (500, "etcdserver: request timed out", FaultReason.UNREACHABLE, False, "could not answer"),
        (429, "slow down", FaultReason.UNREACHABLE, False, "could not answer"),
    ],
)
def test_an_error_of_the_api(status: int, text: str, reason: FaultReason, permanent: bool, said: str) -> None:
    fault = refused(status, text, "lab")
    assert (fault.status, fault.reason, fault.permanent) == (status, reason, permanent)
    assert said in fault.sentence


@pytest.mark.parametrize(
    ("error", "said", "permanent"),
    [
        (FileNotFoundError("KUBERNETES_SERVICE_HOST"), "does not run inside it", True),
        (FileNotFoundError("kubeconfig"), "not on this machine", True),
        (urllib3.exceptions.ReadTimeoutError(None, "", "Read timed out."), "in time", False),  # type: ignore[arg-type]
        (ConnectionRefusedError("Connection refused"), "nothing listens", False),
        (urllib3.exceptions.ProtocolError("Connection aborted."), "the connection broke", False),
    ],
)
def test_a_call_without_an_answer(error: Exception, said: str, permanent: bool) -> None:
    fault = unreachable(error, "lab")
    assert fault.reason is FaultReason.UNREACHABLE
    assert (said in fault.sentence, fault.permanent) == (True, permanent)


def test_an_endpoint_names_a_cluster_and_a_namespace() -> None:
    assert parts_of("kubernetes://lab-1.x/longshore") == ("lab-1.x", "longshore")
    for wrong in ("kubernetes://lab", "kubernetes://lab/", "kubernetes://lab/a/b", "kubernetes://Lab/a", "tcp://a/b"):
        with pytest.raises(ValueError, match="must name a cluster and a namespace"):
            parts_of(wrong)
