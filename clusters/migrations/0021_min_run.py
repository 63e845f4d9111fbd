from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0020_grace"),
    ]

    operations = [
        migrations.AddField(
            model_name="virtualcluster",
            name="min_run",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
    ]
