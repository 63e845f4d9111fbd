"""Jobs say in a column which type of GPUs they name. It is written of those that wait or run: nobody asks others."""

from django.db import migrations, models


def write_down(apps, schema_editor):
    live = apps.get_model("jobs", "Job").objects.filter(state__in=["WAITING", "RUNNING"], total_gpus__gt=0)
    for job in live.only("spec").iterator():
        if kind := job.spec.get("gpuType"):
            job.named_gpu_type = kind
            job.save(update_fields=["named_gpu_type"])


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0032_live_tasks_of_a_user"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="named_gpu_type",
            field=models.CharField(blank=True, db_default="", default="", max_length=256),
        ),
        migrations.RunPython(write_down, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["state", "named_gpu_type", "total_gpus", "deleted_at"],
                condition=models.Q(state__in=["WAITING", "RUNNING"], deleted_at__isnull=True, named_gpu_type__gt=""),
                name="job_naming_gpus",
            ),
        ),
    ]
