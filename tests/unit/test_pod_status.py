"""What a pod means, as a table of pods."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.engines.kubernetes.status import is_gone, read, trouble, waits_for
from clusters.engines.runtime import LABEL_HOLD, ContainerStatus, FaultReason, Phase
from jobs.planning import exits

BEGAN, ENDED = "2026-11-20T10:00:00Z", "2026-11-20T10:00:05Z"
PULL = "rpc error: manifest for x/y:1 not found: manifest unknown: manifest unknown"


def pod(main: dict[str, Any] | None = None, *, meta: Any = None, ready: bool = False, **status: Any) -> dict[str, Any]:
    containers = [{"name": "stderr", "state": {"running": {"startedAt": BEGAN}}}]
    containers += [{"name": "main", "state": main, "ready": ready}] if main is not None else []
    return {
        "metadata": {
            "name": "p",
            "uid": "u",
            "annotations": {"longshore.container": "P_1", "longshore.task": "7", "x/y": "z"},
            **(meta or {}),
        },
        "spec": {"nodeName": "n1"},
        "status": {"containerStatuses": containers if main is not None else None, **status},
    }


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    more = {"message": message} if message else {}
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": BEGAN, "finishedAt": ENDED, **more}}


def seen(pod: dict[str, Any]) -> ContainerStatus:
    return read(pod, "lab")


def test_it_is_known_by_what_longshore_wrote_on_it() -> None:
    status = seen(pod({"running": {"startedAt": BEGAN}}))
    assert (status.id, status.name, status.node, status.labels) == ("u", "P_1", "lab/n1", {"longshore.task": "7"})
    assert status.phase is Phase.RUNNING and status.started_at and status.exit_code is None


@pytest.mark.parametrize(
    ("what", "code", "lost", "oom", "by_itself"),
    [
        (ended(0, "Completed", "0"), 0, False, False, False),
        (ended(0, "Completed"), 0, False, False, False),
        (ended(3), 3, False, False, False),
        (ended(137, "OOMKilled"), 137, False, True, False),
        (ended(137), 137, False, False, False),
        (ended(5, "OOMKilled", "5"), 5, False, True, False),
        (ended(222, message="137"), 137, False, True, False),  # as the start script says it
        (ended(221, message="143"), 143, False, False, True),
        (ended(223, message="255"), 255, False, False, True),
        (ended(221, message="221"), 221, False, False, False),
        (
            ended(225, message="0 told"),
            0,
            False,
            False,
            False,
        ),  # TERM came from inside: nothing of the pod says another
        (ended(225, message="7 told"), 7, False, False, False),
        (ended(255), None, True, False, False),  # with its node
        (ended(255, message="3"), 3, False, False, False),  # it had ended before that
        (ended(137, "ContainerStatusUnknown"), None, True, False, False),
    ],
)
def test_an_end(what: dict[str, Any], code: int | None, lost: bool, oom: bool, by_itself: bool) -> None:
    status = seen(pod(what))
    assert status.phase is Phase.EXITED and status.finished_at
    assert (status.exit_code, status.lost, status.oom_killed, status.by_itself) == (code, lost, oom, by_itself)


def test_a_port_that_was_taken() -> None:
    assert seen(pod(ended(224))).port_taken


@pytest.mark.parametrize(
    "told",
    [
        {"meta": {"deletionTimestamp": ENDED}},
        {"phase": "Failed", "reason": "Terminated"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]},
    ],
)
def test_a_command_that_saved_its_work_when_its_pod_was_ended_is_not_done(told: dict[str, Any]) -> None:
    assert seen(pod(ended(225, message="0 told"), **told)).exit_code == 143


@pytest.mark.parametrize("code", [0, 137, 143])
def test_a_pod_that_somebody_deleted_was_ended_from_outside(code: int) -> None:
    status = seen(pod(ended(code, message=str(code)), meta={"deletionTimestamp": ENDED}))
    assert (status.phase, status.exit_code, status.by_itself) == (Phase.EXITED, 143, False)
    assert seen(pod(ended(3), meta={"deletionTimestamp": ENDED})).exit_code == 3


@pytest.mark.parametrize(
    "what",
    [
        pod(),
        pod({"waiting": {"reason": "ContainerCreating"}}, phase="Pending"),
        pod({"waiting": {"reason": "ErrImagePull"}}, phase="Pending"),
        pod(ended(127, "ContainerCannotRun"), phase="Failed"),
        pod(ended(128, "StartError"), phase="Failed"),
        pod(phase="Failed", reason="OutOfcpu", message="Node didn't have enough resource: cpu"),
        pod(phase="Failed", reason="UnexpectedAdmissionError"),
    ],
)
def test_what_never_ran_has_not_ended(what: dict[str, Any]) -> None:
    assert seen(what).phase is Phase.CREATED


def test_a_pod_that_its_kubelet_evicted_is_lost() -> None:
    status = seen(pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."))
    assert (status.phase, status.lost) == (Phase.EXITED, True)


@pytest.mark.parametrize("code", [0, 137, 143])
def test_an_eviction_is_told_in_the_words_of_the_kubelet_however_the_command_ended(code: int) -> None:
    said = "The node was low on resource: memory."
    status = seen(pod(ended(code, "Error"), phase="Failed", reason="Evicted", message=said))
    how = exits.classify(status, 100, label="worker-0")
    assert (how.code, how.sentence) == (exits.EXIT_CODE_LOST, f"Kubernetes evicted worker-0: {said}")


def test_a_container_is_held_while_it_is_ready_and_was_made_for_that() -> None:
    hold = {"annotations": {LABEL_HOLD: "1"}}
    running = {"running": {"startedAt": BEGAN}}
    assert seen(pod(running, meta=hold, ready=True)).held
    assert not seen(pod(running, meta=hold)).held and not seen(pod(running, ready=True)).held


UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("what", "reason", "permanent"),
    [
        (pod({"waiting": {"reason": "ErrImagePull", "message": PULL}}), FaultReason.IMAGE_MISSING, True),
        (pod({"waiting": {"reason": "InvalidImageName"}}), FaultReason.IMAGE_NAME, True),
        (
            pod({"waiting": {"reason": "ErrImagePull", "message": "dial tcp: connection refused"}}),
            FaultReason.REGISTRY_UNREACHABLE,
            False,
        ),
        (pod({"waiting": {"reason": "CreateContainerError", "message": "boom"}}), FaultReason.REFUSED, False),
        (
            pod(
                {
                    "terminated": {
                        "exitCode": 127,
                        "reason": "ContainerCannotRun",
                        "message": 'exec: "/bin/sh": not found',
                    }
                }
            ),
            FaultReason.COMMAND_MISSING,
            True,
        ),
        (pod(phase="Failed", reason="UnexpectedAdmissionError", message="gpu"), FaultReason.GPU_MISSING, False),
        (
            pod(conditions=[{**UNPLACED, "message": "0/2 nodes: 1 Insufficient nvidia.com/gpu"}]),
            FaultReason.GPU_MISSING,
            False,
        ),
        (pod(conditions=[{**UNPLACED, "message": "didn't have free ports"}]), FaultReason.PORT_TAKEN, False),
        (
            pod(conditions=[{**UNPLACED, "message": "had taint {node.kubernetes.io/unreachable: }"}]),
            FaultReason.UNREACHABLE,
            False,
        ),
        (pod(conditions=[{**UNPLACED, "message": "1 node(s) were unschedulable"}]), FaultReason.REFUSED, False),
    ],
)
def test_why_a_pod_will_not_run(what: dict[str, Any], reason: FaultReason, permanent: bool) -> None:
    fault = trouble(what, "x/y:1", 20.0, 15.0)
    assert fault is not None
    assert (fault.reason, fault.permanent) == (reason, permanent)


def test_a_node_without_room_is_given_time() -> None:
    assert trouble(pod(conditions=[{**UNPLACED, "message": "Insufficient cpu"}]), "x", 1.0, 15.0) is None
    assert trouble(pod({"waiting": {"reason": "ContainerCreating"}}), "x", 0.0, 15.0) is None


def test_the_user_reads_what_it_waits_for() -> None:
    assert waits_for(pod(conditions=[{**UNPLACED, "message": "no room"}])) == "waits for its place: no room"
    assert "pulling" in waits_for(pod({"waiting": {"reason": "ContainerCreating"}}))


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        ({"kind": "Status", "status": "Success"}, True),
        (pod(meta={"deletionGracePeriodSeconds": 0}), True),
        (pod(meta={"deletionGracePeriodSeconds": 1}), False),  # its node has to say so
        (pod(meta={"deletionGracePeriodSeconds": 0, "finalizers": ["x/y"]}), False),
    ],
)
def test_the_answer_to_a_deletion_says_whether_the_pod_is_gone(answer: dict[str, Any], gone: bool) -> None:
    assert is_gone(answer) is gone
