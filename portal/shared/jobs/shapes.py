"""The types of the job routes' answers, which the API's document shows; ``serializers`` makes them. A value of a lower
floor stands in them as it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from base.core.errors import Problem
from base.core.values import Moment, OrNull, V1Answer, called, one_of
from clusters.vcs.rules import MOST_PRIORITY
from jobs.waiting.reason import BlockerItem, Milliseconds, Reason, WaitingReason
from portal.shared.api.bodies import FilledText, Flag, V1Body, WholeNumber
from portal.shared.jobs.exit_report import ExitReport

MOST_STOPPED = 1_000  # jobs that one request stops

State = Annotated[str, one_of("WAITING", "RUNNING", "SUCCEEDED", "STOPPED", "FAILED", "UNKNOWN")]
ExecutionWord = Annotated[str, one_of("START", "STOP")]


def full_name(job: Any) -> str:
    return f"{job.username}~{job.name}"


class RetryDetails(TypedDict):
    user: int
    platform: int
    resource: int


class JobSummary(TypedDict):
    """Times are milliseconds since 1970."""

    username: str
    state: State
    subState: str
    executionType: ExecutionWord
    retries: int
    retryDetails: RetryDetails
    createdTime: Milliseconds
    completedTime: Milliseconds | None


class JobItem(JobSummary):
    name: str
    appExitCode: int | None
    userExitCode: NotRequired[Annotated[int | None, Field(description="Of the command itself, where it is asked for.")]]
    virtualCluster: str
    totalGpuNumber: int
    totalTaskNumber: int
    totalTaskRoleNumber: int
    legacy: NotRequired[Annotated[Literal[True], Field(description="Only of a job made at an address without a user.")]]


class Cell(V1Answer):
    """What one task needs on a node, and what is there."""

    need: str
    have: str
    ok: bool


class NodeRow(V1Answer):
    """A node for one task of a role."""

    node: str
    role: str
    cpu: Cell
    memory: Cell
    gpus: Cell
    ports: Cell
    labels: Cell
    state: Cell


class StartingChange(V1Answer):
    """A change with which the job would start now, if nothing else happens."""

    sentence: str
    change: Annotated[
        dict[str, int | str | dict[str, int | str]],
        Field(
            description="One of maxRunSeconds, preemptible, gpuNumber, gpuType, taskNumber ({role: n}), "
            "topology, virtualCluster, jobEnds, nodeReturns."
        ),
    ]
    nodes: Annotated[list[str], BeforeValidator(lambda placements: [each.node for each in placements])] = called(
        "placements", description="Where each task would start."
    )


class Holds(V1Answer):
    """A running job that holds what this one needs."""

    name: Annotated[str, BeforeValidator(full_name)] = called("job", description="user~job")
    virtualCluster: str = called("job.vc")
    gpus: int
    cpus: int
    nodes: list[str]
    until: Moment | None = called("job.ends_by", description="When it ends at the latest, if it said so.")


class VcUse(V1Answer):
    """Amounts by resource: cpu (cores), memory (MB), gpu, gpu:TYPE."""

    guarantee: dict[str, float]
    ceiling: dict[str, float] = Field(description="A resource that is not named has no ceiling.")
    used: dict[str, float]
    withJob: dict[str, float] = called("with_job", description="What it would use with this job.")


class Around(TypedDict):
    """What is around a job that waits."""

    grid: list[NodeRow]
    gridMore: Annotated[int, Field(description="Rows of the grid that are left out.")]
    changes: list[StartingChange]
    holders: list[Holds]
    vc: VcUse


class Why(WaitingReason, Around):
    pass


class App(ExitReport):
    appId: str | None
    appProgress: float | None
    appTrackingUrl: str | None
    appLaunchedTime: Milliseconds | None
    appCompletedTime: Milliseconds | None


class ProofLine(TypedDict):
    stream: str
    number: int
    text: str
    mark: Annotated[bool, Field(description="Whether it is the proof; the others stand around it.")]


class DiagnosisAction(TypedDict):
    label: str
    change: Annotated[
        dict[str, dict[str, int] | list[str]],
        Field(description="Of the config: memoryMB or shmMB ({role: n}), or avoidNodes."),
    ]


class AttemptDiagnosis(TypedDict):
    """Why an attempt failed (docs/use/diagnosis.md). ``says`` and ``lines`` are for those alone who may read the log,
    and so is an ``advice`` that has something out of it, which is empty for others."""

    cause: str
    name: str
    whose: Annotated[str, one_of("program", "request", "image", "node", "platform")]
    certainty: Annotated[str, one_of("certain", "likely", "possible")]
    rule: str
    task: str
    node: str
    followed: list[str]
    suspects: list[str]
    actions: list[DiagnosisAction]
    advice: str
    says: NotRequired[str]
    lines: NotRequired[list[ProofLine]]


class EndNotice(TypedDict, total=False):
    """Of a running job that has saved, or whose tasks are told to end."""

    savedTime: Annotated[Milliseconds, Field(description="When the running attempt last saved.")]
    endReason: Annotated[str, Field(description="Why its tasks are told to end, while they end.")]


class JobStatus(JobSummary, App, EndNotice):
    virtualCluster: str
    diagnosis: NotRequired[
        Annotated[AttemptDiagnosis | None, Field(description="Of an attempt that failed, once it is there.")]
    ]
    waitingReason: NotRequired[Annotated[WaitingReason | None, Field(description="Only of a waiting job.")]]


class HiddenOfTask(TypedDict):
    """What only those see of a task who may read the details of its job."""

    containerIp: str | None
    containerPorts: Annotated[dict[str, str], Field(description="Label to ports, joined with commas.")]
    containerLog: Annotated[str | None, Field(description="Append `stdout` or `stderr`.")]
    containerExitCode: int | None
    exitReason: str | None
    note: Annotated[
        str | None, Field(description="What its start waits for, or that somebody has paused its container.")
    ]
    heldUntil: Annotated[Milliseconds | None, Field(description="Kept for debugging until then.")]
    toldTime: Annotated[Milliseconds | None, Field(description="When it was told to end (docs/use/ending.md).")]
    endsBy: Annotated[Milliseconds | None, Field(description="Told to end, it is killed then at the latest.")]


class TaskStatus(HiddenOfTask):
    taskIndex: int
    taskState: str
    containerId: str | None
    containerGpus: Annotated[int | None, Field(description="Bit n is GPU n.")]
    nodeName: str | None


class RoleName(TypedDict):
    name: str


class TaskRole(TypedDict):
    taskRoleStatus: RoleName
    taskStatuses: list[TaskStatus]


class JobDetail(TypedDict):
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
    diagnosis: NotRequired[
        Annotated[AttemptDiagnosis | None, Field(description="Of an attempt that failed, once it is there.")]
    ]


class AttemptDetail(AttemptItem):
    taskRoles: dict[str, TaskRole]


class EventItem(V1Answer):
    id: int
    time: Moment = called("at")
    kind: str
    attempt: int | None
    task: OrNull
    node: OrNull
    actor: str
    before: OrNull = Field(serialization_alias="from")
    to: OrNull = called("after")
    reason: str
    data: Any


class EventItems(TypedDict):
    """Oldest first; go on with ``after=next`` while it is not null."""

    events: list[EventItem]
    next: int | None


class IfSubmitted(Reason, Around):
    """What would happen to a job that is not submitted yet, in the words of one that waits."""

    starts: Annotated[Literal["now", "later", "never"], Field(description="Whether it fits.")]
    after: NotRequired[Annotated[str, Field(description="user~job: the one whose end most likely lets it start.")]]


class CheckedConfig(TypedDict):
    valid: bool
    errors: list[Problem]
    neverFits: BlockerItem | None
    blockers: list[BlockerItem]
    pull: Annotated[
        str, Field(description="What is known of an image that it would wait for; empty when the nodes have it.")
    ]
    codeLimit: Annotated[int, Field(description="Bytes that a codeDir may have, of this config or any other.")]
    extras: Annotated[IfSubmitted | None, Field(description="null for a config that cannot be read.")]


class Released(TypedDict):
    released: Annotated[int, Field(description="Containers that were kept.")]


class ExecutionValue(V1Body):
    value: Annotated[str, Field(min_length=1), one_of("START", "STOP")]


class JobNames(V1Body):
    jobs: list[FilledText] = Field(min_length=1, max_length=MOST_STOPPED, description="Names, or user~name of the user")


class StoppedJobs(TypedDict):
    stopped: Annotated[list[str], Field(description="They were asked to end now")]
    left: Annotated[list[str], Field(description="They had ended, were ending already, or are not there")]


class JobExecutionValue(ExecutionValue):
    now: Flag = Field(False, description="With STOP: its tasks get no grace, or no more of it.")


class PriorityValue(V1Body):
    value: WholeNumber = Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)


class BeforeValue(V1Body):
    before: FilledText = Field(description="user~job")


class SshContainer(TypedDict):
    id: str
    sshIp: str
    sshPort: str


class SshKeyPair(TypedDict):
    folderPath: str
    publicKeyFileName: str
    privateKeyFileName: str
    privateKeyDirectDownloadLink: str


class SshInfo(TypedDict):
    containers: list[SshContainer]
    keyPair: SshKeyPair


class LogLine(TypedDict):
    """One line as people read it: without codes of colours, a progress bar in its last state."""

    task: str
    attempt: int
    stream: Annotated[str, one_of("stdout", "stderr")]
    number: int
    time: Milliseconds
    text: str


class LogLines(TypedDict):
    lines: list[LogLine]
    next: int | None
