"""Tables of jobs as this migration's last step leaves them, at once: a new database was made in seconds, step by step. A
database that is there goes the steps that it lacks, which can be deleted once no backup has to go them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("jobs", "0001_initial"),
        ("jobs", "0002_never"),
        ("jobs", "0003_job_indexes"),
        ("jobs", "0004_live_indexes"),
        ("jobs", "0005_published_and_keys"),
        ("jobs", "0006_held"),
        ("jobs", "0007_discarded"),
        ("jobs", "0008_by_end"),
        ("jobs", "0009_task_live"),
        ("jobs", "0010_legacy"),
        ("jobs", "0011_secrets"),
        ("jobs", "0012_shares_and_turns"),
        ("jobs", "0013_holding"),
        ("jobs", "0014_holdings_of_before"),
        ("jobs", "0015_dependencies_met"),
        ("jobs", "0016_job_ends_by"),
        ("jobs", "0017_forecasts"),
        ("jobs", "0018_forecasts_by_limit"),
        ("jobs", "0019_legacy_names"),
        ("jobs", "0020_replays"),
        ("jobs", "0021_submitting"),
        ("jobs", "0022_diagnosis"),
        ("jobs", "0023_web_pages"),
        ("jobs", "0024_kept_logs"),
        ("jobs", "0025_played_forecasts"),
        ("jobs", "0026_evictions"),
        ("jobs", "0027_gpus_given"),
        ("jobs", "0028_page_links"),
        ("jobs", "0029_sweep_stop_after"),
        ("jobs", "0030_signed_logs"),
        ("jobs", "0031_secrets_as_texts"),
        ("jobs", "0032_live_tasks_of_a_user"),
        ("jobs", "0033_gpu_type"),
        ("jobs", "0034_rests"),
        ("jobs", "0035_job_naming_gpus"),
        ("jobs", "0036_rest_of_a_user"),
        ("jobs", "0037_kept_idle"),
        ("jobs", "0038_job_unpublished"),
        ("jobs", "0039_past_use"),
        ("jobs", "0040_ends"),
    ]

    initial = True

    dependencies = [
        ("portal", "0001_squashed_0013_audit_is_read"),
    ]

    operations = [
        migrations.CreateModel(
            name="Discarded",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255)),
                ("app_ids", models.JSONField()),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Sweep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255)),
                ("config", models.TextField()),
                ("parameters", models.JSONField()),
                ("created_at", models.DateTimeField()),
                ("stop_after", models.PositiveIntegerField(null=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("username", "name"), name="one_sweep_per_name")],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=255)),
                ("vc", models.CharField(max_length=64)),
                ("state", models.CharField(default="WAITING", max_length=10)),
                (
                    "execution",
                    models.CharField(choices=[("START", "Start"), ("STOP", "Stop")], default="START", max_length=5),
                ),
                ("stopped_by", models.CharField(blank=True, max_length=64)),
                ("attempt_number", models.PositiveIntegerField(default=1)),
                ("user_retries", models.PositiveIntegerField(default=0)),
                ("platform_retries", models.PositiveIntegerField(default=0)),
                ("resource_retries", models.PositiveIntegerField(default=0)),
                ("exit_code", models.IntegerField(null=True)),
                ("total_tasks", models.PositiveIntegerField()),
                ("total_roles", models.PositiveIntegerField()),
                ("total_gpus", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField()),
                ("queued_at", models.DateTimeField()),
                ("not_before", models.DateTimeField(null=True)),
                ("parked_until", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("completed_at", models.DateTimeField(null=True)),
                ("deleted_at", models.DateTimeField(null=True)),
                ("changed_at", models.DateTimeField()),
                ("never", models.TextField(blank=True)),
                ("published_at", models.DateTimeField(null=True)),
                ("is_legacy", models.BooleanField(default=False)),
                ("guest_evictions", models.PositiveSmallIntegerField(default=0)),
                ("is_guest", models.BooleanField(default=False)),
                ("priority", models.SmallIntegerField(default=0)),
                ("queue_time", models.DateTimeField(null=True)),
                ("awaits", models.PositiveSmallIntegerField(default=0)),
                ("unmet", models.TextField(blank=True)),
                ("ends_by", models.DateTimeField(null=True)),
                ("forecast", models.JSONField(null=True)),
                ("evictions", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("gpu_type", models.CharField(blank=True, db_default="", default="", max_length=256)),
                ("displaced", models.JSONField(null=True)),
                ("keeps_turn", models.BooleanField(db_default=False, default=False)),
                ("place_of", models.CharField(blank=True, db_default="", default="", max_length=64)),
                ("stops_now", models.BooleanField(db_default=False, default=False)),
                ("saved_at", models.DateTimeField(null=True)),
                (
                    "sweep",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="jobs",
                        to="jobs.sweep",
                    ),
                ),
                ("config", models.TextField()),
                ("spec", models.JSONField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["username", "-created_at"], name="job_by_user"),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True)),
                        fields=["state", "execution", "-created_at", "-id"],
                        name="job_by_state",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True)),
                        fields=["-created_at", "-id", "username", "name", "vc", "state", "execution"],
                        name="job_by_age",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("state__in", ["WAITING", "RUNNING"]), ("deleted_at__isnull", False), _connector="OR"
                        ),
                        fields=[
                            "id",
                            "state",
                            "execution",
                            "attempt_number",
                            "changed_at",
                            "not_before",
                            "parked_until",
                            "deleted_at",
                        ],
                        name="job_live",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True)),
                        fields=["-completed_at", "-id", "username", "state"],
                        name="job_by_end",
                    ),
                    models.Index(
                        condition=models.Q(("sweep__isnull", False)), fields=["sweep", "id"], name="job_by_sweep"
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True), ("state__in", ["WAITING", "RUNNING"])),
                        fields=["username", "total_tasks"],
                        name="job_live_by_user",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("deleted_at__isnull", True), ("gpu_type__gt", ""), ("state__in", ["WAITING", "RUNNING"])
                        ),
                        fields=["state", "gpu_type", "total_gpus", "deleted_at"],
                        name="job_naming_gpus",
                    ),
                    models.Index(
                        condition=models.Q(("published_at__isnull", True), ("started_at__isnull", False)),
                        fields=["started_at"],
                        name="job_unpublished",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("deleted_at__isnull", True)),
                        fields=("username", "name"),
                        name="one_job_per_name",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("deleted_at__isnull", True), ("is_legacy", True)),
                        fields=("name",),
                        name="one_legacy_job_per_name",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KeptIdle",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("vc", models.CharField(max_length=64, unique=True)),
                ("job", models.BigIntegerField()),
                ("nodes", models.JSONField()),
                ("since", models.DateTimeField()),
                ("at", models.DateTimeField()),
                ("gpus", models.PositiveIntegerField()),
                ("most", models.FloatField()),
                ("idled", models.FloatField()),
                ("lasted", models.FloatField()),
                ("lapses", models.PositiveIntegerField()),
                ("until", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Replay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                ("asked", models.JSONField()),
                ("made", models.BigIntegerField()),
                ("beat", models.BigIntegerField(null=True)),
                ("progress", models.PositiveSmallIntegerField(default=0)),
                ("result", models.JSONField(null=True)),
                ("error", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="UserRest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64, unique=True)),
                ("evictions", models.PositiveSmallIntegerField()),
                ("counted", models.DateTimeField()),
                ("last", models.DateTimeField()),
                ("owner", models.CharField(db_default="", default="", max_length=320)),
            ],
        ),
        migrations.CreateModel(
            name="Draft",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(blank=True, max_length=255)),
                ("sealed", models.TextField()),
                ("changed_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Holding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("username", models.CharField(max_length=64)),
                ("job_name", models.CharField(max_length=255)),
                ("vc", models.CharField(max_length=64)),
                ("attempt", models.PositiveIntegerField()),
                ("role", models.CharField(max_length=255)),
                ("index", models.PositiveIntegerField()),
                ("node", models.CharField(max_length=63)),
                ("gpu_ids", models.TextField(blank=True)),
                ("gpus", models.PositiveIntegerField()),
                ("gpu_type", models.CharField(blank=True, max_length=64)),
                ("cpus", models.PositiveIntegerField()),
                ("memory_mb", models.PositiveIntegerField()),
                ("guest", models.BooleanField(default=False)),
                ("waited", models.BigIntegerField(null=True)),
                ("began", models.BigIntegerField()),
                ("ended", models.BigIntegerField(null=True)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("STOPPED", "Stopped"),
                            ("EVICTED", "Evicted"),
                            ("LOST", "Lost"),
                        ],
                        max_length=9,
                    ),
                ),
                ("exit_code", models.IntegerField(null=True)),
                ("asked", models.TextField(blank=True, default="")),
            ],
            options={
                "indexes": [models.Index(fields=["ended", "began"], name="holding_by_time")],
            },
        ),
        migrations.CreateModel(
            name="JobKey",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="key",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("public", models.TextField()),
                ("private", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="JobSecrets",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="secrets",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("sealed", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("app_id", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField()),
                ("launched_at", models.DateTimeField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("completed_at", models.DateTimeField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("exit", models.JSONField(default=dict)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="jobs.job"
                    ),
                ),
                ("diagnosis_due", models.DateTimeField(null=True)),
                ("diagnosis", models.JSONField(null=True)),
                ("log_bytes", models.BigIntegerField(db_default=0, default=0)),
                ("log_goes_at", models.DateTimeField(null=True)),
                ("log_gone_at", models.DateTimeField(null=True)),
                ("grace", models.PositiveSmallIntegerField(db_default=10, default=10)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("completed_at__isnull", True), ("decided_at__isnull", False)),
                        fields=["job"],
                        name="attempt_winding_down",
                    ),
                    models.Index(
                        condition=models.Q(("diagnosis_due__isnull", False)),
                        fields=["diagnosis_due"],
                        name="attempt_undiagnosed",
                    ),
                ],
                "constraints": [models.UniqueConstraint(fields=("job", "number"), name="one_attempt_per_number")],
            },
        ),
        migrations.CreateModel(
            name="PageShare",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(max_length=255)),
                ("index", models.PositiveIntegerField()),
                ("label", models.CharField(max_length=255)),
                (
                    "kind",
                    models.CharField(
                        choices=[("user", "User"), ("vc", "Vc"), ("link", "Link")], default="user", max_length=4
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="page_shares",
                        to="jobs.job",
                    ),
                ),
                ("expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job", "role", "index", "label", "kind", "name"), name="one_share_per_name"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PageVisit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(max_length=255)),
                ("index", models.PositiveIntegerField()),
                ("label", models.CharField(max_length=255)),
                ("session", models.CharField(blank=True, max_length=64)),
                ("token", models.BigIntegerField(null=True)),
                ("ticket", models.CharField(max_length=64, unique=True)),
                ("cookie", models.CharField(max_length=64, null=True, unique=True)),
                ("expires_at", models.DateTimeField(db_index=True)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="page_visits",
                        to="jobs.job",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="page_visits",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("link", models.BigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="PastUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("username", models.CharField(max_length=64)),
                ("vc", models.CharField(max_length=64)),
                ("cpu", models.FloatField()),
                ("memory", models.FloatField()),
                ("gpu", models.FloatField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("username", "vc"), name="one_past_use_per_user_and_vc")
                ],
            },
        ),
        migrations.CreateModel(
            name="Prediction",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("attempt", models.PositiveIntegerField()),
                ("made", models.BigIntegerField()),
                ("p10", models.BigIntegerField()),
                ("p50", models.BigIntegerField()),
                ("p90", models.BigIntegerField()),
                ("guess", models.BigIntegerField(null=True)),
                ("started", models.BigIntegerField(null=True)),
                ("by_limit", models.BigIntegerField(null=True)),
                ("vc", models.CharField(blank=True, db_default="", default="", max_length=64)),
                ("played", models.JSONField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("started", None)), fields=["job_id", "attempt"], name="prediction_open"
                    ),
                    models.Index(fields=["made"], name="prediction_by_age"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(max_length=255)),
                ("index", models.PositiveIntegerField()),
                ("state", models.CharField(default="WAITING", max_length=10)),
                ("changed_at", models.DateTimeField()),
                ("node", models.CharField(blank=True, max_length=63)),
                ("address", models.CharField(blank=True, max_length=255)),
                ("gpu_ids", models.JSONField(default=list)),
                ("ports", models.JSONField(default=dict)),
                ("ordered_at", models.DateTimeField(null=True)),
                ("claim", models.CharField(blank=True, max_length=32)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("fact_at", models.DateTimeField(null=True)),
                ("progress", models.CharField(blank=True, max_length=120)),
                ("fault", models.JSONField(null=True)),
                ("container_name", models.CharField(blank=True, max_length=200)),
                ("container_id", models.CharField(blank=True, max_length=64)),
                ("container_started_at", models.DateTimeField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("exit", models.JSONField(default=dict)),
                ("finished_at", models.DateTimeField(null=True)),
                ("collected", models.BooleanField(default=False)),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="jobs.attempt"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="jobs.job"),
                ),
                ("held_at", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
                ("gpus_given", models.JSONField(null=True)),
                ("told", models.CharField(blank=True, db_default="", default="", max_length=8)),
                ("told_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job", "state"], name="task_by_job"),
                    models.Index(
                        condition=models.Q(("collected", False), ("state__in", ["SUCCEEDED", "FAILED", "STOPPED"])),
                        fields=["id"],
                        name="task_leftover",
                    ),
                    models.Index(
                        condition=models.Q(("state__in", ["STARTING", "RUNNING", "STOPPING"])),
                        fields=["id"],
                        name="task_live",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("attempt", "role", "index"), name="one_task_per_index")
                ],
            },
        ),
        migrations.CreateModel(
            name="Template",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("vc", models.CharField(blank=True, max_length=64)),
                ("name", models.CharField(max_length=80)),
                ("config", models.TextField()),
                ("used", models.PositiveIntegerField(default=0)),
                ("changed_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("vc", "")), fields=("user", "name"), name="one_template_per_name"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("vc", ""), _negated=True),
                        fields=("vc", "name"),
                        name="one_template_per_vc_and_name",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("kind", models.CharField(max_length=40)),
                ("attempt", models.PositiveIntegerField(null=True)),
                ("task", models.CharField(blank=True, max_length=270)),
                ("node", models.CharField(blank=True, max_length=63)),
                ("actor", models.CharField(default="scheduler", max_length=64)),
                ("before", models.CharField(blank=True, max_length=12)),
                ("after", models.CharField(blank=True, max_length=12)),
                ("reason", models.TextField(blank=True)),
                ("data", models.JSONField(default=dict)),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="events", to="jobs.job"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["job", "id"], name="event_by_job")],
            },
        ),
        migrations.CreateModel(
            name="Dependency",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("on_name", models.CharField(max_length=255)),
                (
                    "condition",
                    models.CharField(choices=[("success", "Success"), ("end", "End")], default="success", max_length=8),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="dependencies", to="jobs.job"
                    ),
                ),
                (
                    "on",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="dependents",
                        to="jobs.job",
                    ),
                ),
                ("ended", models.CharField(blank=True, max_length=10)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("job", "on_name"), name="one_dependency_per_job")],
            },
        ),
    ]
