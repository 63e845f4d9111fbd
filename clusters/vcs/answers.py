"""What lower rooms ask about virtual clusters."""

from __future__ import annotations

from django.db.models import Q

from clusters.models import VirtualCluster
from clusters.vcs.rules import DEFAULT


class Answers:
    """portal.core.signals.AboutVcs"""

    def store_quotas(self, username: str, *, is_admin: bool) -> list[int]:
        vcs = VirtualCluster.objects.exclude(store_quota=None)
        usable = vcs if is_admin else vcs.filter(Q(grants__username=username) | Q(name=DEFAULT))
        return [quota for quota in usable.distinct().values_list("store_quota", flat=True) if quota is not None]
