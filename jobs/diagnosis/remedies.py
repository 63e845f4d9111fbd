"""Turns what a rule advises into changes of the job's config that the portal can make. Pure.

A change is one of ``jobs.config.edit.ChangeAsked``: the submit page opens with it, and nothing is sent before somebody
has looked at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from base.core import words
from jobs.diagnosis.evidence import Evidence, TaskEvidence
from jobs.diagnosis.rules import Rule

_GB = 1024
_ROOM = 1.25  # more than the highest use that was measured
_LEAST_SHM = 1024
_NEAR = 0.5  # of its memory; a task that used less needs no more, unless its cause is that it was short


def actions(
    rule: Rule, task: TaskEvidence, evidence: Evidence, suspects: Sequence[str]
) -> tuple[Mapping[str, Any], ...]:
    """[{"label", "change"}]: the buttons of a diagnosis, the best first."""
    buttons: list[Mapping[str, Any]] = []
    is_short = rule.of_cause == "memory" or (task.peak_mb or 0) >= task.memory_mb * _NEAR
    if rule.retry.memory and is_short and (more := _memory(task, rule.retry.memory, evidence.most_memory_mb)):
        buttons.append({"label": f"Retry with {size(more)}", "change": {"memoryMB": {task.role: more}}})
    if rule.retry.shm and (more := _shm(task, rule.retry.shm)):
        label = f"Retry with {size(more)} of shared memory"
        buttons.append({"label": label, "change": {"shmMB": {task.role: more}}})
    nodes = sorted({*suspects, *([task.node] if rule.retry.elsewhere and task.node else [])})
    if nodes:
        buttons.append({"label": f"Retry elsewhere than {words.listing(nodes)}", "change": {"avoidNodes": nodes}})
    return tuple(buttons)


def size(mb: int) -> str:
    return f"{mb / _GB:.4g} GB" if mb >= _GB else f"{mb} MB"


def _memory(task: TaskEvidence, factor: float, most: int) -> int:
    """More memory in whole GB, or 0 where no node has more."""
    wanted = max(task.memory_mb * factor, (task.peak_mb or 0) * _ROOM)
    more = -(-int(wanted) // _GB) * _GB
    more = min(more, most) if most else more
    return more if task.memory_mb and more > task.memory_mb else 0


def _shm(task: TaskEvidence, factor: float) -> int:
    more = min(max(int(task.shm_mb * factor), _LEAST_SHM), task.memory_mb)
    return more if more > task.shm_mb else 0
