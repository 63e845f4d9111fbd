"""Asks ``nvidia-smi`` which NVIDIA GPUs this host has. Of other hosts the admin who registers them says it."""

from __future__ import annotations

import shutil
import subprocess

TIMEOUT = 10  # seconds; a driver in trouble can make nvidia-smi hang


def find_gpus() -> list[dict[str, str]]:
    """``[{"id": "0", "type": "A100-SXM4-40GB"}]``. Empty when there is no driver, or when it does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=index,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return []
    return parse(answer.stdout)


def parse(text: str) -> list[dict[str, str]]:
    """Reads lines such as ``0, NVIDIA A100-SXM4-40GB``. A type has no white space (v1 contract, 1.1 gpuType)."""
    found = []
    for line in text.splitlines():
        index, comma, name = line.partition(",")
        if comma and index.strip().isdigit():
            found.append({"id": index.strip(), "type": "-".join(name.split()).removeprefix("NVIDIA-")[:256]})
    return found
