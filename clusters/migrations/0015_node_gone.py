from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0014_kubernetes"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="gone_at",
            field=models.DateTimeField(null=True),
        ),
    ]
