"""Archives of logs are signed from here on. Those of tasks that are there already have no signature."""

from django.db import migrations
from django.db.models import Max

UNSIGNED = "unsigned logs"  # as jobs/logs/places.py has it


def keep_what_is_there(apps, schema_editor):
    newest = apps.get_model("jobs", "Task").objects.aggregate(newest=Max("pk"))["newest"]
    if newest:
        apps.get_model("portal", "Shared").objects.update_or_create(name=UNSIGNED, defaults={"value": str(newest)})


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0029_sweep_stop_after"),
        ("portal", "0012_processes"),
    ]

    operations = [migrations.RunPython(keep_what_is_there, migrations.RunPython.noop)]
