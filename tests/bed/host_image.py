"""A root file system of the machine's own files, to build images on without any registry: busybox, bash, curl, OpenSSH,
Python with the packages Longshore needs, and every library these ask for. Some 200 MB."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from clusters.engines.sample_image import CHANGES, root_file_system, static_busybox

PROGRAMS = ("bash", "curl", "ssh", "ssh-keygen", "sshd")
HELPERS = ("/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth")  # of OpenSSH 9.8 and later
PLAIN = ("/etc/ssl/certs/ca-certificates.crt", "/usr/share/zoneinfo/UTC", "/etc/ssh/sshd_config")
NEEDLESS = {"test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip"}
PREFIX = PurePosixPath("/usr/local")
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "usr/local/bin/pip3": '#!/bin/sh\nexec python3 -m pip "$@"\n',
}

__all__ = ["CHANGES", "missing", "write"]


def missing() -> str:
    """Empty when this machine has what goes in, else why not."""
    lacking = [program for program in PROGRAMS if not _find(program)]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def write(target: Path, requirements: Path) -> None:
    """The file system as a tar; ``requirements``: whose packages it has."""
    files = {PurePosixPath(found): Path(found) for found in _programs()}
    files |= {PurePosixPath(name): Path(name) for name in (*PLAIN, *HELPERS) if Path(name).exists()}
    files |= dict(python_files())
    files |= dict(_packages(requirements))
    files |= {_place(name): Path(name) for name in libraries_of(files.values())}
    taken = {str(path)[1:] for path in files} | set(ACCOUNTS)
    with tarfile.open(fileobj=root_file_system(static_busybox())) as busybox, tarfile.open(target, "w") as tar:
        for member in busybox:
            if member.name not in taken:
                tar.addfile(member, busybox.extractfile(member) if member.isfile() else None)
        for name, text in ACCOUNTS.items():
            _add(tar, name, text.encode(), 0o755 if "/bin/" in name else 0o644)
        for path, source in sorted(files.items()):
            about = source.stat()
            _add(tar, str(path)[1:], source.read_bytes(), about.st_mode & 0o777, int(about.st_mtime))


def _find(program: str) -> str | None:
    return shutil.which(program, path="/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin")


def _programs() -> Iterator[str]:
    for program in PROGRAMS:
        found = _find(program)
        assert found, program
        yield found


def python_files() -> Iterator[tuple[PurePosixPath, Path]]:
    """The interpreter with its standard library, as if it had been installed in PREFIX."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Path(sys.executable).resolve()
    for alias in (name, "python3"):
        yield PREFIX / "bin" / alias, interpreter
    library = Path(importlib.__file__).parents[1]  # of the interpreter, not of a venv
    for folder, below, files in os.walk(library):
        below[:] = [each for each in below if each not in NEEDLESS and not each.endswith("-packages")]
        for path in (Path(folder, each) for each in files if not each.endswith(".a")):
            yield PREFIX / "lib" / name / path.relative_to(library), path


def _packages(requirements: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    folder = PREFIX / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / site_folder()
    for name in ["pip", *re.findall(r"^([A-Za-z0-9_.-]+)[^ =]*==", requirements.read_text(), re.M)]:
        try:
            files = importlib.metadata.distribution(name).files or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform
        for file in files:
            if ".." not in file.parts and file.suffix not in (".pyc", ".po", ".mo"):
                yield folder / file, (found := Path(str(file.locate())))
                compiled = Path(importlib.util.cache_from_source(str(found)))
                if file.suffix == ".py" and compiled.exists():
                    yield folder / PurePosixPath(file).parent / "__pycache__" / compiled.name, compiled


def site_folder() -> str:
    """Debian's own Python looks for packages under another name."""
    base = Path(sys.executable).resolve()
    asked = [str(base), "-I", "-c", "import site; print(*site.getsitepackages())"]
    return "dist-packages" if "dist-packages" in subprocess.check_output(asked, text=True) else "site-packages"


def libraries_of(files: Iterable[Path]) -> set[str]:
    """What these ELF files are linked with, as ldd finds it."""
    linked = []
    for file in set(files):
        with file.open("rb") as start:
            if start.read(4) == b"\x7fELF":
                linked.append(str(file))
    told = subprocess.run(["ldd", *linked], capture_output=True, text=True).stdout  # fails for static ones
    return {path for path in re.findall(r"(?:=> |^\t)(/\S+) \(0x", told, re.M) if "site-packages" not in path}


def _place(library: str) -> PurePosixPath:
    """Where everybody finds it: a Python in somebody's home has its library there too."""
    return PurePosixPath(library if library.startswith(("/lib", "/usr/lib")) else f"/usr/lib/{Path(library).name}")


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int, mtime: int = 0) -> None:
    """With the time of a Python file its compiled form stays good."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), mode, mtime
    tar.addfile(entry, io.BytesIO(content))
