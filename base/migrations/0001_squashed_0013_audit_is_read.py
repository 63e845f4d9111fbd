"""Tables of the ground as this migration's last step leaves them, at once: a new database was made in seconds, step by step. A
database that is there goes the steps that it lacks, which can be deleted once no backup has to go them."""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("portal", "0001_initial"),
        ("portal", "0002_usernames"),
        ("portal", "0003_user_extras"),
        ("portal", "0004_user_keys"),
        ("portal", "0005_former_users"),
        ("portal", "0006_session_epoch"),
        ("portal", "0007_lease_and_reports"),
        ("portal", "0008_local_folder"),
        ("portal", "0009_store_quota"),
        ("portal", "0010_terminals"),
        ("portal", "0011_hosts"),
        ("portal", "0012_processes"),
        ("portal", "0013_audit_is_read"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "username",
                    models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A(?!\\.{1,2}\\Z)[A-Za-z0-9_.-]{1,64}\\Z",
                                "Use letters, digits, dots, dashes and underscores, 64 at most.",
                            )
                        ],
                    ),
                ),
                ("email", models.EmailField(blank=True, max_length=254)),
                ("is_admin", models.BooleanField(default=False)),
                ("is_active", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("extension", models.JSONField(blank=True, default=dict)),
                ("has_github_pat", models.BooleanField(default=False)),
                ("epoch", models.PositiveIntegerField(default=0)),
                ("store_quota", models.BigIntegerField(blank=True, null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="FormerUser",
            fields=[
                ("username", models.CharField(max_length=64, primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("name", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("report", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Host",
            fields=[
                ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=255)),
                ("url", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                ("skew", models.FloatField(null=True)),
                ("report", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="LeaseRow",
            fields=[
                ("name", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("epoch", models.PositiveBigIntegerField(default=0)),
                ("beats", models.PositiveBigIntegerField(default=0)),
                ("holder", models.CharField(blank=True, max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="LocalFolder",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.TextField(unique=True)),
                ("marker", models.CharField(max_length=32)),
            ],
        ),
        migrations.CreateModel(
            name="Process",
            fields=[
                ("id", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("host", models.CharField(max_length=32)),
                ("host_name", models.CharField(max_length=255)),
                ("name", models.CharField(max_length=20)),
                ("pid", models.PositiveIntegerField()),
                ("release", models.CharField(max_length=40)),
                ("since", models.DateTimeField()),
                ("at", models.DateTimeField()),
                ("report", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Shared",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("value", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Terminal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(db_index=True, max_length=64)),
                ("token", models.CharField(max_length=32, unique=True)),
                ("credential", models.CharField(max_length=64)),
                ("task", models.BigIntegerField()),
                ("where", models.CharField(max_length=600)),
                ("node", models.CharField(max_length=63)),
                ("container", models.CharField(max_length=200)),
                ("pid", models.PositiveIntegerField(null=True)),
                ("owner", models.CharField(max_length=64)),
                ("opened_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Ticket",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("id_hash", models.CharField(max_length=64, unique=True)),
                ("path", models.CharField(max_length=1000)),
                ("credential", models.CharField(max_length=100)),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("id_hash", models.CharField(max_length=64, unique=True)),
                ("name", models.CharField(blank=True, max_length=100)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("client", models.CharField(blank=True, db_default="", default="", max_length=160)),
            ],
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("actor", models.CharField(max_length=64)),
                ("action", models.CharField(max_length=40)),
                ("object", models.CharField(blank=True, max_length=200)),
                ("ip", models.GenericIPAddressField(null=True)),
                ("data", models.JSONField(default=dict)),
                ("way", models.CharField(blank=True, db_default="", default="", max_length=200)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["actor", "id"], name="audit_by_actor"),
                    models.Index(fields=["action", "id"], name="audit_by_action"),
                    models.Index(fields=["object", "id"], name="audit_by_object"),
                ],
            },
        ),
        migrations.CreateModel(
            name="UserKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("text", models.TextField()),
                ("fingerprint", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="keys", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "fingerprint"), name="one_key_per_user")],
            },
        ),
    ]
