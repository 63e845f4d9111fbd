from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0022_managers"),
    ]

    operations = [
        migrations.AddField(
            model_name="virtualcluster",
            name="notebook_minutes",
            field=models.PositiveSmallIntegerField(db_default=120, default=120),
        ),
    ]
