"""Why an image could not be pulled, and why an engine could not be reached, by the texts of errors. Pure.

Engines of different age answer the same mistake in different words, and a kubelet repeats those of its engine. The
texts were measured on Docker 20.10; newer engines' and containerd's are added where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from clusters.engines.runtime import FaultReason

Row = tuple[str, FaultReason, bool, str]  # text pattern, reason, permanent, sentence for the user
WayRow = tuple[str, bool, str]  # text pattern, permanent, sentence for users and for the admin who registers the node
_DEPTH = 6  # texts at most

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
# The end of a table of what may go wrong on the way.
NETWORK: tuple[WayRow, ...] = (
    (r"Connection refused", False, "nothing listens there."),
    (r"Name or service not known|getaddrinfo|name ?resolution", False, "its name is not known."),
    (r"timed? ?out", False, "it did not answer in time."),
    (r"No route to host|Network is unreachable", False, "there is no way to its address."),
    (r"", False, "the connection broke."),
)


def on_the_way(rows: Iterable[WayRow], text: str) -> tuple[bool, str]:
    """Whether it is permanent, and the sentence, by the first row that fits. The last one must fit any text."""
    return next((permanent, sentence) for pattern, permanent, sentence in rows if re.search(pattern, text, re.I))


def chain(error: BaseException | None, beside: Callable[[BaseException], Iterable[str]] = lambda _: ()) -> str:
    """The texts of an exception and of its causes: libraries wrap the one with the reason. ``beside``: more texts of
    one of them."""
    parts: list[str] = []
    while error is not None and len(parts) < _DEPTH:
        parts += [f"{type(error).__name__}: {error}", *beside(error)]
        error = error.__cause__ or error.__context__
    return " | ".join(parts)


def short(text: str, limit: int = 300) -> str:
    """One line of an answer, without credentials that an address in it may have."""
    line = re.sub(r"//[^/@\s]*@", "//", " ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"
