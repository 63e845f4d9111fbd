from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0019_share_half_life"),
    ]

    operations = [
        migrations.AddField(
            model_name="virtualcluster",
            name="grace",
            field=models.PositiveSmallIntegerField(db_default=30, default=30),
        ),
    ]
