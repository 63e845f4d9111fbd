from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0026_evictions"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="gpus_given",
            field=models.JSONField(null=True),
        ),
    ]
