"""Measurements that use Django's models, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.acceptance.portal import ROOT, Portal, prepared

_PATIENCE = 1800  # seconds
_TICK = os.sysconf("SC_CLK_TCK")


def alone(module: str, *arguments: str, **more: str) -> Any:
    """The JSON that a module prints. It has a LONGSHORE_HOME of its own, where tables are empty and static files are
    made. ``more`` are settings beside that."""
    with tempfile.TemporaryDirectory(prefix="ls-bench-") as folder:
        shutil.copytree(prepared(), folder, dirs_exist_ok=True)
        settings = {"LONGSHORE_HOME": folder, "LONGSHORE_LOG_LEVEL": "WARNING", **more}
        return json.loads(_run(settings, module, *arguments))


def beside(portal: Portal, module: str, *arguments: str) -> None:
    """With the settings of the portal, which goes on running."""
    _run(portal.settings, module, *arguments)


def cpu_of(pid: int) -> float:
    """Seconds of CPU so far, the kernel's part too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def told_of(pid: int, name: str, file: str = "status") -> int:
    """What the kernel says of a process: kilobytes, or ``Threads``."""
    return int(Path(f"/proc/{pid}/{file}").read_text().partition(f"\n{name}:")[2].split()[0])


def _run(settings: Mapping[str, str], module: str, *arguments: str) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", **settings},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        timeout=_PATIENCE,
    ).stdout
