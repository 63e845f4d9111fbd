"""The rows of jobs: what users want (Job), how it was tried (Attempt, Task), what happened (Event) and what was used
(Holding)."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.models import User


class Job(models.Model):
    class Execution(models.TextChoices):
        START = "START"
        STOP = "STOP"  # somebody asked for its end; the scheduler carries it out

    username = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    vc = models.CharField(max_length=64)
    config = models.TextField()  # exactly as sent
    spec = models.JSONField()  # normalised: JobSpec.model_dump(by_alias=True)
    state = models.CharField(max_length=10, default="WAITING")  # lifecycle.JobState
    execution = models.CharField(max_length=5, choices=Execution.choices, default=Execution.START)
    stopped_by = models.CharField(max_length=64, blank=True)
    attempt_number = models.PositiveIntegerField(default=1)
    user_retries = models.PositiveIntegerField(default=0)
    platform_retries = models.PositiveIntegerField(default=0)
    resource_retries = models.PositiveIntegerField(default=0)
    exit_code = models.IntegerField(null=True)
    is_legacy = models.BooleanField(default=False)  # submitted at an address of v1 that names no user
    total_tasks = models.PositiveIntegerField()
    total_roles = models.PositiveIntegerField()
    total_gpus = models.PositiveIntegerField()
    created_at = models.DateTimeField()
    queued_at = models.DateTimeField()  # when it last began to wait
    priority = models.SmallIntegerField(default=0)  # -100 to 100, higher first: extras.priority, or what an admin set
    queue_time = models.DateTimeField(null=True)  # an admin moved it in the queue: it counts as submitted then
    is_guest = models.BooleanField(default=False)  # its attempt runs on room that is reserved for another job
    guest_evictions = models.PositiveSmallIntegerField(default=0)  # how often it was evicted as a guest
    evictions = models.PositiveSmallIntegerField(default=0, db_default=0)  # how often it was evicted as a borrower
    not_before = models.DateTimeField(null=True)  # a retry starts no earlier
    never = models.TextField(blank=True)  # why no node that was registered at its submission could ever run it
    awaits = models.PositiveSmallIntegerField(default=0)  # jobs that it still waits for, see Dependency
    unmet = models.TextField(blank=True)  # why it waits for one of them in vain
    parked_until = models.DateTimeField(null=True)  # planning it failed with an error and is tried again then
    started_at = models.DateTimeField(null=True)  # when the current attempt was placed
    ends_by = models.DateTimeField(null=True)  # when the current attempt ends at the latest (extras.maxRunSeconds)
    completed_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)  # hidden and its name free; purged when none of its containers runs
    # Last change of state, execution, place in the queue or of what it waits for (jobs/scheduling/stamps.py).
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
                fields=["state", "execution", "-created_at", "-id"],
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
            # For jobs/scheduling/stamps.py, whose queries read only this index and those of Attempt and Task.
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
            models.Index(fields=["created_at"], condition=Q(published_at__isnull=True), name="job_unpublished"),
        ]

    def __str__(self) -> str:
        return f"{self.username}/{self.name}"

    @property
    def full_name(self) -> str:
        return f"{self.username}~{self.name}"


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


class Attempt(models.Model):
    """One try of the whole job. ``exit_code`` is set when its outcome is decided (``decided_at``), ``completed_at``
    when its last container has ended."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    app_id = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    # {"trigger": text, "role": name, "index": n, "reason": sentence, "exit": {...exits.Exit}, "next": what followed}
    exit = models.JSONField(default=dict)
    diagnosis_due = models.DateTimeField(null=True)  # since then it is to be diagnosed (jobs/diagnosis)
    diagnosis = models.JSONField(null=True)  # why it failed: jobs.diagnosis.evidence.Diagnosis as data
    log_bytes = models.BigIntegerField(default=0, db_default=0)  # that its archived logs take
    log_goes_at = models.DateTimeField(null=True)  # told to its job (jobs/logs/retention.py)
    log_gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="one_attempt_per_number")]
        indexes = [
            models.Index(
                fields=["job"],
                condition=Q(decided_at__isnull=False, completed_at__isnull=True),
                name="attempt_winding_down",
            ),
            models.Index(
                fields=["diagnosis_due"], condition=Q(diagnosis_due__isnull=False), name="attempt_undiagnosed"
            ),
        ]


