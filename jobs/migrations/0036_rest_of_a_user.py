"""A user rests with all that they borrow, in whichever virtual cluster: of several rests the longest one stays."""

from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from django.db import migrations, models


_LargeLast = import_module("jobs.migrations.0033_gpu_type").LargeLast


def keep_the_longest(apps: Any, schema_editor: Any) -> None:
    seen = set()
    for rest in sorted(apps.get_model("jobs", "UserRest").objects.all(), key=_until, reverse=True):
        if rest.username in seen:
            rest.delete()
        seen.add(rest.username)


def _until(rest: Any) -> datetime:
    until: datetime = rest.last + min(timedelta(hours=12), 2 ** min(rest.evictions, 8) * timedelta(minutes=5))
    return until


class Migration(migrations.Migration):
    dependencies = [("jobs", "0035_job_naming_gpus")]

    operations = [
        migrations.RunPython(keep_the_longest, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="userrest", name="one_rest_per_user_and_vc"),
        migrations.RemoveField(model_name="userrest", name="vc"),
        migrations.AlterField(
            model_name="userrest",
            name="username",
            field=models.CharField(max_length=64, unique=True),
        ),
        migrations.AddField(
            model_name="userrest",
            name="owner",
            field=models.CharField(db_default="", default="", max_length=320),
        ),
        migrations.AddField(model_name="job", name="displaced", field=models.JSONField(null=True)),
        _LargeLast(),
    ]
