"""The images that the example jobs name: this machine's own Python, with the programs of tests/stand_ins in place of
the real ones."""

from __future__ import annotations

import importlib.metadata
import io
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import docker

from tests.bed.docker_bed import BedNode
from tests.bed.host_image import site_folder
from tests.bed.ssh_image import ensure_python_image
from tests.limits import LIMIT

STAND_INS = Path(__file__).resolve().parents[1] / "stand_ins"
REAL = ("uvicorn", "h11", "click")  # what serves is not a stand-in: it is pure Python, and Longshore itself needs it


def ensure_example_images(node: BedNode, names: Iterable[str]) -> None:
    """The node then has one image under all these names."""
    packages = f"/usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}/{site_folder()}"
    steps = f"FROM {ensure_python_image(node)}\nCOPY bin /usr/local/bin/\nCOPY packages {packages}/\n"
    client = docker.DockerClient(node.unix, timeout=LIMIT)
    try:
        image, _ = client.images.build(
            fileobj=_context(steps), custom_context=True, tag="longshore-test/example:1", network_mode="none", rm=True
        )
        for name in names:
            assert image.tag(name)
    finally:
        client.close()


def _context(steps: str) -> io.BytesIO:
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(steps.encode())
        tar.addfile(entry, io.BytesIO(steps.encode()))
        tar.add(STAND_INS / "bin", "bin")
        for name in REAL:
            for file in importlib.metadata.files(name) or []:
                if ".." not in file.parts and file.suffix == ".py":
                    tar.add(str(file.locate()), f"packages/{file}")
    spool.seek(0)
    return spool
