from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0024_kept_logs"),
    ]

    operations = [
        migrations.AddField(
            model_name="prediction",
            name="vc",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="prediction",
            name="played",
            field=models.JSONField(null=True),
        ),
    ]
