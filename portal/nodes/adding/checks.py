"""Tests a node before it is added, step by step, and gives advice on each step that fails.

Nothing is saved but an SSH host key that the admin has accepted. Stages follow each other while they pass; each has a
time limit of its own, so that a browser can ask for one after the other and show how far the test is.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from base.core import words
from base.core.errors import BadRequest, ConflictNode, LongshoreError
from clusters.engines import own_ssh, schemes
from clusters.engines.runtime import RuntimeFault
from clusters.models import Node
from clusters.nodes import keys, services, survey
from clusters.nodes.gpus import found_gpus
from clusters.nodes.probe import LOOPBACK, probe, within
from clusters.nodes.serializers import Tls
from portal.nodes.adding.forms import NodeForm

CONNECT = 4.0  # seconds for a name and a connection
STAGES = ("way", "engine", "trial")
_SILENT = "Is the host up, and does a firewall let the portal's host through?"
_TOOLKIT = "Install nvidia-container-toolkit there and restart Docker, or declare fewer GPUs."
_OPEN_THE_WAY = "Set LONGSHORE_PUBLIC_URL to an address that the node reaches, or open the way."
# A pattern in what an engine is said to refuse, and the advice. The first pattern that matches counts.
_ADVICE = (
    (r"permission denied while trying", "On that host, once: sudo usermod -aG docker <the account>."),
    (r"SSH key for that user", "Put the portal's public key into ~/.ssh/authorized_keys of that account."),
    (r"may not open its socket", "Add the user that Longshore runs as to the group docker, and start Longshore again."),
    (r"did not answer|does not answer", _SILENT),
    (r"not from the CA", "Paste the ca.pem that signed the engine's own certificate."),
    (r"does not take our certificate", "cert.pem must be a client certificate signed by the CA that dockerd trusts."),
    (r"does not speak TLS", "Start dockerd with --tlsverify; port 2376 is the usual one."),
    (r"20\.10 or newer", "Upgrade Docker there."),
    (r"Swarm", "Run docker swarm leave there: else two schedulers would place containers."),
    (r"kubelet", "Take the host out of Kubernetes first, or leave it there."),
)


@dataclass(frozen=True, slots=True)
class CheckStep:
    """``state``: passed, hint (it can be added all the same), failed, open (not tried). ``fingerprint``: of an SSH host
    key that nobody has accepted yet."""

    name: str
    state: str
    text: str
    seconds: float = 0.0
    advice: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Tested:
    """What a test has shown so far. ``following`` is the stage to go on with."""

    steps: tuple[CheckStep, ...] = ()
    following: str = ""

    @property
    def failed(self) -> bool:
        return any(step.state == "failed" for step in self.steps)

    @property
    def seconds(self) -> float:
        return round(sum(step.seconds for step in self.steps), 1)

    @property
    def says(self) -> str:
        """How many steps passed, in words."""
        hints = sum(step.state == "hint" for step in self.steps)
        passed = sum(step.state == "passed" for step in self.steps)
        return f"{passed} passed" + (f", {words.count(hints, 'hint')}" if hints else "")


def test(form: NodeForm, stage: str = "") -> Tested:
    """One stage of the test, or all of them while they pass. ``form`` has no errors."""
    tested = Tested()
    for name in (stage,) if stage in STAGES else STAGES:
        more = _STAGES[name](form)
        tested = Tested(tested.steps + more.steps)
        if tested.failed:
            return replace(tested, steps=tested.steps + _not_tried(name))
    following = STAGES[STAGES.index(stage) + 1 :] if stage in STAGES else ()
    return replace(tested, following=following[0] if following else "")


def accept_host_key(form: NodeForm) -> None:
    """Remember the host key whose fingerprint the form has. BadRequest when the host has another one by now."""
    if form.kind != "ssh" or not form.trust:
        return
    key = schemes.host_key(form.endpoint)
    if key.known is None:
        raise BadRequest("The host shows another SSH host key than the one that is known here.")
    if key.known:
        return
    if key.fingerprint != form.trust:
        raise BadRequest(f"The host shows another SSH host key now: {key.fingerprint}.")
    own_ssh.accept(key)


def _way(form: NodeForm) -> Tested:
    """The name is free, the host is there and, over SSH, its key is the one that is expected."""
    if form.is_new and Node.objects.filter(name=form.name).exists():
        return Tested((_failed("Name", f"A node with the name {form.name} exists already.", "Give it another name."),))
    reached = _timed("Reached", lambda: _reached(form))
    if form.kind != "ssh" or reached.state == "failed":
        return Tested((reached,))
    return Tested((reached, _timed("Host key", lambda: _host(form))))


def _host(form: NodeForm) -> CheckStep:
    accept_host_key(form)
    key = schemes.host_key(form.endpoint)
    if key.known:
        return CheckStep("Host key", "passed", f"{key.fingerprint} is known.")
    if key.known is None:
        host, own = urlsplit(form.endpoint).hostname, own_ssh.folder() / own_ssh.KNOWN_HOSTS
        advice = f"A new machine? Then run ssh-keygen -R {host}, also with -f {own}. Else find out who answers."
        return CheckStep("Host key", "failed", f"{key.fingerprint} is not the key that this host had.", advice=advice)
    advice = "Compare it with what ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub prints there, and accept it."
    new = f"{key.fingerprint} is not known here yet."
    return CheckStep("Host key", "failed", new, advice=advice, fingerprint=key.fingerprint)


def _engine(form: NodeForm) -> Tested:
    """Docker answers, and nobody else hands out that host."""

    def ask() -> CheckStep:
        with _keys(form) as tls_dir:
            info = probe(form.endpoint, tls_dir)
        try:
            if form.is_new:
                services.refuse_known_engine(Node(endpoint=form.endpoint, engine_id=info.engine_id))
        except ConflictNode as error:
            return _failed("Docker", error.message, "Edit that node in place of adding it again.")
        size = f"{info.cpus} cores, {words.memory(info.memory_mb)}"
        return CheckStep("Docker", "passed", f"{info.version} on {info.hostname}: {size}; no Swarm, no kubelet.")

    return Tested((_timed("Docker", ask),))


def _trial(form: NodeForm) -> Tested:
    """A container of the sample image starts there, has the GPUs, and reaches the portal."""
    gpus = [{"id": str(number)} for number in range(int(form.gpus))] if form.gpus else []
    steps: list[CheckStep] = []
    with _keys(form) as tls_dir:
        try:
            engine = schemes.connect(form.endpoint, tls_dir or None)
            if not form.gpus:
                gpus, step = _inventory(form, tls_dir)
                steps.append(step)
            node = Node(name=form.name, network=form.network, gpus=gpus)
            began = time.monotonic()
            images, marks = within(survey.PATIENCE, lambda: survey.look_into(node, engine, with_trial=True))
        except RuntimeFault as fault:
            return Tested((*steps, _failed("Containers", fault.sentence)))
        except TimeoutError:
            return Tested((*steps, _failed("Containers", f"They did not end within {survey.PATIENCE:g} s.")))
    took = time.monotonic() - began
    steps.append(CheckStep("Images", "passed", f"{words.count(len(images), 'image')} there.", round(took, 1)))
    if form.gpus and int(form.gpus):
        steps.append(_promised("GPUs", marks.get("gpus"), f"{form.gpus} handed out to a container.", _TOOLKIT))
    steps.append(_promised("Portal", marks.get("portal"), "A container there opened the portal.", _OPEN_THE_WAY))
    return Tested(tuple(steps))


_STAGES: dict[str, Callable[[NodeForm], Tested]] = {"way": _way, "engine": _engine, "trial": _trial}
_NAMES = {"way": "Way", "engine": "Docker", "trial": "Containers, GPUs, portal"}


def _inventory(form: NodeForm, tls_dir: str) -> tuple[list[dict[str, str]], CheckStep]:
    """The GPUs that the host has, or that its engine hands out."""
    began = time.monotonic()
    gpus = found_gpus(form.endpoint, tls_dir)
    took = round(time.monotonic() - began, 1)
    if not gpus:
        return [], CheckStep("GPUs", "hint", "The engine tells of none. If the host has some, declare how many.", took)
    kinds = ", ".join(sorted({gpu["type"] for gpu in gpus} - {""}))
    text = " ".join(filter(None, (words.count(len(gpus), "GPU"), kinds, "found.")))
    return gpus, CheckStep("GPUs", "passed", text, took)


def _promised(name: str, fault: str | None, good: str, advice: str) -> CheckStep:
    """The step of something that a trial tries: ``fault`` is empty where it works, None where it was not tried. A fault
    marks a node, and does not refuse it."""
    if fault:
        return CheckStep(name, "hint", fault, advice=advice)
    return CheckStep(name, "passed", good) if fault == "" else CheckStep(name, "open", "Not tried.")


def _reached(form: NodeForm) -> CheckStep:
    if form.kind == "unix":
        if Path(form.socket).is_socket():
            return CheckStep("Reached", "passed", f"{form.socket} is a socket.")
        advice = "Is Docker installed and running there, and is this its socket?"
        return _failed("Reached", f"{form.socket}: there is no such socket.", advice)
    address = urlsplit(form.endpoint)
    host, port = str(address.hostname), address.port or 22
    try:
        where = within(CONNECT, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0][4][0]
        with socket.create_connection((host, port), CONNECT):
            who = host if where == host else f"{host} is {where} and"
            return CheckStep("Reached", "passed", f"{who} answers on port {port}.")
    except socket.gaierror:
        advice = "Check the spelling; the portal asks the name server of its own host."
        return _failed("Reached", f"{host}: its name is not known.", advice)
    except ConnectionRefusedError:
        advice = "Check the port, and that the service runs and listens on that address."
        return _failed("Reached", f"{host}:{port}: nothing listens there.", advice)
    except TimeoutError:
        return _failed("Reached", f"{host}:{port} did not answer within {CONNECT:g} s.", _SILENT)
    except (OSError, UnicodeError) as error:
        advice = "Check the address and the routes of the portal's host."
        return _failed("Reached", f"{host}:{port}: there is no way to its address ({error}).", advice)


@contextmanager
def _keys(form: NodeForm) -> Iterator[str]:
    """A folder with the TLS keys of the form, for as long as the block lasts; of a node that has some, its own."""
    if form.kind != "tcp":
        yield ""
        return
    if not form.keys:
        node = None if form.is_new else Node.objects.filter(name=form.name).first()
        if node is None and urlsplit(form.endpoint).hostname not in LOOPBACK:
            raise BadRequest("ca.pem, cert.pem and key.pem are needed.")
        yield node.tls_dir if node else ""
        return
    with keys.tried(form.endpoint, Tls(**form.keys).files()) as folder:
        yield folder


def _timed(name: str, do: Callable[[], CheckStep]) -> CheckStep:
    began = time.monotonic()
    try:
        step = do()
    except LongshoreError as error:
        step = _failed(name, error.message)
    except RuntimeFault as fault:
        step = _failed(name, fault.sentence)
    return replace(step, seconds=round(time.monotonic() - began, 1))


def _failed(name: str, sentence: str, advice: str = "") -> CheckStep:
    known = (advice for pattern, advice in _ADVICE if re.search(pattern, sentence, re.IGNORECASE))
    return CheckStep(name, "failed", sentence, advice=advice or next(known, ""))


def _not_tried(failed: str) -> tuple[CheckStep, ...]:
    left = STAGES[STAGES.index(failed) + 1 :]
    return tuple(CheckStep(_NAMES[name], "open", "Not tried.") for name in left)
