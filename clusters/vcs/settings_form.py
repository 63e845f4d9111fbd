"""The form for what an admin sets of a virtual cluster beside its shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from clusters.models import Node, VirtualCluster
from clusters.vcs.queries import VcView
from portal.core import words

_MOST = 2**31 - 1


class Fields(Protocol):
    """The fields of a POST."""

    def get(self, name: str, default: str, /) -> Any: ...
    def getlist(self, name: str, /) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Choice:
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
    store_quota: str = ""
    log_days: str = ""
    log_gigabytes: str = ""
    profile: str = VirtualCluster.Profile.DEFAULT
    rdma: bool = False
    nodes: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, view: VcView) -> SettingsForm:
        row = view.row
        return cls(
            gpu_guarantee=_text(row.gpu_guarantee),
            gpu_ceiling=_text(row.gpu_ceiling),
            user_gpus=_text(row.user_gpus),
            user_jobs=_text(row.user_jobs),
            store_quota=words.quota_text(row.store_quota),
            log_days=_text(row.log_days),
            log_gigabytes=_text(row.log_gigabytes),
            profile=row.profile,
            rdma=row.rdma,
            nodes=view.own,
        )

    @classmethod
    def typed(cls, post: Fields) -> SettingsForm:
        texts: dict[str, Any] = {
            name: str(post.get(name, "")).strip() for name in (*_NUMBERS, "store_quota", "profile")
        }
        nodes = tuple(str(name).replace("\0", "") for name in post.getlist("node"))
        form = cls(**texts, rdma=bool(post.get("rdma", "")), nodes=nodes)
        return replace(form, errors=form._mistakes())

    def refused(self, sentence: str) -> SettingsForm:
        return replace(self, errors={**self.errors, "": sentence})

    def settings(self, *, of_default: bool) -> dict[str, Any]:
        """The columns for clusters.vcs.services.change_settings. Only for a form without errors."""
        numbers = {name: int(getattr(self, name)) if getattr(self, name) else None for name in _NUMBERS}
        caps = {name: numbers[name] for name in ("user_gpus", "user_jobs", "log_days", "log_gigabytes")}
        quota = {"store_quota": words.quota_in(self.store_quota) if self.store_quota else None}
        if of_default:
            return caps | quota
        own = {
            "profile": self.profile or VirtualCluster.Profile.DEFAULT,
            "rdma": self.rdma,
            "dedicated_nodes": sorted(set(self.nodes)),
        }
        return numbers | quota | own

    def choices(self, own: str) -> list[Choice]:
        """The nodes of the pool and those of the virtual cluster ``own``."""
        rows = Node.objects.order_by("name").values_list("name", "gpus", "dedicated_to__name")
        return [Choice(name, len(gpus), name in self.nodes) for name, gpus, owner in rows if owner in (None, own)]

    def _mistakes(self) -> dict[str, str]:
        errors = {}
        for name, least in _NUMBERS.items():
            text = getattr(self, name)
            is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST))
            if text and not (is_number and least <= int(text) <= _MOST):
                errors[name] = f"Give a whole number from {least}, or nothing."
        try:
            words.quota_in(self.store_quota or "none")
        except ValueError:
            errors["store_quota"] = "Give a size such as 100g, none for no limit, or nothing."
        if self.profile and self.profile not in VirtualCluster.Profile.values:
            errors["profile"] = "Choose default or pai."
        return errors


_NUMBERS = {
    **{"gpu_guarantee": 0, "gpu_ceiling": 0, "user_gpus": 0, "user_jobs": 1},
    **{"log_days": 1, "log_gigabytes": 1},
}


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
