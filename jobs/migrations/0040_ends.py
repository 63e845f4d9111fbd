"""How a job is told to end: the grace of an attempt, what workers have told its tasks, and when it last saved."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models

LargeLast = import_module("jobs.migrations.0033_gpu_type").LargeLast


class Migration(migrations.Migration):
    dependencies = [("jobs", "0039_past_use")]

    operations = [
        migrations.AddField("attempt", "grace", models.PositiveSmallIntegerField(db_default=10, default=10)),
        migrations.AddField("job", "stops_now", models.BooleanField(db_default=False, default=False)),
        migrations.AddField("job", "saved_at", models.DateTimeField(null=True)),
        LargeLast(),
        migrations.AddField("task", "told", models.CharField(blank=True, db_default="", default="", max_length=8)),
        migrations.AddField("task", "told_at", models.DateTimeField(null=True)),
    ]
