"""Notebooks: small jobs of a user's own whose web page is a tool, opened with one click and ended when nobody uses it.

What was done stays in a folder of the store, and the next one of that folder begins with it.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from django.conf import settings

from base.core.errors import BadRequest, Conflict, Forbidden, InvalidConfig
from base.core.words import count
from base.files.store import rules
from base.files.store_actor import KnownAccounts
from base.models import User
from clusters.models import VirtualCluster
from clusters.placement.fit import NodeView
from clusters.vcs.rules import DEFAULT_VC, NOTEBOOK_MINUTES
from jobs import queries, secrets, services
from jobs.config.spec import JobSpec
from jobs.forecast.outlook import outlooks
from jobs.models import Job
from jobs.reading import read
from jobs.submitting.sizes import Size, size_of
from jobs.waiting.queue import recent_queue
from jobs.web_pages import tensorboard

LAB, CODE, BOARD = "jupyter", "code", "tensorboard"  # the tools, by the label of their port
TOOLS = {LAB: "JupyterLab", CODE: "VS Code", BOARD: "TensorBoard"}
NAMED = "notebook-"  # how the names of these jobs begin
MOST = 50  # of a user's notebooks that are looked at, the newest
_TOKENS = {LAB: "JUPYTER_TOKEN", CODE: "CODE_TOKEN"}  # names of the secrets by which a tool knows its owner
_GPUS = (1, 2, 4)
_LEAST = (1, 1024)  # cores and MB, where no node is known
_SCRIPT = (Path(__file__).parent / "notebook_task.py").read_text()


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to open. ``folder`` is a path of the store; ``gpu_type`` is empty for any."""

    tool: str = LAB
    image: str = ""
    vc: str = DEFAULT_VC
    folder: str = ""
    gpus: int = 0
    gpu_type: str = ""

    @property
    def size(self) -> str:
        """``2 × A100`` or ``No GPU``."""
        return f"{self.gpus} × {self.gpu_type or 'GPU'}" if self.gpus else "No GPU"


@dataclass(frozen=True, slots=True)
class Notebook:
    job: Job
    asked: Asked

    @property
    def is_live(self) -> bool:
        """Whether it has not ended and nobody has asked for that."""
        return self.job.state in queries.LIVE and self.job.execution == Job.Execution.START


def of(user: User) -> list[Notebook]:
    """The user's notebooks, newest first."""
    jobs = queries.visible_jobs().filter(username=user.username, name__startswith=NAMED).order_by("-id").defer("config")
    found = ((job, JobSpec.from_json(job.spec)) for job in jobs[:MOST])
    return [Notebook(job, asked) for job, spec in found if (asked := _asked(spec))]


def usual(notebooks: Sequence[Notebook], user: User) -> Asked:
    """What is offered at first: as last time."""
    if notebooks:
        return notebooks[0].asked
    return Asked(image=settings.NOTEBOOK_IMAGE, folder=f"/users/{user.username}/notebooks")


def image_for(tool: str, notebooks: Sequence[Notebook]) -> str:
    """With what this tool is opened where nobody says: as last time. What has JupyterLab is taken for VS Code too."""
    alike = (each.asked.image for each in notebooks if (each.asked.tool == BOARD) == (tool == BOARD))
    return next(alike, _usual_image(tool))


def sizes(user: User, asked: Asked) -> list[tuple[Asked, str, Size]]:
    """The sizes that nodes have, each with what it has beside its GPUs and whether it would start now."""
    nodes = recent_queue().scene.nodes
    types = sorted({kind for node in nodes for _, kind in node.gpus})
    offered = [replace(asked, gpus=0, gpu_type="")] + [
        replace(asked, gpus=gpus, gpu_type=kind)
        for kind in types
        for gpus in _GPUS
        if any(sum(each == kind for _, each in node.gpus) >= gpus for node in nodes)
    ]
    specs = [_spec(user, each, nodes) for each in offered]
    views = outlooks(specs, user.username)
    return [
        (each, f"{count(spec.task_roles[0].cpu_number, 'core')}, {spec.task_roles[0].memory_mb // 1024} GB",
         size_of(each.gpus, view, each.gpus == asked.gpus and each.gpu_type == asked.gpu_type))
        for each, spec, view in zip(offered, specs, views, strict=True)
    ]  # fmt: skip


def _spec(user: User, asked: Asked, nodes: Sequence[NodeView]) -> JobSpec:
    """What would be submitted; with the usual image where the one that is asked for is no image."""
    try:
        return read(_workbench(asked, NAMED, nodes), username=user.username)[1]
    except InvalidConfig:
        return read(_workbench(replace(asked, image="", vc=DEFAULT_VC), NAMED, nodes), username=user.username)[1]


