"""Jobs for tests that come about as real ones do: submitted. (tests.builders makes rows in any state.)"""

from __future__ import annotations

import json
from typing import Any

from base.models import User
from jobs import services
from jobs.models import Job


def config(name: str = "hello", **more: Any) -> dict[str, Any]:
    """A valid config; ``tasks`` and ``gpus`` are those of its one role ``worker``."""
    role = {
        "name": "worker",
        "taskNumber": more.pop("tasks", 1),
        "cpuNumber": 1,
        "memoryMB": 100,
        "gpuNumber": more.pop("gpus", 0),
        "command": "echo hello",
    }
    return {"jobName": name, "image": "longshore/sample", "taskRoles": [role], **more}


def config_text(name: str = "hello", **more: Any) -> str:
    return json.dumps(config(name, **more))


def submitted(user: User, name: str = "hello", **more: Any) -> Job:
    return services.submit(user, config_text(name, **more))
