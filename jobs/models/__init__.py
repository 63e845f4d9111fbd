"""The rows of jobs: what users want (Job), how it was tried (Attempt, Task), what happened (Event), what was used
(Holding), and who is told of it (NoticeRow)."""

from jobs.models.attempt import Attempt, Task
from jobs.models.draft import Draft, Sweep, Template
from jobs.models.history import Event, Holding, Prediction, Replay
from jobs.models.job import Dependency, Discarded, Job, JobKey, JobSecrets, KeptIdle, PastUse, UserRest
from jobs.models.notices import (
    NoticeChannel,
    NoticeCursor,
    NoticeDelivery,
    NoticeRow,
    NoticeRule,
    NoticeTry,
    QuietHours,
    RefusedAddress,
)

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
    "NoticeChannel",
    "NoticeCursor",
    "NoticeDelivery",
    "NoticeRow",
    "NoticeRule",
    "NoticeTry",
    "PastUse",
    "Prediction",
    "QuietHours",
    "RefusedAddress",
    "Replay",
    "Sweep",
    "Task",
    "Template",
    "UserRest",
]
