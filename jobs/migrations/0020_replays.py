from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0019_legacy_names")]

    operations = [
        migrations.AddField("holding", "asked", models.TextField(blank=True, default="")),
        migrations.CreateModel(
            name="Replay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                ("asked", models.JSONField()),
                ("made", models.BigIntegerField()),
                ("beat", models.BigIntegerField(null=True)),
                ("progress", models.PositiveSmallIntegerField(default=0)),
                ("result", models.JSONField(null=True)),
                ("error", models.TextField(blank=True)),
            ],
        ),
    ]
