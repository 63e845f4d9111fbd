import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("jobs", "0027_gpus_given"),
    ]

    operations = [
        migrations.AddField(
            model_name="pageshare",
            name="expires_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name="pageshare",
            name="kind",
            field=models.CharField(
                choices=[("user", "User"), ("vc", "Vc"), ("link", "Link")], default="user", max_length=4
            ),
        ),
        migrations.AddField(
            model_name="pagevisit",
            name="link",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="pagevisit",
            name="user",
            field=models.ForeignKey(
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="page_visits",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
