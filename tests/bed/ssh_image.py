"""An image with sshd, ssh and curl, made of this machine's own programs and the libraries they name."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from clusters.docker_runtime import connect
from clusters.sample_image import CHANGES, root_file_system, static_busybox
from tests.bed.docker_bed import BedNode

SSH_IMAGE = "longshore-test/ssh:1"
PROGRAMS = {"sshd": "usr/sbin/sshd", "ssh": "usr/bin/ssh", "ssh-keygen": "usr/bin/ssh-keygen", "curl": "usr/bin/curl"}
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\n",
    "etc/ssh/sshd_config": "",
}


def ensure_ssh_image(node: BedNode) -> str:
    """Its name; the node then has it."""
    engine = connect(node.unix)
    if not engine.has_image(SSH_IMAGE):
        engine.import_image(SSH_IMAGE, _root(), CHANGES)
    return SSH_IMAGE


def _root() -> io.BytesIO:
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        with tarfile.open(fileobj=root_file_system(static_busybox())) as base:
            for member in base:
                if member.name not in FILES:
                    tar.addfile(member, base.extractfile(member) if member.isfile() else None)
        for name, text in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        libraries: set[str] = set()
        for program, inside in PROGRAMS.items():
            found = shutil.which(program) or f"/usr/sbin/{program}"
            tar.add(Path(found).resolve(), inside)
            libraries |= _libraries(found)
        for library in sorted(libraries):
            tar.add(Path(library).resolve(), library.lstrip("/"))
    spool.seek(0)
    return spool


def _libraries(program: str) -> set[str]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, timeout=20).stdout
    return set(re.findall(r"(?:=> )?(/\S+) \(0x", said))
