import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0010_legacy")]

    operations = [
        migrations.CreateModel(
            name="JobSecrets",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="secrets",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("sealed", models.TextField()),
            ],
        ),
    ]
