"""Which nodes an appointment withholds from whom. Pure.

Before it begins nothing starts on its nodes that would run into it, unless its owner agreed that it is stopped at any
moment; while it runs, only those whom it is for. A job that does not say how long it runs counts as one of a day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from clusters.appointments.rules import Span
from clusters.placement.fit import Blocker, NodeView
from clusters.placement.shares import Quota, add, of_gpus, plus

UNSAID = timedelta(days=1)  # how long a job may run that does not say so
NONE: frozenset[str] = frozenset()


class Appointed:
    """The appointments as one round of turns sees them; jobs are any SchedulableJob. Each of these costs one look into
    a dictionary, and each kind of them one look at each appointment."""

    def __init__(self, spans: Sequence[Span], now: datetime) -> None:
        self.spans = [span for span in spans if span.end > now]
        self.now = now
        self._by_job = any(span.holder.job for span in self.spans)
        self._known: dict[tuple[object, ...], frozenset[str]] = {}

    def withheld(self, job: Any) -> frozenset[str]:
        """The nodes on which the job must not start now."""
        if not self.spans:
            return NONE
        key = job.vc, job.username, job.name if self._by_job else "", job.is_preemptible, job.most_seconds
        if key not in self._known:
            self._known[key] = NONE.union(*(span.nodes for span in self.spans if self._keeps_off(span, job)))
        return self._known[key]

    def _keeps_off(self, span: Span, job: Any) -> bool:
        if span.holder.takes(job.vc, job.username, job.name):
            return False
        if job.is_preemptible and self.now < span.begin:
            return False
        longest = UNSAID if job.most_seconds is None else timedelta(seconds=job.most_seconds)
        return self.now + longest > span.begin

    def ahead_of(self, job: Any) -> list[Span]:
        """The appointments that do not run yet and keep the job off nodes."""
        return [span for span in self.spans if self.now < span.begin and self._keeps_off(span, job)]

    def blockers(self, job: Any, nodes: frozenset[str]) -> list[Blocker]:
        """Say which appointments withhold these nodes from it; the three that begin first."""
        spans = [span for span in self.spans if span.nodes & nodes and self._keeps_off(span, job)]
        spans.sort(key=lambda span: (span.begin, span.id))
        unsaid = " It counts as one of a day, as no extras.maxRunSeconds says how long it runs."
        more = unsaid if job.most_seconds is None else ""
        return [
            Blocker(
                "appointment",
                f"It would run into an appointment on {span.sentence_for_others(span.nodes & nodes, self.now)}{more}",
                until=span.end.astimezone(self.now.tzinfo).isoformat(timespec="seconds"),
            )
            for span in spans[:3]
        ]

    @cached_property
    def own(self) -> Mapping[str, frozenset[str]]:
        """The nodes that virtual clusters as a whole have now beyond their guarantees, by their names."""
        own: dict[str, frozenset[str]] = {}
        for span in self.spans:
            if span.adds and span.runs(self.now) and span.holder.vc and not (span.holder.username or span.holder.job):
                own[span.holder.vc] = own.get(span.holder.vc, NONE) | span.nodes
        return own

    def quota(self, vc: str, quota: Quota, nodes: Sequence[NodeView]) -> Quota:
        """The right of a virtual cluster with the nodes that it has by appointment: they add to its guarantee and to
        its ceiling, as nodes of its own do."""
        names = self.own.get(vc)
        if names is None:
            return quota
        more: dict[str, float] = {}
        for node in nodes:
            if node.name in names and node.dedicated_to != vc:
                gpus = of_gpus(kind for _, kind in node.gpus)
                add(more, {"cpu": node.cpus, "memory": node.memory_mb, **gpus})
        ceiling = plus(quota.ceiling, more) if quota.ceiling else quota.ceiling
        return replace(quota, guarantee=plus(quota.guarantee, more), ceiling=ceiling)


def by_node(spans: Sequence[Span], now: datetime) -> Mapping[str, Span]:
    """The appointment that each node has now."""
    return {name: span for span in spans if span.runs(now) for name in span.nodes}
