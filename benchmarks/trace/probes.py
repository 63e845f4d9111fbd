"""Writes down when each step of a job begins and ends, inside the portal's own processes.

A Django app of the measurement alone: ``benchmarks.trace.settings`` adds it, and ``ready`` wraps the functions of
PROBES. The portal itself has no code for this. Each line of the file is one step: begin and length in nanoseconds of
the machine's clock, process id, whose work it was, name of the step, and nanoseconds of CPU of its thread.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from django.apps import AppConfig

FILE = "trace.tsv"  # in LONGSHORE_HOME: where the lines go

# (where the function is looked up, attribute, name of the step). A class's attribute is written "Class.method".
PROBES: tuple[tuple[str, str, str], ...] = (
    ("jobs.services", "submit", "web: submit"),
    ("jobs.scheduling.loop", "Scheduler.tick", "scheduler: pass"),
    ("jobs.scheduling.loop", "WorldLoader.world", "scheduler: read the rows"),
    ("jobs.scheduling.loop", "plan", "scheduler: plan"),
    ("jobs.scheduling.loop", "apply", "scheduler: write"),
    ("clusters.engines.watch", "Watcher._ask", "watch: list"),
    ("jobs.containers.tasks", "run", "worker: orders taken"),
    ("jobs.containers.tasks", "carry_out", "worker: order"),
    ("jobs.containers.claims", "take", "worker: claim"),
    ("jobs.containers.claims", "close", "worker: fact"),
    ("jobs.containers.claims", "is_wanted", "start: still wanted"),
    ("jobs.containers.tasks", "launch_of", "start: read what it needs"),
    ("jobs.containers.tasks", "_publish_first", "start: job's files into the store"),
    ("jobs.containers.delivery", "prepare", "start: prepare the delivery"),
    ("clusters.nodes.refusals", "started", "start: note what the node showed"),
    ("clusters.engines.docker.runtime", "DockerRuntime.ensure", "start: at the engine"),
    ("clusters.engines.docker.runtime", "DockerRuntime._find", "engine: inspect"),
    ("clusters.engines.docker.runtime", "provide_image", "engine: image there"),
    ("clusters.engines.docker.runtime", "DockerRuntime._create", "engine: create"),
    ("clusters.engines.docker.runtime", "DockerRuntime._put", "engine: put"),
    ("clusters.engines.docker.runtime", "DockerRuntime.short_logs", "engine: log"),
    ("docker.api.container", "ContainerApiMixin.start", "engine: start"),
    ("jobs.logs.archive", "archive", "collect: archive the log"),
    ("jobs.logs.archive", "_write", "collect: one stream"),
    ("jobs.logs.archive", "write_index", "collect: index"),
    ("clusters.engines.docker.runtime", "DockerRuntime.remove", "collect: remove"),
    ("clusters.engines.docker.runtime", "DockerRuntime._discard", "engine: remove"),
)

_whose = threading.local()  # task of the order that this thread carries out


class Probes(AppConfig):
    name = "benchmarks"
    label = "benchmarks"

    def ready(self) -> None:
        file = os.open(Path(os.environ["LONGSHORE_HOME"], FILE), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for module, path, step in PROBES:
            _wrap(import_module(module), path, step, file)


def _wrap(module: Any, path: str, step: str, file: int) -> None:
    *holders, name = path.split(".")
    holder = functools.reduce(getattr, holders, module)
    setattr(holder, name, _timed(getattr(holder, name), step, file))


def _timed(function: Callable[..., Any], step: str, file: int) -> Callable[..., Any]:
    is_order = step == "worker: order"

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if is_order:
            _whose.order = f"{args[0]} {args[1]}"
        began, used = time.time_ns(), time.thread_time_ns()
        try:
            return function(*args, **kwargs)
        finally:
            took, used = time.time_ns() - began, time.thread_time_ns() - used
            whose = getattr(_whose, "order", "")
            os.write(file, f"{began}\t{took}\t{os.getpid()}\t{whose}\t{step}\t{used}\n".encode())
            if is_order:
                _whose.order = ""

    return timed
