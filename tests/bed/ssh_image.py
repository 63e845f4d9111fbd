"""An image with sshd, ssh and curl, made of this machine's own programs and the libraries they name."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.sample_image import CHANGES, root_file_system, static_busybox
from tests.bed.docker_bed import BedNode
from tests.bed.host_image import libraries_of, python_files

SSH_IMAGE = "longshore-test/ssh:1"
PYTHON_IMAGE = "longshore-test/python:1"
PROGRAMS = {"sshd": "usr/sbin/sshd", "ssh": "usr/bin/ssh", "ssh-keygen": "usr/bin/ssh-keygen", "curl": "usr/bin/curl"}
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\n",
}
CONFIG = {"etc/ssh/sshd_config": ""}


def ensure_ssh_image(node: BedNode) -> str:
    """Its name; the node then has it."""
    return import_ssh_image(node.unix)


def import_ssh_image(endpoint: str) -> str:
    engine = DockerRuntime(endpoint)
    if SSH_IMAGE not in engine.image_names():
        engine.import_image(SSH_IMAGE, _root({**FILES, **CONFIG}), CHANGES)
    return SSH_IMAGE


def ensure_python_image(node: BedNode) -> str:
    """The same with Python beside it, and with an sshd that has no configuration."""
    engine = DockerRuntime(node.unix)
    if PYTHON_IMAGE not in engine.image_names():
        engine.import_image(PYTHON_IMAGE, _root(FILES, python_files()), CHANGES)
    return PYTHON_IMAGE


def _root(texts: Mapping[str, str], more: Iterable[tuple[PurePosixPath, Path]] = ()) -> io.BytesIO:
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        with tarfile.open(fileobj=root_file_system(static_busybox())) as base:
            for member in base:
                if member.name not in texts:
                    tar.addfile(member, base.extractfile(member) if member.isfile() else None)
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        files = {**dict(more), **{PurePosixPath("/", inside): _found(name) for name, inside in PROGRAMS.items()}}
        files |= {PurePosixPath(library): Path(library).resolve() for library in libraries_of(files.values())}
        for target, source in sorted(files.items()):
            tar.add(source, str(target)[1:])
    spool.seek(0)
    return spool


def _found(program: str) -> Path:
    return Path(shutil.which(program) or f"/usr/sbin/{program}").resolve()
