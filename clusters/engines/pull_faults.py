"""Why an image could not be pulled, by what engines say of it. Pure.

Engines of different age answer the same mistake in different words, and a kubelet repeats those of its engine. The
texts were measured on Docker 20.10; newer engines' and containerd's are added where they differ.
"""

from __future__ import annotations

from clusters.engines.runtime import FaultReason

Row = tuple[str, FaultReason, bool, str]  # text pattern, reason, permanent, sentence for the user

R = FaultReason
PULL: tuple[Row, ...] = (
    (r"invalid reference format|repository name must|invalid tag format", R.IMAGE_NAME, True, "is not an image name."),
    (r"toomanyrequests", R.PULL_FAILED, False, "could not be pulled: the registry's rate limit is used up."),
    (r"pull access denied", R.IMAGE_DENIED, True, "does not exist, or its registry wants other credentials."),
    (r"no matching manifest for", R.IMAGE_MISSING, True, "has no build for the node's kind of processor."),
    (r"manifest unknown|name unknown|manifest for .* not found|not found: ", R.IMAGE_MISSING, True, "does not exist."),
    (r"no such image", R.IMAGE_MISSING, True, "does not exist."),
    (
        r"no basic auth|unauthorized|authentication required|denied|\b40[13]\b",
        R.IMAGE_DENIED,
        True,
        "may not be pulled: its registry wants other credentials.",
    ),
    (r"no space left on device|disk quota", R.PULL_FAILED, False, "could not be pulled: the node's disk is full."),
    (r"verification failed", R.PULL_FAILED, False, "could not be pulled: a layer arrived damaged."),
    (
        r"dial tcp|no such host|connection refused|no route to host|timeout|deadline exceeded|connection reset|EOF"
        r"|x509|HTTP response to HTTPS client|Client\.Timeout|\b50[234]\b",
        R.REGISTRY_UNREACHABLE,
        False,
        "could not be pulled: the node cannot reach its registry.",
    ),
)
