"""Says where the ring file of a task, of a node, of a GPU and of the cluster is, and removes them.

All are below LONGSHORE_METRICS: on several hosts a folder that they share, or each its own (jobs/metrics/sharing),
since one samples and all show.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

from django.conf import settings

LATEST = "latest.json"
_LONGEST = 120  # characters of a role's name in the file's


def root() -> Path:
    return Path(settings.METRICS_DIR)


def of_task(app_id: str, role: str, index: int) -> Path:
    """Return ``app_id``: of the attempt. Names of roles differ in what is kept of them, or their tasks in the hash."""
    # One text, of which one Path is made: thousands of tasks are asked for every few seconds.
    return Path(f"{settings.METRICS_DIR}/attempts/{_as_name(app_id)}/{_as_name(role)}-{index}.ring")


def of_attempt(app_id: str) -> Path:
    return root() / "attempts" / _as_name(app_id)


def app_id_of(folder: Path) -> str:
    """The application id of the attempt to which this folder belongs."""
    return unquote(folder.name)


def of_node(name: str) -> Path:
    return root() / "nodes" / _as_name(name) / "node.ring"


def of_gpu(node: str, id: str) -> Path:
    return Path(f"{settings.METRICS_DIR}/nodes/{_as_name(node)}/gpu-{_as_name(id)}.ring")


def of_latest(node: str) -> str:
    """What was measured there last (jobs.metrics.latest). A text, as those of all nodes are read at once."""
    return f"{settings.METRICS_DIR}/nodes/{_as_name(node)}/{LATEST}"


def of_cluster() -> Path:
    return root() / "cluster.ring"


def remove_attempts(app_ids: Iterable[str]) -> None:
    """Remove the files of these attempts. Succeeds also where they are gone."""
    for app_id in app_ids:
        shutil.rmtree(of_attempt(app_id), ignore_errors=True)


@lru_cache(maxsize=16_384)
def _as_name(text: str) -> str:
    """The text as one part of a path; a long one is cut and gets a hash."""
    name = quote(text, safe="").replace(".", "%2E")
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 17]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"
