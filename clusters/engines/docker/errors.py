"""Turns what the docker library, its HTTP and its SSH transport raise into RuntimeFault. No other module does.

Engines of different age answer the same mistake with different status codes (a missing password is a 500 on 20.10), so
a fault is recognized by its text. The tables were measured on Docker 20.10; newer engines' words are added where they
differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import paramiko
import requests
import urllib3
from docker.errors import APIError, DockerException
from paramiko.ssh_exception import NoValidConnectionsError

from clusters.engines import faults
from clusters.engines.faults import NETWORK, PULL, Row, short
from clusters.engines.runtime import FaultReason, RuntimeFault

FOREIGN = (
    DockerException,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    paramiko.SSHException,
    OSError,
    EOFError,  # paramiko, when the other side goes in the middle of its greeting
)

Step = Literal["call", "pull", "create", "start"]

R = FaultReason
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
NO_SPACE: Row = (r"no space left on device|disk quota exceeded", R.NODE_BROKEN, False, "The node's disk is full.")
# The node lacks a program of the engine's own. The image is not to blame.
OWN_PROGRAM = r'exec: "(/\S*/)?(docker-(init|proxy|runc)|tini|runc|containerd[\w-]*|ctr|iptables|modprobe)"'
START: tuple[Row, ...] = (
    (r"port is already allocated|address already in use", R.PORT_TAKEN, False, "A port of the task is already in use."),
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
    NO_SPACE,
)
# What went wrong on the way to the engine. Users read it, and the admin who registers the node.
WAY: tuple[faults.WayRow, ...] = (
    (r"TLSParameterError|could not find the TLS", True, "the TLS keys of the node are not on this machine."),
    (r"FileNotFoundError|No such file or directory", False, "there is no such socket."),
    (r"PermissionError|Permission denied", True, "Longshore may not open its socket."),
    (r"CERTIFICATE_VERIFY_FAILED", True, "its certificate is not from the CA of the node's TLS keys."),
    (r"(BAD|UNKNOWN|EXPIRED|REVOKED)_(CERTIFICATE|CA)|CERTIFICATE_REQUIRED", True, "it does not take our certificate."),
    (r"WRONG_VERSION_NUMBER|record layer failure", True, "it does not speak TLS."),
    (
        r"AuthenticationException|Authentication failed|No authentication methods",
        True,
        "it does not take our SSH key for that user.",
    ),
    (
        r"not found in known_hosts",
        True,
        "its SSH host key is not known here. As the user Longshore runs as, log in there once with ssh, and compare and"
        " accept the key.",
    ),
    (r"BadHostKey|does not match", True, "its SSH host key is not the one in ~/.ssh/known_hosts."),
    *NETWORK,
)


@contextmanager
def translated(endpoint: str, step: Step = "call", subject: str = "") -> Iterator[None]:
    """Turn what the block raises into RuntimeFault. Callers do not run others' callbacks inside the block."""
    try:
        yield
    except FOREIGN as error:
        raise fault_of(error, endpoint, step, subject) from error


def fault_of(error: BaseException, endpoint: str, step: Step = "call", subject: str = "") -> RuntimeFault:
    if isinstance(error, APIError):
        return fault_of_text(str(error.explanation or error), endpoint, step, subject, bad=error.status_code == 400)
    permanent, sentence = faults.on_the_way(WAY, faults.chain(error, _tried))
    return RuntimeFault(
        f"The Docker engine at {endpoint} cannot be reached: {sentence}",
        reason=FaultReason.UNREACHABLE,
        permanent=permanent,
    )


def fault_of_text(text: str, endpoint: str, step: Step, subject: str = "", *, bad: bool = False) -> RuntimeFault:
    """``text`` is the engine's own answer. ``bad``: the answer blames the request itself."""
    rows = ANY_STEP + (PULL if step == "pull" else START)
    for pattern, reason, permanent, sentence in rows:
        if re.search(pattern, text, re.I):
            said = (
                f"Image {subject} {sentence}"
                if step == "pull" and (pattern, reason, permanent, sentence) in PULL
                else sentence
            )
            return RuntimeFault(f"{said} ({short(text)})", reason=reason, permanent=permanent)
    if step == "pull":
        return RuntimeFault(f"Image {subject} could not be pulled: {short(text)}", reason=FaultReason.PULL_FAILED)
    # A 400 of a start may be about the node's own files (Docker 20.10 takes any missing one for the command).
    permanent = bad and step != "start"
    return RuntimeFault(f"Docker refused: {short(text)}", reason=FaultReason.REFUSED, permanent=permanent)


def _tried(error: BaseException) -> list[str]:
    """What became of each address, when paramiko has tried several and tells of none."""
    return [str(tried) for tried in error.errors.values()] if isinstance(error, NoValidConnectionsError) else []
