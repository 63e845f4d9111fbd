"""A small image registry (distribution API v2) for pull tests, in this process, on the bed's own address.

One with a ``password`` wants user ``bed`` with it for everything. The layer of ``broken/...`` arrives damaged, that of
``slow/...`` in pieces; what was never added is unknown.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
PIECES = 15


class Registry:
    """``address`` is host:port. Nodes must have it among their insecure registries."""

    def __init__(self, host: str, port: int = 5000, password: str = "") -> None:
        self.password = password
        self.address = f"{host}:{port}"
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}  # "<repository>/<tag or digest>"
        self.pulls: list[str] = []
        registry = self

        class Handler(_Handler):
            holder = registry

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def add(self, repository: str, size: int = 2_000, *, root: bytes = b"") -> str:
        """An image of one layer, ``root`` (a tar) or else ``size`` random bytes; its full name, tag 1."""
        tar = root or _layer(size)
        packed = gzip.compress(tar, 1)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Cmd": ["sh"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(tar)]},
                "history": [{"created": "2026-01-01T00:00:00Z"}],
            }
        ).encode()
        layer, described = self._keep(packed, LAYER), self._keep(config, CONFIG)
        if repository.startswith("broken/"):
            self.blobs[layer["digest"]] = bytes(len(packed))
        manifest = json.dumps(
            {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": [layer]}
        ).encode()
        for reference in ("1", _digest(manifest)):
            self.manifests[f"{repository}/{reference}"] = manifest
        return f"{self.address}/{repository}:1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _keep(self, content: bytes, kind: str) -> dict[str, Any]:
        self.blobs[_digest(content)] = content
        return {"mediaType": kind, "size": len(content), "digest": _digest(content)}


class _Handler(BaseHTTPRequestHandler):
    holder: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.removeprefix("/v2/")
        if not self._authorized():
            self._answer(
                401, _error("UNAUTHORIZED", "authentication required"), {"WWW-Authenticate": 'Basic realm="b"'}
            )
        elif not name:
            self._answer(200, b"{}")
        elif "/manifests/" in name:
            self._manifest(name)
        else:
            self._blob(name)

    do_HEAD = do_GET

    def _manifest(self, name: str) -> None:
        self.holder.pulls.append(name)
        manifest = self.holder.manifests.get(name.replace("/manifests/", "/"))
        if manifest is None:
            self._answer(404, _error("MANIFEST_UNKNOWN", "manifest unknown"))
        else:
            self._answer(200, manifest, {"Content-Type": MANIFEST, "Docker-Content-Digest": _digest(manifest)})

    def _blob(self, name: str) -> None:
        blob = self.holder.blobs.get(name.rpartition("/")[2], b"")
        slow = name.startswith("slow/") and len(blob) > 10_000
        self._answer(200 if blob else 404, blob, pieces=PIECES if slow else 1)

    def _authorized(self) -> bool:
        wanted = base64.b64encode(f"bed:{self.holder.password}".encode()).decode()
        return not self.holder.password or self.headers.get("Authorization") == f"Basic {wanted}"

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, pieces: int = 1) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        step = -(-len(body) // pieces) or 1
        for start in range(0, len(body), step):
            self.wfile.write(body[start : start + step])
            if pieces > 1:
                time.sleep(0.1)

    def log_message(self, *_: object) -> None:
        pass


def _layer(size: int) -> bytes:
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        entry = tarfile.TarInfo("content")
        entry.size = size
        tar.addfile(entry, io.BytesIO(os.urandom(size)))
    return spool.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _error(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()
