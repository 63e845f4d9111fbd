"""Computes what a job asks of nodes. Pure."""

from __future__ import annotations

from clusters.engines.image_names import canonical
from clusters.placement.fit import Demand, PortDemand
from jobs.config.spec import JobSpec


def demands(spec: JobSpec) -> tuple[Demand, ...]:
    """Return one Demand for each task, in the order of the config."""
    image, labels = canonical(spec.image), frozenset(spec.asked.node_labels.items())
    ports = {
        role.name: tuple(PortDemand(port.label, port.begin_at, port.port_number) for port in role.all_ports)
        for role in spec.task_roles
    }
    return tuple(
        Demand(
            task=f"{role.name}-{index}",
            role=role.name,
            index=index,
            cpus=role.cpu_number,
            memory_mb=role.memory_mb,
            gpus=role.gpu_number,
            gpu_type=spec.gpu_type,
            ports=ports[role.name],
            image=image,
            labels=labels,
        )
        for role in spec.task_roles
        for index in range(role.task_number)
    )
