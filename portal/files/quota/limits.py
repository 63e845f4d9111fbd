"""The quota of a user: their own, else that of a virtual cluster, else the setting."""

from __future__ import annotations

from django.conf import settings

from portal.core.signals import about_vcs
from portal.core.words import UNLIMITED
from portal.models import User


def limit_of(username: str) -> int | None:
    """Bytes that all trees of a user together may hold; None for no limit.

    An admin may set the quota of one user. Without it the largest quota among the virtual clusters that the user may
    use counts; where none of them has one, LONGSHORE_STORE_QUOTA does.
    """
    user = User.objects.filter(username=username).values("store_quota", "is_admin").first()
    if user is None:
        return settings.STORE_QUOTA
    if user["store_quota"] is not None:
        return _or_none(user["store_quota"])
    quotas = about_vcs().store_quotas(username, is_admin=user["is_admin"])
    if not quotas:
        return settings.STORE_QUOTA
    return None if UNLIMITED in quotas else max(quotas)


def _or_none(quota: int) -> int | None:
    return None if quota == UNLIMITED else quota
