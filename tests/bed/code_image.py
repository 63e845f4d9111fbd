"""An image with the real code-server, which is VS Code: this machine's Python and node, with the packages of a folder
beside them."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import docker

from tests.bed.docker_bed import BedNode
from tests.bed.host_image import libraries_of
from tests.bed.ssh_image import ensure_python_image
from tests.limits import LIMIT

IMAGE = "longshore/run.code:1"
CODE = Path.home() / ".cache" / "longshore" / "code-server" / "package"
_PROGRAM = '#!/bin/sh\nexec /usr/local/bin/node /usr/lib/code-server/out/node/entry.js "$@"\n'
# What is not compiled here does without: it is for proxies with passwords.
_MAKE = (
    "npm pack code-server@4.96.4, unpacked; without its npm-shrinkwrap.json and that of lib/vscode `npm install "
    "--omit=dev --ignore-scripts` in both, and `npm rebuild` of argon2, node-pty, @vscode/spdlog, native-watchdog and "
    "@parcel/watcher"
)


def missing() -> str:
    """Empty when it is here, else why not."""
    there = (CODE / "lib/vscode/node_modules/node-pty/build/Release/pty.node").exists() and shutil.which("node")
    return "" if there else f"no code-server in {CODE}: {_MAKE}"


def ensure_code_image(node: BedNode) -> str:
    """Its name; the node then has it."""
    program = Path(shutil.which("node") or "").resolve()
    copies = "COPY bin /usr/local/bin/\nCOPY libraries /\nCOPY code /usr/lib/code-server/\n"
    steps = f"FROM {ensure_python_image(node)}\n{copies}"
    texts = {"Dockerfile": steps, "bin/code-server": _PROGRAM}
    client = docker.DockerClient(node.unix, timeout=10 * LIMIT)
    try:
        with tarfile.open(fileobj=(spool := io.BytesIO()), mode="w") as tar:
            for name, text in texts.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
            tar.add(program, "bin/node")
            tar.add(CODE, "code")
            for library in libraries_of([program, *CODE.rglob("build/Release/*.node")]):
                tar.add(Path(library).resolve(), f"libraries{library}")
        spool.seek(0)
        client.images.build(fileobj=spool, custom_context=True, tag=IMAGE, network_mode="none", rm=True)
    finally:
        client.close()
    return IMAGE
