# What an attempt's failure is put down to, and which attempts are still to be diagnosed.
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_submitting")]

    operations = [
        migrations.AddField("attempt", "diagnosis_due", models.DateTimeField(null=True)),
        migrations.AddField("attempt", "diagnosis", models.JSONField(null=True)),
        migrations.AddIndex(
            "attempt",
            models.Index(
                fields=["diagnosis_due"], condition=Q(diagnosis_due__isnull=False), name="attempt_undiagnosed"
            ),
        ),
    ]
