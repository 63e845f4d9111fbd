"""The table of exit codes that an OpenPAI v0.14 cluster publishes, in our own words. Pure.

It has one row for each code; jobs/planning/exits.py reads it. Numbers, phrases and classes are those of the v1 contract
(6.2) and never change; the sentences are ours. So are the rows from -7500 to -7599: ends that v1 did not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reaction(StrEnum):
    ALWAYS_RETRY = "ALWAYS_RETRY"  # the platform's fault: at once, without limit
    ALWAYS_BACKOFF_RETRY = "ALWAYS_BACKOFF_RETRY"  # resources were short: after a pause, without limit
    NEVER_RETRY = "NEVER_RETRY"  # it would end the same way
    RETRY_TO_MAX = "RETRY_TO_MAX"  # probably the program's fault: up to the job's retryCount


_BEHAVIOR = {
    Reaction.ALWAYS_RETRY: "TRANSIENT_NORMAL",
    Reaction.ALWAYS_BACKOFF_RETRY: "TRANSIENT_CONFLICT",
    Reaction.NEVER_RETRY: "NON_TRANSIENT",
    Reaction.RETRY_TO_MAX: "UNKNOWN",
}


@dataclass(frozen=True, slots=True)
class ExitSpec:
    """One entry of the table. Actors, types, stages, behaviors and reactions are the words of the v1 contract, 6.1."""

    code: int
    phrase: str
    issuer: str
    causer: str
    type: str
    stage: str
    behavior: str
    reaction: Reaction
    reason: str | None
    repro: tuple[str, ...]
    solution: tuple[str, ...] | None


_TYPES = {
    "US": "USER_SUCCESS",
    "ST": "USER_STOP",
    "UF": "USER_FAILURE",
    "PF": "PLATFORM_FAILURE",
    "RT": "RESOURCE_ALLOCATION_TIMEOUT",
    "??": "UNKNOWN_FAILURE",
}
_REACTIONS = dict(zip("ABNM", Reaction, strict=True))  # by the letters of the rows
RETRY = "Wait for the next retry; it follows by itself."
_ADMIN = "If it keeps happening, tell the cluster admin."
_LOG = "Read the log of the task and fix the program."
_CONFIG = "Read the diagnostics and correct the job config."
_SMALLER = "Ask for fewer tasks, or for less per task."
_QUOTA = "Ask the cluster admin for a larger share of the virtual cluster."
_ADVICE: dict[str, tuple[str, ...] | None] = {
    "none": None,
    "retry": (RETRY, _ADMIN),
    "log": (_LOG,),
    "root": ("Read the log of the task and find the first error in it.", RETRY),
    "config": (_CONFIG,),
    "memory": ("Ask for more memoryMB in the task role.", "Use less memory in each task."),
    "disk": ("Write less to the disk in each task.",),
    "report": (RETRY, "Tell the cluster admin, with the log of the task."),
    "smaller": (RETRY, _SMALLER, _QUOTA),
    "bonus": (RETRY, _SMALLER, _QUOTA, "Stay within the guaranteed share of the virtual cluster."),
    "time": ("Give it more time in extras.maxRunSeconds.", "Let it save its work and go on from there."),
    "awaited": (
        "Run that job again until it succeeds, then submit this one.",
        'Write "after": "end" in dependsOn if any end will do.',
    ),
    "stop": ("Submit the job again to run it again.",),
}

# code, phrase, issuer, causer, type, stage, reaction, advice, reason, repro: ``issuer`` is who reported the end, and
# ``causer`` who brought it about (a submission, a container, or a part of the platform, in v1's words); ``type``,
# ``reaction`` and ``advice`` are keys of the tables above; ``repro`` says how to bring it about.
# fmt: off
_ROWS: tuple[tuple[int, str, str, str, str, str, str, str, str, str], ...] = (
    (0, "SUCCEEDED", "USER_CONTAINER", "USER_CONTAINER", "US", "COMPLETING", "N", "none",
     "", "The command ends with exit code 0."),
    (130, "CONTAINER_KILLED_BY_SIGINT", "PAI_OS", "PAI_OS", "PF", "RUNNING", "A", "retry",
     "Something outside the job sent SIGINT to the container.", "Send SIGINT to the container from its node."),
    (132, "CONTAINER_KILLED_BY_SIGILL", "USER_CONTAINER", "USER_CONTAINER", "UF", "RUNNING", "N", "log",
     "The program ran an instruction this processor does not have.", "Run a program built for a newer processor."),
    (134, "CONTAINER_KILLED_BY_SIGABRT", "USER_CONTAINER", "UNKNOWN", "??", "RUNNING", "M", "root",
     "The program aborted itself.", "Call abort() in the program."),
    (135, "CONTAINER_KILLED_BY_SIGBUS", "USER_CONTAINER", "USER_CONTAINER", "UF", "RUNNING", "N", "log",
     "The program touched memory that is not there, for instance a full shared memory.",
     "Write past the end of a mapped file."),
    (136, "CONTAINER_KILLED_BY_SIGFPE", "USER_CONTAINER", "USER_CONTAINER", "UF", "RUNNING", "N", "log",
     "The program made an arithmetic error.", "Divide an integer by zero."),
    (137, "CONTAINER_KILLED_BY_SIGKILL", "PAI_OS", "PAI_OS", "PF", "RUNNING", "A", "retry",
     "Something outside the job killed the container.", "Kill the container from its node."),
    (139, "CONTAINER_KILLED_BY_SIGSEGV", "USER_CONTAINER", "USER_CONTAINER", "UF", "RUNNING", "N", "log",
     "The program used memory that is not its own.", "Read through a null pointer."),
    (141, "CONTAINER_KILLED_BY_SIGPIPE", "USER_CONTAINER", "USER_CONTAINER", "UF", "RUNNING", "N", "log",
     "The program wrote to a pipe nobody reads any more.", "Write to a closed pipe."),
    (143, "CONTAINER_KILLED_BY_SIGTERM", "PAI_OS", "PAI_OS", "PF", "RUNNING", "A", "retry",
     "Something outside the job ended the container.", "Send SIGTERM to the container from its node."),
    (154, "CONTAINER_EXIT_CODE_FILE_LOST", "PAI_YARN", "PAI_YARN", "PF", "COMPLETING", "A", "retry",
     "The node no longer knows how the container ended.", "Cut the power of the node while the container ends."),
    (193, "CONTAINER_DOCKER_RUN_FAILED", "PAI_RUNTIME", "PAI_DOCKER", "PF", "LAUNCHING", "A", "retry",
     "Docker could not start the container.", "Stop the registry while the image is pulled."),
    (196, "CONTAINER_OOM_KILLED_BY_DOCKER", "PAI_RUNTIME", "USER_CONTAINER", "UF", "RUNNING", "N", "memory",
     "The task used more memory than it asked for.", "Use more memory than memoryMB."),
    (198, "CONTAINER_OOD_KILLED_BY_DISKCLEANER", "PAI_RUNTIME", "USER_CONTAINER", "UF", "RUNNING", "N", "disk",
     "The disk of the node was full and this task used most of it.", "Fill the disk of the node."),
    (255, "CONTAINER_RUNTIME_UNKNOWN_FAILURE", "PAI_RUNTIME", "UNKNOWN", "??", "COMPLETING", "M", "root",
     "The command ended with an exit code other than 0.", "Run `exit 1` as the command."),
    (256, "CONTAINER_RUNTIME_EXIT_ABNORMALLY", "PAI_RUNTIME", "PAI_RUNTIME", "PF", "UNKNOWN", "M", "report",
     "The start script of the container ended in a way it should not.", "A defect of the start script."),
    (-7100, "CONTAINER_INVALID_EXIT_STATUS", "PAI_LAUNCHER", "PAI_YARN", "PF", "LAUNCHING", "A", "retry",
     "The place for the container was never prepared.", "Stop the node while the container is prepared."),
    (-7101, "CONTAINER_NOT_AVAILABLE_EXIT_STATUS", "PAI_LAUNCHER", "PAI_YARN", "PF", "LAUNCHING", "A", "retry",
     "The process that starts the container was never made.", "Stop the node while the container is started."),
    (-7102, "CONTAINER_NODE_DISKS_FAILED", "PAI_LAUNCHER", "PAI_OS", "PF", "LAUNCHING", "A", "retry",
     "A disk of the node is broken or full.", "Fill the disk of the node."),
    (-7103, "CONTAINER_PORT_CONFLICT", "PAI_LAUNCHER", "PAI_YARN", "PF", "LAUNCHING", "A", "retry",
     "A port of the task is used by something else on the node.", "Listen on the port on the node beforehand."),
    (-7110, "CONTAINER_ABORTED", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "retry",
     "The container disappeared.", "Remove the container from its node by hand."),
    (-7111, "CONTAINER_NODE_LOST", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "retry",
     "The node has not answered for too long.", "Switch the node off."),
    (-7112, "CONTAINER_EXPIRED", "PAI_LAUNCHER", "RESOURCE_ALLOCATION_TIMEOUT", "RT", "ALLOCATING", "B", "smaller",
     "The task had its place, but was not started in time.", "Hold the start back until the place expires."),
    (-7113, "CONTAINER_ABORTED_ON_AM_RESTART", "PAI_LAUNCHER", "RESOURCE_ALLOCATION_TIMEOUT", "RT", "ALLOCATING",
     "B", "smaller", "The task had its place and lost it when the scheduler started again.",
     "Restart the scheduler while tasks wait for their peers."),
    (-7120, "CONTAINER_PREEMPTED", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "bonus",
     "Its room went to another job, or its node was to become empty.", "Drain the node of a task."),
    (-7121, "CONTAINER_RUNTIME_VIRTUAL_MEMORY_EXCEEDED", "PAI_LAUNCHER", "PAI_RUNTIME", "PF", "UNKNOWN", "N", "report",
     "The runtime around the container used too much virtual memory.", "A defect of the runtime."),
    (-7122, "CONTAINER_RUNTIME_PHYSICAL_MEMORY_EXCEEDED", "PAI_LAUNCHER", "PAI_RUNTIME", "PF", "UNKNOWN", "N", "report",
     "The runtime around the container used too much memory.", "A defect of the runtime."),
    (-7123, "CONTAINER_KILLED_BY_AM", "PAI_LAUNCHER", "PAI_LAUNCHER", "PF", "UNKNOWN", "A", "retry",
     "The place given to the task was refused.", "Offer a place that does not match the request."),
    (-7124, "CONTAINER_KILLED_BY_RM", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "retry",
     "The scheduler no longer knew the container.", "Restart the scheduler and lose its data."),
    (-7125, "CONTAINER_KILLED_ON_APP_COMPLETION", "PAI_LAUNCHER", "PAI_YARN", "PF", "COMPLETING", "A", "retry",
     "Its attempt was already over.", "End the attempt while the container starts."),
    (-7126, "CONTAINER_EXTERNAL_UTILIZATION_SPIKED", "PAI_LAUNCHER", "PAI_OS", "PF", "UNKNOWN", "A", "retry",
     "Something outside the cluster overloads the node.", "Load the node from outside."),
    (-7150, "CONTAINER_NM_LAUNCH_FAILED", "PAI_LAUNCHER", "PAI_YARN", "PF", "LAUNCHING", "A", "retry",
     "The node could not launch the container.", "Take a device away that the container asks for."),
    (-7151, "CONTAINER_RM_RESYNC_LOST", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "retry",
     "The container was lost when the scheduler started again.", "Restart the scheduler and the node together."),
    (-7152, "CONTAINER_RM_RESYNC_EXCEEDED", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "N", "report",
     "After a restart of the scheduler there was one container too many.", "Restart the scheduler and lose its data."),
    (-7153, "CONTAINER_MIGRATE_TASK_REQUESTED", "PAI_LAUNCHER", "USER_RETRY", "UF", "UNKNOWN", "A", "retry",
     "Somebody asked to move the task to another node.", "Move the task."),
    (-7154, "CONTAINER_AGENT_EXPIRED", "PAI_LAUNCHER", "PAI_OS", "PF", "UNKNOWN", "A", "retry",
     "The agent beside the container gave no sign of life.", "Stop the agent."),
    (-7200, "AM_RM_HEARTBEAT_YARN_EXCEPTION", "PAI_LAUNCHER", "USER_SUBMISSION", "UF", "SUBMITTING", "N", "config",
     "The scheduler refused the request.", "Ask for a node label that does not exist."),
    (-7201, "AM_RM_HEARTBEAT_IO_EXCEPTION", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "retry",
     "The scheduler could not be reached.", "Stop the scheduler."),
    (-7202, "AM_RM_HEARTBEAT_UNKNOWN_EXCEPTION", "PAI_LAUNCHER", "UNKNOWN", "PF", "UNKNOWN", "A", "retry",
     "Talking to the scheduler failed for an unknown reason.", "A defect of the platform."),
    (-7203, "AM_RM_HEARTBEAT_SHUTDOWN_REQUESTED", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "retry",
     "The scheduler ended the attempt.", "Shut the scheduler down."),
    (-7250, "AM_UNKNOWN_EXCEPTION", "PAI_LAUNCHER", "PAI_LAUNCHER", "PF", "UNKNOWN", "A", "retry",
     "Leading the attempt failed for an unknown reason.", "A defect of the platform."),
    (-7251, "AM_NON_TRANSIENT_EXCEPTION", "PAI_LAUNCHER", "USER_SUBMISSION", "UF", "SUBMITTING", "N", "config",
     "No node could ever run this job as it is.", "Ask for more GPUs in one task than any node has."),
    (-7252, "AM_GANG_ALLOCATION_TIMEOUT", "PAI_LAUNCHER", "RESOURCE_ALLOCATION_TIMEOUT", "RT", "ALLOCATING", "B",
     "smaller", "Not all tasks of the job got their place in time.", "Ask for more than is free."),
    (-7300, "APP_SUBMISSION_YARN_EXCEPTION", "PAI_LAUNCHER", "USER_SUBMISSION", "UF", "SUBMITTING", "N", "config",
     "The virtual cluster does not take the job.", "Submit to a virtual cluster that is stopped."),
    (-7301, "APP_SUBMISSION_IO_EXCEPTION", "PAI_LAUNCHER", "PAI_YARN", "PF", "SUBMITTING", "A", "retry",
     "The scheduler could not be reached to submit the attempt.", "Stop the scheduler."),
    (-7302, "APP_SUBMISSION_UNKNOWN_EXCEPTION", "PAI_LAUNCHER", "UNKNOWN", "??", "SUBMITTING", "M", "report",
     "Submitting the attempt failed for an unknown reason.", "A defect of the platform."),
    (-7303, "APP_KILLED_UNEXPECTEDLY", "PAI_LAUNCHER", "UNKNOWN", "PF", "UNKNOWN", "A", "retry",
     "The attempt was ended in the scheduler, not through the portal.", "End the attempt behind the portal's back."),
    (-7350, "APP_RM_RESYNC_LOST", "PAI_LAUNCHER", "PAI_YARN", "PF", "UNKNOWN", "A", "retry",
     "The attempt was lost when the scheduler started again.", "Restart the scheduler and lose its data."),
    (-7351, "APP_STOP_FRAMEWORK_REQUESTED", "PAI_LAUNCHER", "USER_STOP", "ST", "UNKNOWN", "N", "stop",
     "The job was stopped by its owner or an admin.", "Stop the job."),
    (-7352, "APP_AM_DIAGNOSTICS_LOST", "PAI_LAUNCHER", "PAI_YARN", "PF", "COMPLETING", "A", "retry",
     "The report of the attempt was lost.", "Restart the scheduler while an attempt ends."),
    (-7353, "APP_AM_DIAGNOSTICS_DESERIALIZATION_FAILED", "PAI_LAUNCHER", "PAI_YARN", "PF", "COMPLETING", "A", "retry",
     "The report of the attempt could not be read.", "Damage the report of the attempt."),
    (-7400, "TASK_STOPPED_ON_APP_COMPLETION", "PAI_LAUNCHER", "USER_STOP", "ST", "UNKNOWN", "N", "none",
     "The task was ended because its job had ended.", "End the job while the task runs."),
    (-7501, "JOB_RUN_TIME_EXCEEDED", "PAI_LAUNCHER", "USER_SUBMISSION", "UF", "RUNNING", "N", "time",
     "The job ran for as long as its config allows.", "Sleep for longer than extras.maxRunSeconds."),
    (-7502, "JOB_DEPENDENCY_FAILED", "PAI_LAUNCHER", "USER_SUBMISSION", "UF", "ALLOCATING", "N", "awaited",
     "A job that it was to start after did not succeed.", "Wait for the success of a job that fails."),
    (-8000, "CONTAINER_UNKNOWN_YARN_EXIT_STATUS", "PAI_YARN", "UNKNOWN", "??", "UNKNOWN", "M", "report",
     "The container ended with a code nobody has described.", "A defect of the platform."),
)
# fmt: on


def _spec(row: tuple[int, str, str, str, str, str, str, str, str, str]) -> ExitSpec:
    code, phrase, issuer, causer, kind, stage, letter, advice, reason, repro = row
    reaction = _REACTIONS[letter]
    return ExitSpec(
        code=code,
        phrase=phrase,
        issuer=issuer,
        causer=causer,
        type=_TYPES[kind],
        stage=stage,
        behavior="UNKNOWN" if code == 0 else _BEHAVIOR[reaction],
        reaction=reaction,
        reason=reason or None,
        repro=(repro,),
        solution=_ADVICE[advice],
    )


TABLE: dict[int, ExitSpec] = {row[0]: _spec(row) for row in _ROWS}
