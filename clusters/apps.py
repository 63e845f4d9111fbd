from __future__ import annotations

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "clusters"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from clusters.first_start import prepare
        from clusters.vcs.answers import Answers
        from portal.core.signals import answer_about_vcs, first_start

        answer_about_vcs(Answers())
        first_start.connect(prepare, dispatch_uid="clusters.first_start")
