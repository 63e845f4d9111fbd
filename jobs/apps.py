from __future__ import annotations

from typing import Any

from django.apps import AppConfig


class JobsRows(AppConfig):
    """The models alone, for processes that need little more (portal.lean_settings)."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"


class JobsConfig(AppConfig):
    name = "jobs"
    default = True
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth import get_user_model
        from django.db.models.signals import post_delete
        from django_q.signals import post_spawn

        from base.core.signals import answer_about_jobs, files_grew, first_start, node_learnt
        from jobs.answers import JobAnswers, forget, note
        from jobs.web_pages import models  # noqa: F401 - Django looks for rows in jobs/models alone

        answer_about_jobs(JobAnswers())
        node_learnt.connect(note, dispatch_uid="jobs.node_learnt")
        post_delete.connect(forget, sender=get_user_model(), dispatch_uid="jobs.user_deleted")
        post_delete.connect(forget, sender="clusters.VirtualCluster", dispatch_uid="jobs.vc_deleted")
        files_grew.connect(_note_growth, dispatch_uid="jobs.files_grew")
        first_start.connect(_put_examples, dispatch_uid="jobs.first_start")
        post_spawn.connect(_drop_earlier, dispatch_uid="jobs.worker_begins")


def _put_examples(**_: Any) -> None:
    from jobs.submitting import examples  # only that process needs it

    examples.put()


def _note_growth(**told: Any) -> None:
    from jobs.notices import conditions  # only who writes files needs it

    conditions.files_grew(**told)


def _drop_earlier(**told: Any) -> None:
    from jobs.containers import claims  # only workers need it

    claims.drop_earlier(**told)
