from __future__ import annotations

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from clusters.live_jobs import count_with
        from jobs.node_events import note
        from jobs.owners import live_jobs
        from jobs.queries import is_attempt_live, live_by_vc
        from jobs.ssh import key_path_of
        from portal.core.signals import node_learnt, work_of
        from portal.files.store.delegation import attempts_alive_with
        from portal.files.webhdfs.addresses import older_paths_with

        work_of.connect(live_jobs, dispatch_uid="jobs.live_jobs")
        node_learnt.connect(note, dispatch_uid="jobs.node_events")
        count_with(live_by_vc)
        attempts_alive_with(is_attempt_live)
        older_paths_with(key_path_of)
