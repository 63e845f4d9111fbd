"""Tables of what we own as this migration's last step leaves them, at once: a new database was made in seconds, step by step. A
database that is there goes the steps that it lacks, which can be deleted once no backup has to go them."""

from typing import Any

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


def create(apps: Any, schema_editor: Any) -> None:
    apps.get_model("clusters", "VirtualCluster").objects.create(name="default", capacity=100, max_capacity=100)


class Migration(migrations.Migration):
    replaces = [
        ("clusters", "0001_initial"),
        ("clusters", "0002_default_vc"),
        ("clusters", "0003_groups"),
        ("clusters", "0004_vc_percents"),
        ("clusters", "0005_node_images_and_marks"),
        ("clusters", "0006_vc_profile_and_rdma"),
        ("clusters", "0007_fixed_ports"),
        ("clusters", "0008_store_quota"),
        ("clusters", "0009_shares_and_turns"),
        ("clusters", "0010_node_disk"),
        ("clusters", "0011_node_exporter"),
        ("clusters", "0012_kept_images"),
        ("clusters", "0013_log_retention"),
        ("clusters", "0014_kubernetes"),
        ("clusters", "0015_node_gone"),
        ("clusters", "0016_refused_ports"),
        ("clusters", "0017_appointment"),
        ("clusters", "0018_priorities"),
        ("clusters", "0019_share_half_life"),
        ("clusters", "0020_grace"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Cluster",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=40, unique=True)),
                ("endpoint", models.CharField(max_length=255)),
                ("tls_dir", models.CharField(blank=True, max_length=255)),
                ("selector", models.JSONField(default=dict)),
                ("port_from", models.PositiveIntegerField()),
                ("port_to", models.PositiveIntegerField()),
                ("network", models.CharField(max_length=8)),
                ("version", models.CharField(blank=True, max_length=40)),
                ("sees_others", models.BooleanField(default=True)),
                ("silent_reason", models.TextField(blank=True)),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="VirtualCluster",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[django.core.validators.RegexValidator("\\A[A-Za-z0-9_]+\\Z")],
                    ),
                ),
                ("capacity", models.FloatField(default=0)),
                ("max_capacity", models.FloatField(default=0)),
                (
                    "status",
                    models.CharField(
                        choices=[("RUNNING", "Running"), ("STOPPED", "Stopped")], default="RUNNING", max_length=8
                    ),
                ),
                (
                    "profile",
                    models.CharField(choices=[("default", "Default"), ("pai", "Pai")], default="default", max_length=8),
                ),
                ("rdma", models.BooleanField(default=False)),
                ("store_quota", models.BigIntegerField(blank=True, null=True)),
                ("gpu_ceiling", models.PositiveIntegerField(blank=True, null=True)),
                ("gpu_guarantee", models.PositiveIntegerField(blank=True, null=True)),
                ("user_gpus", models.PositiveIntegerField(blank=True, null=True)),
                ("user_jobs", models.PositiveIntegerField(blank=True, null=True)),
                ("log_days", models.PositiveIntegerField(blank=True, null=True)),
                ("log_gigabytes", models.PositiveIntegerField(blank=True, null=True)),
                ("user_priority", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("share_half_life", models.PositiveSmallIntegerField(db_default=24, default=24)),
                ("grace", models.PositiveSmallIntegerField(db_default=30, default=30)),
            ],
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?\\Z"
                            )
                        ],
                    ),
                ),
                ("endpoint", models.CharField(max_length=255)),
                ("address", models.CharField(max_length=255)),
                ("engine_id", models.CharField(blank=True, max_length=100)),
                ("docker_version", models.CharField(blank=True, max_length=40)),
                ("cpus", models.PositiveIntegerField()),
                ("memory_mb", models.PositiveIntegerField()),
                ("gpus", models.JSONField(default=list)),
                ("port_from", models.PositiveIntegerField(default=30000)),
                ("port_to", models.PositiveIntegerField(default=39999)),
                ("network", models.CharField(default="host", max_length=8)),
                ("labels", models.JSONField(default=dict)),
                (
                    "status",
                    models.CharField(
                        choices=[("active", "Active"), ("cordoned", "Cordoned"), ("draining", "Draining")],
                        default="active",
                        max_length=12,
                    ),
                ),
                (
                    "health",
                    models.CharField(
                        choices=[("ready", "Ready"), ("unreachable", "Unreachable")], default="ready", max_length=12
                    ),
                ),
                ("health_reason", models.TextField(blank=True)),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("unreachable_since", models.DateTimeField(null=True)),
                ("held", models.JSONField(default=dict)),
                ("tls_dir", models.CharField(blank=True, max_length=255)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("images", models.JSONField(default=list)),
                ("images_at", models.DateTimeField(null=True)),
                ("marks", models.JSONField(default=dict)),
                ("surveyed_at", models.DateTimeField(null=True)),
                ("fixed_ports", models.JSONField(default=list)),
                (
                    "dedicated_to",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="dedicated_nodes",
                        to="clusters.virtualcluster",
                    ),
                ),
                ("disk", models.JSONField(default=dict)),
                ("exporter", models.CharField(blank=True, db_default="", default="", max_length=255)),
                ("closed", models.TextField(blank=True, db_default="", default="")),
                ("host", models.CharField(blank=True, db_default="", default="", max_length=253)),
                ("others", models.JSONField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="nodes",
                        to="clusters.cluster",
                    ),
                ),
                ("gone_at", models.DateTimeField(null=True)),
                ("refused_ports", models.JSONField(db_default={}, default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="KeptImage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("image", models.CharField(max_length=120, unique=True)),
                ("username", models.CharField(max_length=64)),
                ("owner", models.BigIntegerField(db_index=True)),
                ("size", models.BigIntegerField()),
                ("until", models.DateTimeField(db_index=True)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="kept_images", to="clusters.node"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", models.CharField(max_length=64, unique=True)),
                ("vc", models.CharField(max_length=64)),
                ("cpus", models.PositiveIntegerField()),
                ("memory_mb", models.PositiveIntegerField()),
                ("gpu_ids", models.JSONField(default=list)),
                ("ports", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="allocations", to="clusters.node"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[django.core.validators.RegexValidator("\\A[A-Za-z0-9_]+\\Z")],
                    ),
                ),
                ("description", models.TextField(blank=True)),
                ("external_name", models.CharField(blank=True, max_length=255)),
                ("extension", models.JSONField(blank=True, default=dict)),
                (
                    "vc",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Appointment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(max_length=100)),
                ("nodes", models.JSONField(default=list)),
                ("username", models.CharField(blank=True, max_length=64)),
                ("job", models.CharField(blank=True, max_length=320)),
                ("begin", models.DateTimeField()),
                ("end", models.DateTimeField()),
                ("weekly", models.BooleanField(default=False)),
                ("zone", models.CharField(max_length=64)),
                ("made_by", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "vc",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="appointments",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GroupMember",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="members", to="clusters.group"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("group", "username"), name="one_membership_per_user")],
            },
        ),
        migrations.CreateModel(
            name="VcGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="clusters.virtualcluster"
                    ),
                ),
                ("priority", models.PositiveSmallIntegerField(null=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("vc", "username"), name="one_grant_per_user")],
            },
        ),
        migrations.RunPython(create, migrations.RunPython.noop),
    ]
