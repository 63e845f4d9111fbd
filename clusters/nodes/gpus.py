"""Finds out which NVIDIA GPUs a host has: this one from ``nvidia-smi``, any other from a container that its engine
hands all of them. Where neither tells, the admin who registers the node declares them."""

from __future__ import annotations

import re
import shutil
import subprocess

from clusters.engines import schemes
from clusters.engines.inventory import gpu_type
from clusters.engines.runtime import Engine, RuntimeFault
from clusters.engines.sample_image import ensure_sample_image
from clusters.nodes import trial
from clusters.nodes.probe import within

PATIENCE = 20.0  # seconds until an engine has told, the sample image included
TIMEOUT = 10  # seconds; a driver in trouble can make nvidia-smi hang
ALL_GPUS = ("all",)
_LIST = (
    'for d in /dev/nvidia[0-9]*; do [ -e "$d" ] && echo "device ${d#/dev/nvidia}"; done;'
    " for f in /proc/driver/nvidia/gpus/*/information; do echo ----; cat $f 2>/dev/null; done; true"
)
_MODEL = re.compile(r"^Model:\s*(.+)$", re.MULTILINE)
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)


def found_gpus(endpoint: str, tls_dir: str) -> list[dict[str, str]]:
    """Returns the GPUs that this host's driver or the engine of the node tells of."""
    if schemes.scheme_of(endpoint).is_here and (here := find_gpus()):
        return here
    try:
        runtime = schemes.connect(endpoint, tls_dir or None)
        return within(PATIENCE, lambda: handed_out(runtime))
    except (RuntimeFault, TimeoutError):
        return []


def find_gpus() -> list[dict[str, str]]:
    """Asks this host's driver: ``[{"id": "0", "type": "A100-SXM4-40GB"}]``, empty when it has none or does not
    answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=index,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return []
    return parse(answer.stdout)


def handed_out(runtime: Engine) -> list[dict[str, str]]:
    """Returns the GPUs that a container gets which asks for all. RuntimeFault where the engine hands out none."""
    ensure_sample_image(runtime)
    return parse_listing(trial.listing(runtime, ALL_GPUS, _LIST))


def parse_listing(text: str) -> list[dict[str, str]]:
    """Reads what ``_LIST`` prints: ``device 0`` for each GPU and, where the driver shows them, ``Model:`` and ``Device
    Minor:`` of each."""
    ids = re.findall(r"^device (\d+)$", text, re.MULTILINE)
    blocks = text.split("----")
    pairs = ((_MINOR.search(block), _MODEL.search(block)) for block in blocks)
    models = {minor[1]: model[1] for minor, model in pairs if minor and model}
    return [{"id": id, "type": gpu_type(models.get(id, ""))} for id in sorted(set(ids), key=int)]


def parse(text: str) -> list[dict[str, str]]:
    """Reads lines such as ``0, NVIDIA A100-SXM4-40GB``."""
    gpus = []
    for line in text.splitlines():
        index, comma, name = line.partition(",")
        if comma and index.strip().isdigit():
            gpus.append({"id": index.strip(), "type": gpu_type(name)})
    return gpus
