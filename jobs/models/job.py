"""The rows of a job: what its owner asked for, what it waits for, its secrets, and what a purged one leaves behind."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL

# As the index job_live says it, for which SQLite must see literals. The columns are of the innermost query.
_PLANNED = RawSQL("state IN ('WAITING', 'RUNNING') OR deleted_at IS NOT NULL", (), models.BooleanField())


class Job(models.Model):
    class Execution(models.TextChoices):
        START = "START"
        STOP = "STOP"  # somebody asked for its end; the scheduler carries it out

    username = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    vc = models.CharField(max_length=64)
    # These two are the last columns in SQLite: it reads through them to those behind (0033_gpu_type's LargeLast).
    config = models.TextField()  # exactly as sent
    spec = models.JSONField()  # normalised: JobSpec.model_dump(by_alias=True)
    state = models.CharField(max_length=10, default="WAITING")  # lifecycle.JobState
    execution = models.CharField(max_length=5, choices=Execution.choices, default=Execution.START)
    stopped_by = models.CharField(max_length=64, blank=True)
    stops_now = models.BooleanField(default=False, db_default=False)  # somebody cut its grace short
    attempt_number = models.PositiveIntegerField(default=1)
    user_retries = models.PositiveIntegerField(default=0)
    platform_retries = models.PositiveIntegerField(default=0)
    resource_retries = models.PositiveIntegerField(default=0)
    exit_code = models.IntegerField(null=True)
    is_legacy = models.BooleanField(default=False)  # submitted at an address of v1 that names no user
    total_tasks = models.PositiveIntegerField()
    total_roles = models.PositiveIntegerField()
    total_gpus = models.PositiveIntegerField()
    gpu_type = models.CharField(max_length=256, blank=True, default="", db_default="")  # "": any
    created_at = models.DateTimeField()
    queued_at = models.DateTimeField()  # when it last began to wait
    priority = models.SmallIntegerField(default=0)  # -100 to 100, higher first: extras.priority, or what an admin set
    queue_time = models.DateTimeField(null=True)  # an admin moved it in the queue: it counts as submitted then
    # Before a job of this user, whose share decides when its turn comes.
    place_of = models.CharField(max_length=64, blank=True, default="", db_default="")
    keeps_turn = models.BooleanField(default=False, db_default=False)  # it was the first without room, and waits on
    is_guest = models.BooleanField(default=False)  # its attempt runs on room that is reserved for another job
    guest_evictions = models.PositiveSmallIntegerField(default=0)  # how often it was evicted as a guest
    evictions = models.PositiveSmallIntegerField(default=0, db_default=0)  # how often it was evicted as a borrower
    displaced = models.JSONField(null=True)  # scene.Displaced: whose borrowers were evicted for it, until it starts
    not_before = models.DateTimeField(null=True)  # a retry starts no earlier
    never = models.TextField(blank=True)  # why no node that was registered at its submission could ever run it
    awaits = models.PositiveSmallIntegerField(default=0)  # jobs that it still waits for, see Dependency
    unmet = models.TextField(blank=True)  # why it waits for one of them in vain
    parked_until = models.DateTimeField(null=True)  # planning it failed with an error and is tried again then
    started_at = models.DateTimeField(null=True)  # when the current attempt was placed
    ends_by = models.DateTimeField(null=True)  # when the current attempt ends at the latest (extras.maxRunSeconds)
    saved_at = models.DateTimeField(null=True)  # when the current attempt last said that it saved
    completed_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)  # hidden and its name free; purged when none of its containers runs
    # Last change of state, execution, place in the queue or of what it waits for (jobs/scheduling/rows/stamps.py).
    changed_at = models.DateTimeField()
    # When it will start, in ms: {"p10", "p50", "p90"}; of a waiting job (jobs/forecast).
    forecast = models.JSONField(null=True)
    published_at = models.DateTimeField(null=True)  # its config and keys are in the store (jobs/containers/publish.py)
    sweep = models.ForeignKey("Sweep", models.SET_NULL, null=True, related_name="jobs", db_index=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["username", "name"], condition=Q(deleted_at__isnull=True), name="one_job_per_name"
            ),
            models.UniqueConstraint(
                fields=["name"], condition=Q(is_legacy=True, deleted_at__isnull=True), name="one_legacy_job_per_name"
            ),
        ]
        indexes = [
            models.Index(fields=["sweep", "id"], condition=Q(sweep__isnull=False), name="job_by_sweep"),
            # Both are wide so that counting by state and searching by keyword read no row: a row holds its config.
            models.Index(
                fields=["state", "-created_at", "-id", "execution"],
                condition=Q(deleted_at__isnull=True),
                name="job_by_state",
            ),
            models.Index(
                fields=["-created_at", "-id", "username", "name", "vc", "state", "execution"],
                condition=Q(deleted_at__isnull=True),
                name="job_by_age",
            ),
            models.Index(fields=["username", "-created_at"], name="job_by_user"),
            # For the home page and the list sorted by end; it has all columns by which they filter.
            models.Index(
                fields=["-completed_at", "-id", "username", "state"],
                condition=Q(deleted_at__isnull=True),
                name="job_by_end",
            ),
            # For jobs/scheduling/rows/stamps.py, whose queries read only this index and those of Attempt and Task.
            models.Index(
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
                condition=Q(state__in=["WAITING", "RUNNING"]) | Q(deleted_at__isnull=False),
                name="job_live",
            ),
            # For the tasks that a user has waiting or running, which each of their submissions adds up: without it, all
            # jobs that they ever had would be read.
            models.Index(
                fields=["username", "total_tasks"],
                condition=Q(state__in=["WAITING", "RUNNING"], deleted_at__isnull=True),
                name="job_live_by_user",
            ),
            # For the GPUs that live jobs ask for by the name of their type (jobs/scheduling/load.py).
            models.Index(
                fields=["state", "gpu_type", "total_gpus", "deleted_at"],
                condition=Q(state__in=["WAITING", "RUNNING"], deleted_at__isnull=True, gpu_type__gt=""),
                name="job_naming_gpus",
            ),
            # For jobs/containers/publish.py. A job that never started has no files.
            models.Index(
                fields=["started_at"],
                condition=Q(published_at__isnull=True, started_at__isnull=False),
                name="job_unpublished",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.username}/{self.name}"

    @classmethod
    def planned(cls) -> models.QuerySet[Job]:
        """Those that the scheduler still has to do with: they wait, run, or were deleted and are not gone."""
        return cls.objects.filter(_PLANNED)

    @property
    def full_name(self) -> str:
        return f"{self.username}~{self.name}"


class PastUse(models.Model):
    """What jobs/planning/queue/users/used_lately.py calls UsedLately. Only the scheduler writes it, where what somebody
    holds is given back."""

    username = models.CharField(max_length=64)
    vc = models.CharField(max_length=64)
    cpu = models.FloatField()
    memory = models.FloatField()
    gpu = models.FloatField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["username", "vc"], name="one_past_use_per_user_and_vc")]


class UserRest(models.Model):
    """A user whose jobs were evicted from borrowed room: what jobs/planning/queue/scene.py calls Resting. It is theirs,
    and not a job's, so it stays whatever they stop, delete, change or submit. Only the scheduler writes it, when the
    job starts for which they were evicted (``Job.displaced``)."""

    username = models.CharField(max_length=64, unique=True)
    evictions = models.PositiveSmallIntegerField()
    counted = models.DateTimeField()
    last = models.DateTimeField()
    owner = models.CharField(max_length=320, default="", db_default="")  # user/name of the job that started last so

    def __str__(self) -> str:
        return self.username


class KeptIdle(models.Model):
    """What the reservation of a virtual cluster keeps idle: the Idling of jobs/planning/queue/idling/rule.py. Only the
    scheduler writes it, when the number of idle GPUs changes or the reservation lapses."""

    vc = models.CharField(max_length=64, unique=True)
    job = models.BigIntegerField()  # it may be gone by now
    nodes = models.JSONField()
    since = models.DateTimeField()
    at = models.DateTimeField()
    gpus = models.PositiveIntegerField()
    most = models.FloatField()
    idled = models.FloatField()
    lasted = models.FloatField()
    lapses = models.PositiveIntegerField()
    until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.vc}, for job {self.job}"


class Dependency(models.Model):
    """A job that waits for another one of its user (``extras.dependsOn``)."""

    class Condition(models.TextChoices):
        SUCCESS = "success"
        END = "end"  # however it ends

    job = models.ForeignKey(Job, models.CASCADE, related_name="dependencies")
    on = models.ForeignKey(Job, models.SET_NULL, null=True, related_name="dependents")
    on_name = models.CharField(max_length=255)  # also when that job is gone
    condition = models.CharField(max_length=8, choices=Condition.choices, default=Condition.SUCCESS)
    ended = models.CharField(max_length=10, blank=True)  # the state in which that job ended; "": it has not yet

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "on_name"], name="one_dependency_per_job")]

    def __str__(self) -> str:
        return f"{self.job_id} after {self.on_name}"


class JobSecrets(models.Model):
    """The values of ``extras.secrets``, sealed (jobs/secrets.py). They have a row of their own, so that no query about
    jobs reads them along."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, related_name="secrets")
    sealed = models.TextField()


class JobKey(models.Model):
    """The pair of ssh keys with which the containers of a job, and its owner, log in to them. ``private`` is sealed."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, related_name="key")
    public = models.TextField()
    private = models.TextField()


class Discarded(models.Model):
    """A purged job whose files are still to be removed from the store (jobs/containers/discard.py)."""

    username = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    app_ids = models.JSONField()  # of its attempts
    at = models.DateTimeField()  # when it was submitted

    def __str__(self) -> str:
        return f"{self.username}/{self.name}"

    @property
    def full_name(self) -> str:
        return f"{self.username}~{self.name}"
