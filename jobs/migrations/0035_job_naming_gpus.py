"""The GPUs that live jobs ask for by the name of their type are added up from an index alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0034_rests")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["state", "gpu_type", "total_gpus", "deleted_at"],
                condition=models.Q(state__in=["WAITING", "RUNNING"], deleted_at__isnull=True, gpu_type__gt=""),
                name="job_naming_gpus",
            ),
        ),
    ]
