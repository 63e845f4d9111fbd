"""The type of GPU that a job asks for is a column, as lists show it and no page has to read a spec for it. And config
and spec become the last columns."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.migrations.operations.base import Operation
from django.db.models.fields.json import KT
from django.db.models.functions import Left


class LargeLast(Operation):
    """SQLite reads through all that stands in a row before the column that it looks for: with 32 kB of config there,
    whoever looked at the states of waiting jobs read all their configs. PostgreSQL keeps what is large elsewhere."""

    def state_forwards(self, app_label: str, state: Any) -> None:
        columns = state.models[app_label, "job"].fields
        for name in ("config", "spec"):
            columns[name] = columns.pop(name)
        state.reload_model(app_label, "job")

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "sqlite":
            schema_editor._remake_table(to_state.apps.get_model(app_label, "Job"))

    def describe(self) -> str:
        return "Make config and spec the last columns of a job"


def fill(apps: Any, schema_editor: Any) -> None:
    typed = apps.get_model("jobs", "Job").objects.filter(spec__gpuType__gt="")
    typed.update(gpu_type=Left(KT("spec__gpuType"), 256))


class Migration(migrations.Migration):
    dependencies = [("jobs", "0032_live_tasks_of_a_user")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="gpu_type",
            field=models.CharField(blank=True, db_default="", default="", max_length=256),
        ),
        LargeLast(),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
