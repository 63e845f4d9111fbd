"""What the job routes answer, for the API's document. ``jobs.api.serializers`` makes it; the tests compare the two."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, RootModel

Milliseconds = int
State = Literal["WAITING", "RUNNING", "SUCCEEDED", "STOPPED", "FAILED", "UNKNOWN"]
Execution = Literal["START", "STOP"]


class RetryDetails(BaseModel):
    user: int
    platform: int
    resource: int


class JobItem(BaseModel):
    name: str
    username: str
    state: State
    subState: str
    executionType: Execution
    retries: int
    retryDetails: RetryDetails
    createdTime: Milliseconds
    completedTime: Milliseconds | None
    appExitCode: int | None
    virtualCluster: str
    totalGpuNumber: int
    totalTaskNumber: int
    totalTaskRoleNumber: int
    legacy: Literal[True] = Field(True, description="Only of a job made at an address without a user.")


class JobItems(RootModel[list[JobItem]]):
    """Newest first. Times are milliseconds since 1970."""


class Blocker(BaseModel):
    """One thing that keeps a job from starting."""

    kind: str
    sentence: str
    need: str | None = None
    have: str | None = None
    node: str | None = None
    until: str | None = None


class ExitReport(BaseModel):
    """How it ended; all null while it has not. ``appExitSpec`` is the entry of the table of exit codes."""

    appExitCode: int | None
    appExitSpec: dict[str, Any] | None
    appExitDiagnostics: str | None
    appExitMessages: dict[str, Any] | None
    appExitTriggerMessage: str | None
    appExitTriggerTaskRoleName: str | None
    appExitTriggerTaskIndex: int | None
    appExitType: str | None


class Ahead(BaseModel):
    """A job that starts before this one."""

    name: str


class WaitingReason(BaseModel):
    summary: str
    blockers: list[Blocker]
    position: int | None = Field(None, description="In the queue of its virtual cluster; 1 is next.")
    ahead: list[Ahead] = Field(description="The first of those before it in the queue.")


class JobStatus(ExitReport):
    username: str
    state: State
    subState: str
    executionType: Execution
    retries: int
    retryDetails: RetryDetails
    createdTime: Milliseconds
    completedTime: Milliseconds | None
    appId: str | None
    appProgress: float | None
    appTrackingUrl: str | None
    appLaunchedTime: Milliseconds | None
    appCompletedTime: Milliseconds | None
    virtualCluster: str
    waitingReason: WaitingReason | None = Field(None, description="Only of a waiting job.")


class TaskStatus(BaseModel):
    taskIndex: int
    taskState: str
    containerId: str | None
    containerIp: str | None
    containerPorts: dict[str, str] = Field(description="Label to ports, joined with commas.")
    containerGpus: int | None = Field(description="Bit n is GPU n.")
    containerLog: str | None = Field(description="Append `stdout` or `stderr`.")
    containerExitCode: int | None
    nodeName: str | None
    exitReason: str | None
    heldUntil: Milliseconds | None = Field(description="Kept for debugging until then.")


class RoleName(BaseModel):
    name: str


class TaskRole(BaseModel):
    taskRoleStatus: RoleName
    taskStatuses: list[TaskStatus]


class JobDetail(BaseModel):
    """A job and its current attempt. There are no roles until the attempt has its place."""

    name: str
    jobStatus: JobStatus
    taskRoles: dict[str, TaskRole]


class AttemptItem(ExitReport):
    attempt: int
    isCurrent: bool
    appId: str
    createdTime: Milliseconds
    appLaunchedTime: Milliseconds | None
    appDecidedTime: Milliseconds | None
    appCompletedTime: Milliseconds | None
    next: Any


class AttemptItems(RootModel[list[AttemptItem]]):
    """Newest first."""


class AttemptDetail(AttemptItem):
    taskRoles: dict[str, TaskRole]


class EventItem(BaseModel):
    id: int
    time: Milliseconds
    kind: str
    attempt: int | None
    task: str | None
    node: str | None
    actor: str
    from_: str | None = Field(serialization_alias="from")
    to: str | None
    reason: str
    data: Any


class EventItems(BaseModel):
    """Oldest first; go on with ``after=next`` while it is not null."""

    events: list[EventItem]
    next: int | None


class ConfigProblem(BaseModel):
    line: int
    column: int
    path: str
    message: str


class CheckResult(BaseModel):
    valid: bool
    errors: list[ConfigProblem]
    neverFits: Blocker | None
    blockers: list[Blocker]
    pull: str = Field(description="What is known of an image that it would wait for; empty when the nodes have it.")


class Released(BaseModel):
    released: int = Field(description="Containers that were kept.")


class ExecutionValue(BaseModel):
    value: Execution


class SshContainer(BaseModel):
    id: str
    sshIp: str
    sshPort: str


class SshKeyPair(BaseModel):
    folderPath: str
    publicKeyFileName: str
    privateKeyFileName: str
    privateKeyDirectDownloadLink: str


class SshInfo(BaseModel):
    containers: list[SshContainer]
    keyPair: SshKeyPair
