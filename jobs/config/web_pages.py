"""Says which ports of a job are web pages, and where they have their address on the portal's second origin. Pure.

Any port but ``ssh`` can be opened. Those whose labels say that they are web pages are listed as soon as the job is
there; every other one (a port without HTTP would only confuse) is listed once something answers on it by HTTP.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobs.config.spec import JobSpec, RoleSpec

# What a label may be, or may begin with before a digit, a dot or an underscore: https, jupyter_2, web.ui
RISKY = ("jupyter", "notebook", "code", "vscode")  # who opens it runs commands as the job
SURE = ("http", "https", "web", "ui", *RISKY, "tensorboard", "tb", "gradio", "streamlit", "dashboard")
_TITLES = {
    **{"tensorboard": "TensorBoard", "tb": "TensorBoard", "code": "VS Code", "vscode": "VS Code"},
    **{"http": "Web page", "https": "Web page", "ui": "UI"},
}
_NOT_IN_HOSTS = re.compile(r"[^a-z0-9]+")
_KEY = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
PREFIX = "/~/"  # below it are the pages where all share one host name; the portal itself has nothing there


@dataclass(frozen=True, slots=True)
class WebPage:
    """One port of one task that may be a web page. ``port`` is 0 while the task has no place."""

    role: str
    index: int
    label: str
    port: int = 0
    is_sure: bool = True  # its label says that it is one

    @property
    def title(self) -> str:
        return _TITLES.get(kind(self.label), self.label.capitalize())

    def path(self, instance: str, job_id: int) -> str:
        """Where it is below a host name that it shares with others."""
        return f"{PREFIX}{key(instance, job_id, self.role, self.index, self.label)}"

    @property
    def is_risky(self) -> bool:
        return kind(self.label) in RISKY

    @property
    def is_tls(self) -> bool:
        return kind(self.label) == "https"


def kind(label: str) -> str:
    """``jupyter`` of ``Jupyter_2``; a label that is none of SURE as it is."""
    first = re.split(r"[0-9._~]", label.lower(), maxsplit=1)[0]
    return first if first in SURE else label.lower()


def is_sure(label: str) -> bool:
    return kind(label) in SURE


def count(spec: JobSpec) -> int:
    """How many pages the labels of the config promise."""
    return sum(role.task_number * len(_sure(role)) for role in spec.task_roles)


def of_task(spec: JobSpec, role: str, index: int, ports: Mapping[str, Sequence[int]]) -> Iterator[WebPage]:
    """The pages of one task by label, the sure ones first. ``ports``: what it was given, {label: numbers}."""
    sure = _sure(spec.role(role))
    labels = [label for label, numbers in ports.items() if label != "ssh" and numbers]
    for label in sorted(labels, key=lambda label: (label not in sure, label)):
        yield WebPage(role, index, label, int(ports[label][0]), label in sure)


def declared(role: RoleSpec, index: int) -> Iterator[WebPage]:
    """The pages of a task's own ``portList``, before it has a place."""
    for port in role.port_list:
        if port.label != "ssh":
            yield WebPage(role.name, index, port.label, is_sure=is_sure(port.label))


def key(instance: str, job_id: int, role: str, index: int, label: str) -> str:
    """The name of a page in addresses: ``tensorboard-worker-0-9f2c41aa0b3d``. It is a label of a host name, the same
    for all attempts of the job, and no other page of any portal has it."""
    identity = "\0".join((instance, str(job_id), role, str(index), label))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = _NOT_IN_HOSTS.sub("-", f"{label[:20]}-{role[:20]}-{index}".lower()).strip("-")
    return f"{readable}-{digest}" if readable else digest


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def _sure(role: RoleSpec) -> list[str]:
    return [port.label for port in role.port_list if is_sure(port.label)]
