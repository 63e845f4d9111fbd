"""Turns what the API of a Kubernetes cluster answers, and what goes wrong on the way to it, into RuntimeFault.

No other module does. The texts are those of Kubernetes 1.20 and later.
"""

from __future__ import annotations

import urllib3
from kubernetes.client.exceptions import OpenApiException
from kubernetes.config.config_exception import ConfigException

from clusters.engines import faults
from clusters.engines.faults import NETWORK, short
from clusters.engines.runtime import FaultReason, RuntimeFault

FOREIGN = (OpenApiException, ConfigException, urllib3.exceptions.HTTPError, OSError, EOFError)
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, EXPIRED = 401, 403, 404, 409, 410
_BUSY = frozenset({429, 500, 502, 503, 504})

_WAY: tuple[faults.WayRow, ...] = (
    (r"ConfigException.*[Ss]ervice", True, "Longshore does not run inside it, and no kubeconfig was given."),
    (r"ConfigException", True, "its kubeconfig cannot be used."),
    (r"FileNotFoundError", True, "its kubeconfig is not on this machine."),
    (r"CERTIFICATE_VERIFY_FAILED|certificate verify failed", True, "its certificate is not from the kubeconfig's CA."),
    (r"(BAD|UNKNOWN|EXPIRED|REVOKED)_(CERTIFICATE|CA)", True, "it does not take our certificate."),
    (r"WRONG_VERSION_NUMBER|record layer failure", True, "it does not speak TLS."),
    *NETWORK,
)


class Refused(RuntimeFault):
    """The API answered with an error; ``status`` is the one of HTTP, ``text`` what it said."""

    def __init__(self, sentence: str, *, status: int, text: str, reason: FaultReason, permanent: bool = False) -> None:
        super().__init__(sentence, reason=reason, permanent=permanent)
        self.status = status
        self.text = text


def unreachable(error: BaseException, cluster: str) -> RuntimeFault:
    """The fault of a call that got no answer. ``cluster`` is the name of the cluster."""
    permanent, sentence = faults.on_the_way(_WAY, faults.chain(error))
    return RuntimeFault(
        f"The Kubernetes cluster {cluster} cannot be reached: {sentence}",
        reason=FaultReason.UNREACHABLE,
        permanent=permanent,
    )


def refused(status: int, text: str, cluster: str) -> Refused:
    """The fault of an answer that is an error. ``text`` is the message of its Status, or its whole body."""
    said = short(text)
    if status == UNAUTHORIZED:
        sentence, reason, permanent = (
            f"The Kubernetes cluster {cluster} does not take Longshore's credentials.",
            FaultReason.UNREACHABLE,
            True,
        )
    elif status == FORBIDDEN and "exceeded quota" in text:
        sentence, reason, permanent = f"The quota of the namespace is used up: {said}", FaultReason.REFUSED, False
    elif status == FORBIDDEN:
        sentence, reason, permanent = f"The cluster forbids it: {said}", FaultReason.REFUSED, False
    elif status == NOT_FOUND:
        sentence, reason, permanent = f"The cluster does not have it: {said}", FaultReason.GONE, True
    elif status in _BUSY:
        sentence, reason, permanent = f"The cluster could not answer: {said}", FaultReason.UNREACHABLE, False
    else:
        sentence, reason, permanent = f"The cluster refused: {said}", FaultReason.REFUSED, status in (400, 422)
    return Refused(sentence, status=status, text=text, reason=reason, permanent=permanent)
