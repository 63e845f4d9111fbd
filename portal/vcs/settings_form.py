"""The form for what an admin sets of a virtual cluster beside its shares."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from base.core import words
from clusters.models import Node, VirtualCluster
from clusters.nodes.queries import owner_of
from clusters.placement.shares import HALF_LIFE, USUAL_GRACE
from clusters.vcs.queries import VcView
from clusters.vcs.rules import NOTEBOOK_MINUTES
from portal.shared.api.bodies import limits
from portal.vcs.api import MOST, CapsChange, RetentionChange, VcSettings

_NUMBERS = limits(VcSettings, CapsChange, RetentionChange)  # the same as a request of the API may have


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """A node that may be its own: not one of another virtual cluster."""

    name: str
    gpus: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class SettingsForm:
    """What is set, or what somebody has typed, as texts; and what is wrong with it, by field ("" for the whole)."""

    gpu_guarantee: str = ""
    gpu_ceiling: str = ""
    user_gpus: str = ""
    user_jobs: str = ""
    user_priority: str = ""
    share_half_life: str = ""
    grace: str = ""
    min_run: str = ""
    notebook_minutes: str = ""
    store_quota: str = ""
    log_days: str = ""
    log_gigabytes: str = ""
    profile: str = VirtualCluster.Profile.DEFAULT
    rdma: bool = False
    nodes: tuple[str, ...] = ()
    was: str = ""  # ``settings`` as JSON when it was shown: what somebody else has saved since then stays
    errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, view: VcView) -> SettingsForm:
        row = view.row
        numbers: dict[str, int | None] = {name: getattr(row, name) for name in _NUMBERS}
        texts: dict[str, Any] = {name: "" if number is None else str(number) for name, number in numbers.items()}
        quota = words.quota_text(row.store_quota)
        form = cls(**texts, store_quota=quota, profile=row.profile, rdma=row.rdma, nodes=view.own)
        return replace(form, was=json.dumps(form.settings(())))

    @classmethod
    def typed(cls, post: QueryDict) -> SettingsForm:
        texts: dict[str, Any] = {name: post.get(name, "").strip() for name in (*_NUMBERS, "store_quota", "profile")}
        nodes = tuple(name.replace("\0", "") for name in post.getlist("node"))
        form = cls(**texts, rdma=bool(post.get("rdma", "")), nodes=nodes, was=post.get("was", ""))
        return replace(form, errors=form._mistakes())

    def refused(self, sentence: str) -> SettingsForm:
        return replace(self, errors={**self.errors, "": sentence})

    def settings(self, only: Collection[str]) -> dict[str, Any]:
        """The columns for clusters.vcs.services.change_settings that differ from what was shown, of these ``only``;
        empty: of all. Only for a form without errors."""
        numbers = {name: int(getattr(self, name)) if getattr(self, name) else None for name in _NUMBERS}
        settings = {
            **numbers,
            "user_priority": numbers["user_priority"] or 0,
            "share_half_life": HALF_LIFE if numbers["share_half_life"] is None else numbers["share_half_life"],
            "grace": USUAL_GRACE if numbers["grace"] is None else numbers["grace"],
            "min_run": numbers["min_run"] or 0,
            "notebook_minutes": numbers["notebook_minutes"] or NOTEBOOK_MINUTES,
            "store_quota": words.quota_in(self.store_quota) if self.store_quota else None,
            "profile": self.profile or VirtualCluster.Profile.DEFAULT,
            "rdma": self.rdma,
            "dedicated_nodes": sorted(set(self.nodes)),
        }
        shown = self._shown()
        changed = {name: value for name, value in settings.items() if name not in shown or shown[name] != value}
        return {name: value for name, value in changed.items() if not only or name in only}

    def _shown(self) -> dict[str, Any]:
        try:
            shown = json.loads(self.was or "{}")
        except (ValueError, RecursionError):
            return {}
        return shown if isinstance(shown, dict) else {}

    def choices(self, own: str, nodes: Sequence[Node]) -> list[NodeChoice]:
        """Of ``registered_nodes`` those of the pool and those of the virtual cluster ``own``."""
        theirs = [node for node in nodes if owner_of(node) in ("", own)]
        return [NodeChoice(node.name, len(node.gpus), node.name in self.nodes) for node in theirs]

    def _mistakes(self) -> dict[str, str]:
        errors = {}
        for name, (least, most) in _NUMBERS.items():
            number = words.whole(text := getattr(self, name))
            if text and (number is None or not least <= number <= most):
                errors[name] = f"Give a whole number from {least}{f' to {most}' if most < MOST else ''}, or nothing."
        try:
            words.quota_in(self.store_quota or "none")
        except ValueError:
            errors["store_quota"] = "Give a size such as 100g, none for no limit, or nothing."
        if self.profile and self.profile not in VirtualCluster.Profile.values:
            errors["profile"] = "Choose default or pai."
        return errors
