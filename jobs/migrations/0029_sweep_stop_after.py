from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0028_page_links"),
    ]

    operations = [
        migrations.AddField(
            model_name="sweep",
            name="stop_after",
            field=models.PositiveIntegerField(null=True),
        ),
    ]
