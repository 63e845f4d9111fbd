"""The states in the conditions of the indexes of tasks stand in a chain of OR: for IN, SQLite sorts them anew for each
row that it writes. Jobs of a state lie in the order of the list, so that its first page sorts none."""

from functools import reduce
from operator import or_

from django.db import migrations, models
from django.db.models import Q


def _index(name: str, *states: str, **more: bool) -> list[migrations.operations.base.Operation]:
    condition = reduce(or_, (Q(state=state) for state in states))
    condition = condition & Q(**more) if more else condition
    index = models.Index(fields=["id"], condition=condition, name=name)
    return [migrations.RemoveIndex("task", name), migrations.AddIndex("task", index)]


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0044_notice_tries"),
    ]

    operations = [
        *_index("task_leftover", "SUCCEEDED", "FAILED", "STOPPED", collected=False),
        *_index("task_live", "STARTING", "RUNNING", "STOPPING"),
        migrations.RemoveIndex("job", "job_by_state"),
        migrations.AddIndex(
            "job",
            models.Index(
                fields=["state", "-created_at", "-id", "execution"],
                condition=Q(deleted_at__isnull=True),
                name="job_by_state",
            ),
        ),
    ]
