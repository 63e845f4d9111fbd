"""The rows of jobs: what users want (Job), how it was tried (Attempt, Task), what happened (Event) and what was used
(Holding)."""

from jobs.models.attempt import Attempt, Task
from jobs.models.draft import Draft, Sweep, Template
from jobs.models.history import Event, Holding, Prediction, Replay
from jobs.models.job import Dependency, Discarded, Job, JobKey, JobSecrets, KeptIdle, PastUse, UserRest

__all__ = [
    "Attempt",
    "Dependency",
    "Discarded",
    "Draft",
    "Event",
    "Holding",
    "Job",
    "JobKey",
    "JobSecrets",
    "KeptIdle",
    "PastUse",
    "Prediction",
    "Replay",
    "Sweep",
    "Task",
    "Template",
    "UserRest",
]
