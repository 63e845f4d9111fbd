"""What the jobs of a trial do, and how each must end whatever breaks meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tests.acceptance.portal import Json, config
from tests.chaos.witness import PREAMBLE

CODE = "$PAI_DEFAULT_FS_URI/users/admin/chaos-code"
SECRET = "what the code folder holds"
SLACK = 50  # more tries than a job needs: an end that its witness saw and its engine lost is not charged to it


@dataclass(frozen=True)
class Kind:
    """``end`` is (state, v1 exit code); ``tries`` how many failed ones the job must be charged with, None: as it comes.
    ``deed``: what its user does once it was submitted, sooner or later."""

    command: str
    weight: int
    end: tuple[str, int] = ("SUCCEEDED", 0)
    tries: int | None = 0
    deed: Literal["", "stop", "delete"] = ""
    more: Json = field(default_factory=dict)


PORT_TEST = "httpd -p $PAI_CONTAINER_HOST_web_PORT_LIST || leave 9; "
KINDS = {
    "short": Kind("leave 0", 5),
    "long": Kind("sleep 6; leave 0", 5),
    "fails": Kind("sleep 1; leave 3", 3, ("FAILED", 255), tries=0),
    "retried": Kind("leave 7", 4, ("FAILED", 255), tries=2, more={"retryCount": 2}),
    "flaky": Kind('[ "$tries" -ge 2 ] || leave 5; leave 0', 4, tries=None, more={"retryCount": SLACK}),
    "gang": Kind("sleep 2; leave 0", 4, more={"taskNumber": 3}),
    "half": Kind(
        '[ "$PAI_TASK_INDEX" != 1 ] || leave 4; while :; do sleep 1; done',
        3,
        ("FAILED", 255),
        tries=1,
        more={"taskNumber": 3, "retryCount": 1},
    ),
    "gpus": Kind("sleep 3; set -- $gpus; [ $# = 2 ] || leave 9; leave 0", 4, more={"gpuNumber": 2}),
    "gpu-gang": Kind(
        "sleep 2; set -- $gpus; [ $# = 4 ] || leave 9; leave 0", 2, more={"gpuNumber": 4, "taskNumber": 2}
    ),
    "ports": Kind(
        f"{PORT_TEST}sleep 2; leave 0", 3, more={"portList": [{"label": "web", "beginAt": 0, "portNumber": 1}]}
    ),
    "fixed": Kind(
        f"{PORT_TEST}sleep 1; leave 0", 2, more={"portList": [{"label": "web", "beginAt": 31000, "portNumber": 1}]}
    ),
    "memory": Kind("exec tail /dev/zero", 2, ("FAILED", 196), more={"retryCount": 3}),
    "debug": Kind("leave 6", 2, ("FAILED", 255), more={"jobEnvs": {"isDebug": True}}),
    "code": Kind(f'[ "$(cat chaos-code/secret)" = "{SECRET}" ] || leave 9; leave 0', 3, more={"codeDir": CODE}),
    "stopped": Kind("while :; do sleep 1; done", 4, ("STOPPED", -7351), tries=None, deed="stop"),
    "deleted": Kind("while :; do sleep 1; done", 2, ("GONE", 0), tries=None, deed="delete"),
}


def body(name: str) -> Json:
    kind = kind_of(name)
    return config(name, PREAMBLE + kind.command, **kind.more)


def kind_of(name: str) -> Kind:
    """``gpu-gang-17`` is a ``gpu-gang``."""
    return KINDS[name.rpartition("-")[0]]
