from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("portal", "0005_former_users")]

    operations = [
        migrations.AddField(model_name="user", name="epoch", field=models.PositiveIntegerField(default=0)),
    ]
