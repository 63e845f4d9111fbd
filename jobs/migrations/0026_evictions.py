from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0025_played_forecasts"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="evictions",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
    ]
