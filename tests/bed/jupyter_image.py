"""An image with the real JupyterLab: this machine's own Python, with the packages of an environment beside it."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import docker

from tests.bed.docker_bed import BedNode
from tests.bed.host_image import libraries_of, site_folder
from tests.bed.ssh_image import ensure_python_image
from tests.limits import LIMIT

IMAGE = "longshore/run.jupyter:1"
LAB = Path.home() / ".cache" / "longshore" / "jupyter"
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def missing() -> str:
    """Empty when the packages are here, else why not."""
    there = (LAB / "lib" / _PYTHON / "site-packages" / "jupyterlab").is_dir()
    return "" if there else f"no JupyterLab: python3 -m venv {LAB} && {LAB}/bin/pip install jupyterlab"


def ensure_jupyter_image(node: BedNode) -> str:
    """Its name; the node then has it."""
    packages = f"/usr/local/lib/{_PYTHON}/{site_folder()}"
    steps = f"FROM {ensure_python_image(node)}\nCOPY bin /usr/local/bin/\nCOPY share /usr/local/share/\n"
    files = {"Dockerfile": f"{steps}COPY libraries /\nCOPY packages {packages}/\n"}
    for name, module in (("jupyter", "jupyter_core.command"), ("jupyter-lab", "jupyterlab.labapp")):
        files[f"bin/{name}"] = _program(module)
    client = docker.DockerClient(node.unix, timeout=10 * LIMIT)
    try:
        with tarfile.open(fileobj=(spool := io.BytesIO()), mode="w") as tar:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
            tar.add(LAB / "lib" / _PYTHON / "site-packages", "packages")
            tar.add(LAB / "share", "share")
            for library in libraries_of(LAB.rglob("*.so")):
                tar.add(Path(library).resolve(), f"libraries{library}")
        spool.seek(0)
        client.images.build(fileobj=spool, custom_context=True, tag=IMAGE, network_mode="none", rm=True)
    finally:
        client.close()
    return IMAGE


def _program(module: str) -> str:
    return f"#!/usr/local/bin/python3\nimport sys\nfrom {module} import main\nsys.exit(main())\n"
