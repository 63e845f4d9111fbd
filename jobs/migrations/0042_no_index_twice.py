"""The indexes that Django makes for these foreign keys begin as others do, which say more: each row was in both."""

import django.db.models.deletion
from django.db import migrations, models


def _goes(table: str, column: str, digest: str) -> migrations.RunSQL:
    """Altering the field would copy the table on SQLite."""
    name = f"{table}_{column}_{digest}"
    back = f"CREATE INDEX {name} ON {table} ({column})"
    return migrations.RunSQL(f"DROP INDEX IF EXISTS {name}", back)


def _has_none(model: str, name: str, to: str, related_name: str, **more: bool) -> migrations.AlterField:
    key = models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name=related_name, to=to, **more
    )
    return migrations.AlterField(model, name, key)


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0041_notices"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                _goes("jobs_attempt", "job_id", "b587cf59"),
                _goes("jobs_task", "attempt_id", "6cfcc4dd"),
                _goes("jobs_task", "job_id", "6fefee23"),
                _goes("jobs_event", "job_id", "fd625fcd"),
            ],
            state_operations=[
                _has_none("attempt", "job", "jobs.job", "attempts"),
                _has_none("task", "attempt", "jobs.attempt", "tasks"),
                _has_none("task", "job", "jobs.job", "tasks"),
                _has_none("event", "job", "jobs.job", "events", null=True),
            ],
        ),
    ]
