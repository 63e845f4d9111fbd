"""Builds the image of the sample jobs from what the machine has: the statically linked busybox. No registry is needed.

The image can run a shell, a small web server (httpd), nc, wget, and use up memory (``tail /dev/zero``).
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import IO

from clusters.engines.runtime import Engine, FaultReason, RuntimeFault

SAMPLE_IMAGE = "longshore/sample:1"
CHANGES = (
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV HOME=/root",
    "WORKDIR /root",
    'CMD ["sh"]',
)
FOLDERS = {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777, "usr/bin": 0o755, "var/run": 0o755}
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}


def ensure_sample_image(engine: Engine) -> str:
    """Give one line about what was done, empty when the image was there already. Raises RuntimeFault."""
    if SAMPLE_IMAGE in engine.image_names():
        return ""
    busybox = static_busybox()
    engine.import_image(SAMPLE_IMAGE, root_file_system(busybox), CHANGES)
    return f"Image {SAMPLE_IMAGE} was made from {busybox}."


def static_busybox() -> Path:
    for found in (shutil.which("busybox"), "/bin/busybox", "/usr/local/bin/busybox"):
        if found and Path(found).is_file() and is_static(Path(found)):
            return Path(found)
    raise RuntimeFault(
        f"{SAMPLE_IMAGE} needs a statically linked busybox on this machine; on Debian and Ubuntu:"
        " apt-get install busybox-static.",
        reason=FaultReason.IMAGE_MISSING,
    )


def is_static(program: Path) -> bool:
    """Whether it is a 64-bit or 32-bit little-endian ELF file without an interpreter (a program header of type 3)."""
    head = program.read_bytes()[:4096]
    if head[:4] != b"\x7fELF" or head[5] != 1:
        return False
    wide = head[4] == 2
    offset = int.from_bytes(head[32:40] if wide else head[28:32], "little")
    size, count = (int.from_bytes(head[at : at + 2], "little") for at in ((54, 56) if wide else (42, 44)))
    types = [head[offset + i * size : offset + i * size + 4] for i in range(count)]
    return (3).to_bytes(4, "little") not in types


def root_file_system(busybox: Path) -> IO[bytes]:
    """A tar with busybox, a link for each of its programs, and the few files that a shell needs."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True, timeout=10).stdout
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        for name, mode in FOLDERS.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            tar.addfile(folder)
        for name, text in FILES.items():
            _add(tar, name, text.encode(), 0o644)
        _add(tar, "bin/busybox", busybox.read_bytes(), 0o755)
        for applet in sorted(set(listed.split()) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    spool.seek(0)
    return spool


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
