from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0023_notebook_minutes"),
    ]

    operations = [
        migrations.AddField(
            model_name="appointment",
            name="is_within",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
