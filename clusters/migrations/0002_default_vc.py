"""The virtual cluster every user may submit to. It always exists."""

from __future__ import annotations

from typing import Any

from django.db import migrations


def create(apps: Any, schema_editor: Any) -> None:
    apps.get_model("clusters", "VirtualCluster").objects.get_or_create(
        name="default", defaults={"capacity": 100, "max_capacity": 100}
    )


class Migration(migrations.Migration):
    dependencies = [("clusters", "0001_initial")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
