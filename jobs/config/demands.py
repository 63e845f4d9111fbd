"""Computes what a job asks of nodes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from clusters.engines.image_names import canonical
from clusters.placement.fit import Demand, PortDemand
from jobs.config.spec import JobSpec, RoleSpec


def demands(spec: JobSpec) -> tuple[Demand, ...]:
    """Return one Demand for each task, in the order of the config."""
    return tuple(
        make(task=f"{role.name}-{index}", index=index)
        for role, make in _of_roles(spec)
        for index in range(role.task_number)
    )


def shapes(spec: JobSpec) -> tuple[tuple[Demand, int], ...]:
    """Return the Demand of the first task of each role, and how many tasks that has: a job may have 100,000."""
    return tuple((make(task=f"{role.name}-0", index=0), role.task_number) for role, make in _of_roles(spec))


def _of_roles(spec: JobSpec) -> Iterator[tuple[RoleSpec, Callable[..., Demand]]]:
    image, labels = canonical(spec.image), frozenset(spec.asked.node_labels.items())
    for role in spec.task_roles:
        yield (
            role,
            partial(
                Demand,
                role=role.name,
                cpus=role.cpu_number,
                memory_mb=role.memory_mb,
                gpus=role.gpu_number,
                gpu_type=spec.gpu_type,
                ports=tuple(PortDemand(port.label, port.begin_at, port.port_number) for port in role.all_ports),
                image=image,
                labels=labels,
                topology=spec.asked.closeness,
            ),
        )
