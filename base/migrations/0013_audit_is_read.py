from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("portal", "0012_processes")]

    operations = [
        migrations.AddField(
            model_name="auditevent",
            name="way",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="client",
            field=models.CharField(blank=True, db_default="", default="", max_length=160),
        ),
        migrations.AddIndex(model_name="auditevent", index=models.Index(fields=["actor", "id"], name="audit_by_actor")),
        migrations.AddIndex(
            model_name="auditevent", index=models.Index(fields=["action", "id"], name="audit_by_action")
        ),
        migrations.AddIndex(
            model_name="auditevent", index=models.Index(fields=["object", "id"], name="audit_by_object")
        ),
    ]
