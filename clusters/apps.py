from __future__ import annotations

from typing import Any

from django.apps import AppConfig


class ClustersRows(AppConfig):
    """The models alone, for processes that need little more (portal.lean_settings)."""

    name = "clusters"
    default_auto_field = "django.db.models.BigAutoField"


class ClustersConfig(ClustersRows):
    default = True

    def ready(self) -> None:
        from base.core.signals import answer_about_vcs, first_start
        from clusters.vcs.grants import manages
        from clusters.vcs.queries import store_quotas

        answer_about_vcs(store_quotas, manages)
        first_start.connect(_prepare, dispatch_uid="clusters.first_start")


def _prepare(**told: Any) -> None:
    from clusters.first_start import prepare  # only that process needs it

    prepare(**told)
