"""Turns what the docker library, its HTTP and its SSH transport raise into RuntimeFault. No other module does.

Engines of different age answer the same mistake with different status codes (a missing password is a 500 on 20.10), so
a fault is recognized by its text. The tables were measured on Docker 20.10; newer engines' words are added where they
differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import paramiko
import requests
import urllib3
from docker.errors import APIError, DockerException
from paramiko.ssh_exception import NoValidConnectionsError

from clusters.engines import faults
from clusters.engines.faults import ANY_STEP, NETWORK, PULL, START, of_text, short
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

_LATE = "Read timed out"  # the request was sent
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
    text = faults.chain(error, _tried)
    fault = faults.unreachable(f"Docker engine at {endpoint}", WAY, text)
    fault.late = _LATE in text
    return fault


def fault_of_text(text: str, endpoint: str, step: Step, subject: str = "", *, bad: bool = False) -> RuntimeFault:
    """``text`` is the engine's own answer. ``bad``: the answer blames the request itself."""
    table = of_text(PULL, text, f"Image {subject} ") if step == "pull" else of_text(START, text)
    if fault := of_text(ANY_STEP, text) or table:
        return fault
    if step == "pull":
        return RuntimeFault(f"Image {subject} could not be pulled: {short(text)}", reason=FaultReason.PULL_FAILED)
    # A 400 of a start may be about the node's own files (Docker 20.10 takes any missing one for the command).
    permanent = bad and step != "start"
    return RuntimeFault(f"Docker refused: {short(text)}", reason=FaultReason.REFUSED, permanent=permanent)


def _tried(error: BaseException) -> list[str]:
    """What became of each address, when paramiko has tried several and tells of none."""
    return [str(tried) for tried in error.errors.values()] if isinstance(error, NoValidConnectionsError) else []
