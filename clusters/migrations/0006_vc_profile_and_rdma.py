from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0005_node_images_and_marks"),
    ]

    operations = [
        migrations.AddField(
            model_name="virtualcluster",
            name="profile",
            field=models.CharField(choices=[("default", "Default"), ("pai", "Pai")], default="default", max_length=8),
        ),
        migrations.AddField(
            model_name="virtualcluster",
            name="rdma",
            field=models.BooleanField(default=False),
        ),
    ]
