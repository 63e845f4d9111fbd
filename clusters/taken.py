"""Adds up what is taken on nodes, for pages: the database does it, so they cost the same however many tasks run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import Func, IntegerField, Sum

from clusters.models import Allocation, Node
from clusters.placement.shares import Hold


class Length(Func):
    """How many elements the list in a JSONField has; most have none, which is seen without reading it as JSON."""

    function = "JSON_ARRAY_LENGTH"
    template = "CASE %(expressions)s WHEN '[]' THEN 0 ELSE %(function)s(%(expressions)s) END"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, function="JSONB_ARRAY_LENGTH")


def sums(*by: str) -> list[tuple[Any, ...]]:
    """(the values of these columns, cores, MB, GPUs) of all that is taken, by these columns."""
    rows = Allocation.objects.order_by().values_list(*by)
    return list(rows.annotate(Sum("cpus"), Sum("memory_mb"), gpus=Sum(Length("gpu_ids"))))


def taken_on(nodes: Sequence[Node]) -> dict[int, Hold]:
    """What is taken on each of these nodes, by its id, as if one task held it; without the ports. Two queries, which
    read one row for each node, and one for each task that has GPUs."""
    rows = Allocation.objects.filter(node=nodes[0]) if len(nodes) == 1 else Allocation.objects.all()
    gpus: dict[int, list[str]] = defaultdict(list)
    for node_id, ids in rows.exclude(gpu_ids=[]).values_list("node_id", "gpu_ids"):
        gpus[node_id] += map(str, ids)
    added = rows.order_by().values_list("node_id").annotate(Sum("cpus"), Sum("memory_mb"))
    held = {id: (cpus, memory_mb) for id, cpus, memory_mb in added}
    return {node.pk: Hold("", node.name, *held.get(node.pk, (0, 0)), tuple(gpus[node.pk]), ()) for node in nodes}


def ports_taken(node: Node) -> int:
    return int(Allocation.objects.filter(node=node).aggregate(number=Sum(Length("ports")))["number"] or 0)


def taken_by_others(gpus: Sequence[Mapping[str, str]], ours: Collection[str], number: int) -> frozenset[str]:
    """As many ids as other workloads have GPUs. A cluster tells of a number, so these are the last that are free."""
    free = [gpu["id"] for gpu in gpus if gpu["id"] not in ours]
    return frozenset(free[len(free) - min(number, len(free)) :])
