"""Why an image could not be pulled, and why an engine could not be reached, by the texts of errors. Pure.

Engines of different age answer the same mistake in different words, and a kubelet repeats those of its engine. The
texts were measured on Docker 20.10; newer engines' and containerd's are added where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from base.core.errors import encodable
from clusters.engines.runtime import FaultReason, RuntimeFault

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
        r"|context canceled"  # containerd's, of a registry that hangs
        r"|x509|HTTP response to HTTPS client|Client\.Timeout|\b50[234]\b",
        R.REGISTRY_UNREACHABLE,
        False,
        "could not be pulled: the node cannot reach its registry.",
    ),
)
# The node lacks a program of the engine's own. The image is not to blame.
OWN_PROGRAM = r'exec: "(/\S*/)?(docker-(init|proxy|runc)|tini|runc|containerd[\w-]*|ctr|iptables|modprobe)"'
START: tuple[Row, ...] = (
    (r"port is already allocated|address already in use", R.PORT_TAKEN, False, "A port of the task is already in use."),
    # In the words of NVIDIA's hook, whichever engine calls it.
    (r"unsatisfied condition", R.GPU_DRIVER, False, "The image wants a newer GPU driver than the node has."),
    (
        r"could not select device driver|nvidia-container|unknown device|runtime specified nvidia|nvidia\.com/gpu",
        R.GPU_MISSING,
        False,
        "The node cannot hand out the task's GPUs.",
    ),
    (OWN_PROGRAM, R.NODE_BROKEN, False, "The node's Docker installation is not complete."),
    (
        r"exec: .*(no such file|not found|permission denied|not a directory)|exec format error",
        R.COMMAND_MISSING,
        True,
        "The image has no program to run the command with.",
    ),
    (r"no space left on device|disk quota", R.NODE_BROKEN, False, "The node's disk is full."),
)
# What a Docker engine may answer to any question.
ANY_STEP: tuple[Row, ...] = (
    (
        r"no such container|container .* not found|dead or marked for removal",
        R.GONE,
        True,
        "The container does not exist any more.",
    ),
    (r"code = Unavailable|containerd\.sock|daemon is shutting down", R.UNREACHABLE, False, "The engine is restarting."),
    (r"client version \S+ is too (old|new)", R.REFUSED, True, "The engine speaks another version of Docker's API."),
    (r"HTTP request to an HTTPS server", R.UNREACHABLE, True, "The engine wants TLS; give the node its TLS keys."),
)
# The end of a table of what may go wrong on the way.
NETWORK: tuple[WayRow, ...] = (
    (r"Connection refused", False, "nothing listens there."),
    (r"Name or service not known|getaddrinfo|name ?resolution", False, "its name is not known."),
    (r"timed? ?out", False, "it did not answer in time."),
    (r"No route to host|Network is unreachable", False, "there is no way to its address."),
    (r"", False, "the connection broke."),
)


def of_text(rows: Iterable[Row], text: str, subject: str = "") -> RuntimeFault | None:
    """The fault of the first row that fits what an engine says. ``subject`` is what the row's sentence is about."""
    for pattern, reason, permanent, sentence in rows:
        if re.search(pattern, text, re.I):
            return RuntimeFault(f"{subject}{sentence} ({short(text)})", reason=reason, permanent=permanent)
    return None


def unreachable(whom: str, rows: Iterable[WayRow], text: str) -> RuntimeFault:
    """The fault of a call that got no answer, by the first row that fits ``text``. The last one must fit any."""
    permanent, says = next((permanent, says) for pattern, permanent, says in rows if re.search(pattern, text, re.I))
    sentence = f"The {whom} cannot be reached: {says}"
    return RuntimeFault(sentence, reason=FaultReason.UNREACHABLE, permanent=permanent)


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
    line = encodable(re.sub(r"//[^/@\s]*@", "//", " ".join(text.replace("\x00", "?").split())))
    return line if len(line) <= limit else line[: limit - 1] + "…"
