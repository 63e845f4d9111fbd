"""A real nginx before a portal, as docs/run/https.md sets it up, with a certificate of its own; or before several
hosts, as docs/run/several-hosts.md does."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.limits import LIMIT

_ROOT = Path(__file__).resolve().parents[2]
_HOSTS = ("10.0.0.11:9186", "10.0.0.12:9186", "10.0.0.13:9186")  # of docs/run/several-hosts.md
_AROUND = """daemon off; pid {folder}/pid; error_log stderr; worker_processes 1; {user}
events {{}}
http {{
access_log off;
client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
{server}
}}
"""


def missing() -> str:
    """Empty when this machine can run one, else why not."""
    return "" if _program() else "nginx is not installed"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Of localhost, for a day: the files of it and of its key."""
    certificate, key = folder / "longshore.crt", folder / "longshore.key"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subprocess.run([*make, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@contextmanager
def nginx(folder: Path, port: int, *portals: str, patience: str = "60s") -> Iterator[Path]:
    """On that port of 127.0.0.1, before a portal, or three hosts of one (each host:port). Yields the certificate, which
    clients must trust. ``patience``: for a host of several that takes a request and says nothing."""
    from tests.helpers import until

    crt, key = certificate(folder)
    server = _documented() if len(portals) == 1 else _balancing(patience)
    places = zip(("127.0.0.1:9186",) if len(portals) == 1 else _HOSTS, portals, strict=True)
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("longshore.example.org", "localhost"),
        ("/etc/ssl/longshore.crt", str(crt)),
        ("/etc/ssl/longshore.key", str(key)),
        *places,
    ):
        assert old in server, old
        server = server.replace(old, new)
    config = folder / "nginx.conf"
    user = "user root;" if Path("/proc/self").stat().st_uid == 0 else ""
    config.write_text(_AROUND.format(folder=folder, user=user, server=server))
    log = folder / "nginx.log"
    with log.open("wb") as output:
        process = subprocess.Popen([_program() or "", "-p", folder, "-c", config], stderr=output)
    try:
        until(lambda: _answers(port) or process.poll() is not None, 20, what="nginx answers")
        assert process.poll() is None, log.read_text()
        yield crt
    finally:
        process.terminate()
        process.wait(LIMIT)


def _documented() -> str:
    (server,) = _blocks("https.md")
    return server


def _balancing(patience: str) -> str:
    hosts, lines = _blocks("several-hosts.md")
    server = _documented()
    for old, new in (
        ("proxy_pass http://127.0.0.1:9186;", lines),
        ("proxy_read_timeout 1h;", ""),
        ("proxy_read_timeout 60s;", f"proxy_read_timeout {patience};"),
    ):
        assert old in server, old
        server = server.replace(old, new)
    return hosts + server


def _blocks(page: str) -> list[str]:
    return re.findall(r"```nginx\n(.*?)```", (_ROOT / "docs" / "run" / page).read_text(), re.DOTALL)


def _program() -> str | None:
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
