from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0009_task_live"),
    ]

    operations = [
        migrations.AddField(model_name="job", name="is_legacy", field=models.BooleanField(default=False)),
    ]
