from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0015_dependencies_met")]

    operations = [migrations.AddField("job", "ends_by", models.DateTimeField(null=True))]
