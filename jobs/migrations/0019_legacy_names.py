from __future__ import annotations

from typing import Any

from django.db import migrations, models


def leave_the_oldest(apps: Any, schema_editor: Any) -> None:
    """Of legacy jobs that share a name the oldest keeps the plain address; the others have that with their user."""
    jobs = apps.get_model("jobs", "Job").objects.filter(is_legacy=True, deleted_at=None)
    seen, later = set(), []
    for pk, name in jobs.order_by("id").values_list("pk", "name"):
        if name in seen:
            later.append(pk)
        seen.add(name)
    for start in range(0, len(later), 500):
        jobs.filter(pk__in=later[start : start + 500]).update(is_legacy=False)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_forecasts_by_limit")]

    operations = [
        migrations.RunPython(leave_the_oldest, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at__isnull", True), ("is_legacy", True)),
                fields=("name",),
                name="one_legacy_job_per_name",
            ),
        ),
    ]