def open_one(user: User, asked: Asked) -> Job:
    """Submit it. Raises BadRequest; Forbidden for a folder that a job of the user's could not use; Conflict for one in
    which the user works already; and what services.submit raises."""
    folder = tensorboard.path_of(asked.folder.strip())
    if asked.tool not in TOOLS or folder in ("", "/"):
        raise BadRequest("Name a tool, and a folder of this portal's files, such as /users/lena/notebooks.")
    rights = tensorboard.rights_of_jobs(user)
    if not rights.may_read(folder):
        raise Forbidden(f"You may not read {folder}, so a job of yours could not open it.")
    if asked.tool != BOARD and not rights.may_write(folder):
        raise Forbidden(f"You may not write into {folder}, so what you do there could not be saved.")
    open_there = (one for one in of(user) if one.is_live and one.asked.folder == folder and one.asked.tool in _TOKENS)
    if asked.tool in _TOKENS and (other := next(open_there, None)):
        raise Conflict(
            f"{TOOLS[other.asked.tool]} is open in {folder}, as {other.job.name}, and what one of the two saves, the "
            "other would write over. Save it and give it back first, or open another folder."
        )
    asked = replace(asked, folder=folder, image=asked.image.strip() or _usual_image(asked.tool))
    name = queries.free_name(user.username, f"{NAMED}{asked.tool}")
    if asked.tool != BOARD:
        is_own = rules.owner_of(folder, KnownAccounts()) == user.username
        return services.submit(user, _workbench(asked, name, recent_queue().scene.nodes, is_own=is_own))
    config = tensorboard.config(name, folder, asked.image, asked.vc, idle=60 * idle_minutes(asked.vc))
    return services.submit(user, {**config, "extras": {**config["extras"], "notebook": BOARD}})


def idle_minutes(vc: str) -> int:
    """After how many without use a notebook in this virtual cluster ends."""
    if not vc.isprintable():
        return NOTEBOOK_MINUTES  # no name of any; PostgreSQL refuses to look for some of these signs
    found = VirtualCluster.objects.filter(name=vc).values_list("notebook_minutes", flat=True).first()
    return NOTEBOOK_MINUTES if found is None else found


def key_of(user: User, job: Job, tool: str) -> dict[str, str]:
    """What opens the tool to the owner, as a query of its address: a token, or a cookie's value; empty for others."""
    token = secrets.of(job.pk).get(_TOKENS.get(tool, "")) if user.username == job.username else None
    if not token:
        return {}
    return {"session": hashlib.sha256(token.encode()).hexdigest()} if tool == CODE else {"token": token}


def _usual_image(tool: str) -> str:
    return str(settings.TENSORBOARD_IMAGE if tool == BOARD else settings.NOTEBOOK_IMAGE)


def _workbench(asked: Asked, name: str, nodes: Sequence[NodeView], *, is_own: bool = False) -> dict[str, Any]:
    """The config of a tool in which one works. Sizes are asked before there is a tool: all take the same. ``is_own``:
    nobody but the user writes into the folder."""
    tool = asked.tool if asked.tool in _TOKENS else LAB
    cores, memory = _beside(asked, nodes)
    role = {
        "name": tool,
        "taskNumber": 1,
        "cpuNumber": cores,
        "memoryMB": memory,
        "gpuNumber": asked.gpus,
        "portList": [{"label": tool, "beginAt": 0, "portNumber": 1}],
        "command": f"export NOTEBOOK_TOOL={tool} NOTEBOOK_FOLDER={shlex.quote(asked.folder)} "
        f"NOTEBOOK_IDLE={60 * idle_minutes(asked.vc)} NOTEBOOK_IS_OWN={'yes' if is_own else ''}\n"
        f"cat >/tmp/notebook.py <<'PYTHON'\n{_SCRIPT}PYTHON\nexec python3 /tmp/notebook.py",
    }
    config = {
        "jobName": name,
        "image": asked.image or settings.NOTEBOOK_IMAGE,
        "virtualCluster": asked.vc,
        "taskRoles": [role],
        "extras": {
            "notebook": tool,
            "serves": asked.folder,
            "graceSeconds": 30,
            "secrets": {_TOKENS[tool]: token_hex(24)},
        },
    }
    return {**config, "gpuType": asked.gpu_type} if asked.gpu_type else config


def _beside(asked: Asked, nodes: Sequence[NodeView]) -> tuple[int, int]:
    """Cores and MB: what a node has for each of its GPUs, and without one a quarter of the largest, within limits."""
    if asked.gpus:
        fit = [node for node in nodes if any(kind == asked.gpu_type for _, kind in node.gpus)]
        cores, memory = min(
            ((node.cpus / len(node.gpus), node.memory_mb / len(node.gpus)) for node in fit), default=_LEAST
        )
        return int(max(1, min(8, cores) * asked.gpus)), int(max(512, min(32_768, memory) * asked.gpus)) // 256 * 256
    cores, memory = max(((node.cpus / 4, node.memory_mb / 4) for node in nodes), default=_LEAST)
    return int(max(1, min(4, cores))), int(max(512, min(16_384, memory))) // 256 * 256


def _asked(spec: JobSpec) -> Asked | None:
    tool, folder, role = spec.extras.get("notebook"), spec.extras.get("serves"), spec.task_roles[0]
    if not (isinstance(tool, str) and tool in TOOLS and isinstance(folder, str) and role.name == tool):
        return None
    return Asked(tool, spec.image, spec.effective_virtual_cluster, folder, role.gpu_number, spec.gpu_type or "")
