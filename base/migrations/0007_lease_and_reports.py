from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0006_session_epoch"),
    ]

    operations = [
        migrations.CreateModel(
            name="LeaseRow",
            fields=[
                ("name", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("epoch", models.PositiveBigIntegerField(default=0)),
                ("beats", models.PositiveBigIntegerField(default=0)),
                ("holder", models.CharField(blank=True, max_length=200)),
            ],
        ),
        migrations.AddField(
            model_name="heartbeat",
            name="report",
            field=models.JSONField(default=dict),
        ),
    ]
