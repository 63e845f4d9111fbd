"""Turns what the API of a Kubernetes cluster answers, and what goes wrong on the way to it, into RuntimeFault.

No other module does. The texts are those of Kubernetes 1.20 and later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import urllib3

from clusters.engines import faults
from clusters.engines.faults import NETWORK, short
from clusters.engines.runtime import FaultReason, RuntimeFault

FOREIGN = (urllib3.exceptions.HTTPError, OSError, EOFError)
FORBIDDEN, NOT_FOUND, CONFLICT, EXPIRED = 403, 404, 409, 410
R = FaultReason
# Statuses (none: any), words of the answer, and what they mean: the sentence, the reason, and whether it is permanent.
# The first row that fits counts.
_ANSWERS: tuple[tuple[tuple[int, ...], str, str, FaultReason, bool], ...] = (
    ((401,), "", "The Kubernetes cluster {cluster} does not take Longshore's credentials.", R.UNREACHABLE, True),
    ((FORBIDDEN,), "exceeded quota", "The quota of the namespace is used up: {said}", R.REFUSED, False),
    ((FORBIDDEN,), "", "The cluster forbids it: {said}", R.REFUSED, False),
    ((NOT_FOUND,), "", "The cluster does not have it: {said}", R.GONE, True),
    ((429, 500, 502, 503, 504), "", "The cluster could not answer: {said}", R.UNREACHABLE, False),
    ((400, 422), "", "The cluster refused: {said}", R.REFUSED, True),
    ((), "", "The cluster refused: {said}", R.REFUSED, False),
)

_WAY: tuple[faults.WayRow, ...] = (
    (
        r"FileNotFoundError.*(KUBERNETES_SERVICE|serviceaccount)",
        True,
        "Longshore does not run inside it, and no kubeconfig was given.",
    ),
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


class Tolerated:
    """A block that ends without an error where the API answers with one of these statuses."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = statuses

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, Refused) and error.status in self._statuses


@contextmanager
def translated(cluster: str) -> Iterator[None]:
    """Turn what breaks on the way to the cluster of this name into RuntimeFault."""
    try:
        yield
    except FOREIGN as error:
        raise unreachable(error, cluster) from error


def unreachable(error: BaseException, cluster: str) -> RuntimeFault:
    """Return the fault of a call that got no answer. ``cluster`` is the name of the cluster."""
    return faults.unreachable(f"Kubernetes cluster {cluster}", _WAY, faults.chain(error))


def refused(status: int, text: str, cluster: str) -> Refused:
    """The fault of an answer that is an error. ``text`` is the message of its Status, or its whole body."""
    sentence, reason, permanent = next(
        (sentence, reason, permanent)
        for statuses, words, sentence, reason, permanent in _ANSWERS
        if (not statuses or status in statuses) and words in text
    )
    sentence = sentence.format(cluster=cluster, said=short(text))
    return Refused(sentence, status=status, text=text, reason=reason, permanent=permanent)
