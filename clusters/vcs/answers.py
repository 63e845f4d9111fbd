"""What lower rooms ask about virtual clusters."""

from __future__ import annotations

from clusters.models import VirtualCluster


class Answers:
    """portal.core.signals.AboutVcs"""

    def store_quotas(self, username: str, *, is_admin: bool) -> list[int]:
        vcs = VirtualCluster.objects.exclude(store_quota=None)
        usable = vcs if is_admin else vcs.filter(grants__username=username)
        return [quota for quota in usable.values_list("store_quota", flat=True) if quota is not None]
