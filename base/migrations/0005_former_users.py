from django.db import migrations, models


def known(apps, schema_editor):
    """Accounts that were deleted before names were kept are in the audit record."""
    gone = apps.get_model("portal", "AuditEvent").objects.filter(action="user deleted").values_list("object", flat=True)
    former = apps.get_model("portal", "FormerUser").objects
    former.bulk_create([former.model(username=name) for name in set(gone) if 0 < len(name) <= 64])


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0004_user_keys"),
    ]

    operations = [
        migrations.CreateModel(
            name="FormerUser",
            fields=[("username", models.CharField(max_length=64, primary_key=True, serialize=False))],
        ),
        migrations.RunPython(known, migrations.RunPython.noop),
    ]