class Task(models.Model):
    """One container of one attempt. The scheduler alone changes ``state``, by lifecycle's table. The worker that holds
    the claim writes facts: container_id, fault, progress, collected."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="tasks")
    job = models.ForeignKey(Job, models.CASCADE, related_name="tasks")
    role = models.CharField(max_length=255)
    index = models.PositiveIntegerField()
    state = models.CharField(max_length=10, default="WAITING")  # lifecycle.TaskState
    changed_at = models.DateTimeField()  # last change of state
    # placement
    node = models.CharField(max_length=63, blank=True)
    address = models.CharField(max_length=255, blank=True)
    gpu_ids = models.JSONField(default=list)
    gpus_given = models.JSONField(null=True)  # which those are, of a cluster that chooses them itself: ["GPU-5f3c..."]
    ports = models.JSONField(default=dict)  # {"http": [30000], "ssh": [30001]}
    # orders and claims
    ordered_at = models.DateTimeField(null=True)  # when the scheduler last ordered work on it
    claim = models.CharField(max_length=32, blank=True)  # token of the worker that works on it
    claimed_until = models.DateTimeField(null=True)  # the end of the claim's lease, which progress renews
    fact_at = models.DateTimeField(null=True)  # last write by a worker
    progress = models.CharField(max_length=120, blank=True)  # "pulling 3.1 of 8.2 GB"
    fault = models.JSONField(null=True)  # {"reason", "sentence", "permanent"} of a refused start
    container_name = models.CharField(max_length=200, blank=True)
    container_id = models.CharField(max_length=64, blank=True)
    container_started_at = models.DateTimeField(null=True)
    held_at = models.DateTimeField(null=True)  # isDebug: its command failed, and since then the container is kept
    released_at = models.DateTimeField(null=True)  # somebody asked for the end of the kept container
    # the end
    exit_code = models.IntegerField(null=True)
    exit = models.JSONField(default=dict)  # exits.Exit as data
    finished_at = models.DateTimeField(null=True)
    collected = models.BooleanField(default=False)  # ended, its log archived and its container removed

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "role", "index"], name="one_task_per_index")]
        indexes = [
            models.Index(fields=["job", "state"], name="task_by_job"),
            models.Index(
                fields=["id"],
                condition=Q(state__in=["SUCCEEDED", "FAILED", "STOPPED"], collected=False),
                name="task_leftover",
            ),
            models.Index(  # see jobs/scheduling/invariants.py
                fields=["id"], condition=Q(state__in=["STARTING", "RUNNING", "STOPPING"]), name="task_live"
            ),
        ]

    @property
    def label(self) -> str:
        return f"{self.role}-{self.index}"


class Discarded(models.Model):
    """A purged job whose files are still to be removed from the store (jobs/containers/discard.py)."""

    username = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    app_ids = models.JSONField()  # of its attempts
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.username}/{self.name}"

    @property
    def full_name(self) -> str:
        return f"{self.username}~{self.name}"


class Event(models.Model):
    """A row of the ledger: a change of state or a decision, with its reason. Rows are added and never changed."""

    at = models.DateTimeField()
    kind = models.CharField(max_length=40)  # job.submitted, task.state, attempt.decided, node.unreachable ...
    job = models.ForeignKey(Job, models.CASCADE, null=True, related_name="events")
    attempt = models.PositiveIntegerField(null=True)
    task = models.CharField(max_length=270, blank=True)  # worker-1
    node = models.CharField(max_length=63, blank=True)
    actor = models.CharField(max_length=64, default="scheduler")
    before = models.CharField(max_length=12, blank=True)
    after = models.CharField(max_length=12, blank=True)
    reason = models.TextField(blank=True)  # one plain sentence
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["job", "id"], name="event_by_job")]


class Holding(models.Model):
    """What one task held, from its placement until its room was given back. ``id`` is the task's.

    A row is open (``ended`` is null) exactly while the task has its Allocation: both are written in the same
    transactions. It names what it is about instead of pointing to it, since it outlives the job, the node and the
    virtual cluster. Times are milliseconds since 1970, so that both databases add them up exactly and fast."""

    class Outcome(models.TextChoices):
        SUCCEEDED = "SUCCEEDED"
        FAILED = "FAILED"  # by the job's own fault
        STOPPED = "STOPPED"  # somebody stopped the job
        EVICTED = "EVICTED"  # another job had a right to the room
        LOST = "LOST"  # by the cluster's fault, a lost node for example

    job_id = models.BigIntegerField()
    username = models.CharField(max_length=64)
    job_name = models.CharField(max_length=255)
    vc = models.CharField(max_length=64)
    attempt = models.PositiveIntegerField()
    role = models.CharField(max_length=255)
    index = models.PositiveIntegerField()
    node = models.CharField(max_length=63)
    gpu_ids = models.TextField(blank=True)  # "0,3"
    gpus = models.PositiveIntegerField()
    gpu_type = models.CharField(max_length=64, blank=True)
    cpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    guest = models.BooleanField(default=False)
    waited = models.BigIntegerField(null=True)  # ms until the attempt was placed; in the row of its first task alone
    began = models.BigIntegerField()
    ended = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=9, choices=Outcome.choices, blank=True)  # of the task's part of the attempt
    exit_code = models.IntegerField(null=True)
    # What the job asked for beside this, as JSON, in the row of its first task; empty where it asked for nothing else.
    # {"priority", "gpuType", "preemptible", "maxRunSeconds", "nodeLabels"}, each only where it is given.
    asked = models.TextField(blank=True, default="")

    class Meta:
        # For the rows of a span of time: the second column is compared without reading the row.
        indexes = [models.Index(fields=["ended", "began"], name="holding_by_time")]

    def __str__(self) -> str:
        return f"{self.username}/{self.job_name} {self.role}-{self.index}"


class Prediction(models.Model):
    """A forecast of a start that was shown, and what came true. Times are milliseconds since 1970."""

    job_id = models.BigIntegerField()
    attempt = models.PositiveIntegerField()
    made = models.BigIntegerField()
    p10 = models.BigIntegerField()
    p50 = models.BigIntegerField()
    p90 = models.BigIntegerField()
    guess = models.BigIntegerField(null=True)  # it waits for as long as the last job of its virtual cluster did
    by_limit = models.BigIntegerField(null=True)  # every job runs for as long as it may at most
    started = models.BigIntegerField(null=True)
    vc = models.CharField(max_length=64, blank=True, default="", db_default="")
    played = models.JSONField(null=True)  # [p10, p50, p90] without what is known of earlier errors

    class Meta:
        indexes = [
            models.Index(fields=["job_id", "attempt"], condition=Q(started=None), name="prediction_open"),
            models.Index(fields=["made"], name="prediction_by_age"),
        ]

    def __str__(self) -> str:
        return f"job {self.job_id}, attempt {self.attempt}"


class Replay(models.Model):
    """A past day that a worker plays again for an admin (jobs/replay). Times are milliseconds since 1970."""

    username = models.CharField(max_length=64)
    asked = models.JSONField()  # {"from", "to", "policy", "nodes", "changes"}
    made = models.BigIntegerField()
    beat = models.BigIntegerField(null=True)  # when the worker that plays it last wrote its progress
    progress = models.PositiveSmallIntegerField(default=0)  # percent
    result = models.JSONField(null=True)  # jobs.replay.result
    error = models.TextField(blank=True)  # a sentence: why there is none

    def __str__(self) -> str:
        return f"{self.asked} for {self.username}"


class Sweep(models.Model):
    """Jobs that were submitted as one, each with other values of the same parameters (jobs/submitting/sweeps.py)."""

    username = models.CharField(max_length=64)
    name = models.CharField(max_length=255)  # the jobName of the config; its jobs are name-01, name-02 ...
    config = models.TextField()  # as sent, without the values of secrets
    parameters = models.JSONField()  # ["lr", "seed"]
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["username", "name"], name="one_sweep_per_name")]

    def __str__(self) -> str:
        return f"{self.username}/{self.name}"


class Draft(models.Model):
    """A config that somebody types and has not submitted. It is sealed, as it may hold secrets."""

    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    title = models.CharField(max_length=255, blank=True)  # its job name, if it has one
    sealed = models.TextField()
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.title} of {self.user_id}"


class Template(models.Model):
    """A config that people start from, all who may use the virtual cluster ``vc``; without one its user alone."""

    user = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    vc = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=80)
    config = models.TextField()  # without the values of secrets
    used = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "name"], condition=Q(vc=""), name="one_template_per_name"),
            models.UniqueConstraint(fields=["vc", "name"], condition=~Q(vc=""), name="one_template_per_vc_and_name"),
        ]

    def __str__(self) -> str:
        return self.name
