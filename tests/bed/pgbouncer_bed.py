"""A real PgBouncer in transaction mode before a private PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bed.postgres_bed import USER, Postgres
from tests.limits import LIMIT

_CONFIG = """[databases]
* = host={server} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
default_pool_size = 10
ignore_startup_parameters = extra_float_digits
logfile = {folder}/log
"""


def missing() -> str:
    """Empty when this machine can run one, else why not."""
    return "" if _program() else "pgbouncer is not installed"


@contextmanager
def pgbouncer(server: Postgres, mode: str = "transaction") -> Iterator[str]:
    """The DATABASE_URL of the server by way of a pooler."""
    from tests.helpers import until

    with TemporaryDirectory(prefix="longshore-pgbouncer-") as name:
        folder = Path(name)
        (folder / "ini").write_text(_CONFIG.format(server=server.folder, folder=folder, mode=mode))
        as_user: list[str] = []
        if os.geteuid() == 0:  # it refuses to run as root
            shutil.chown(folder, USER, USER)
            as_user = ["runuser", "-u", USER, "--"]
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen([*as_user, str(_program()), folder / "ini"], stdout=output, stderr=output)
        try:
            socket = folder / ".s.PGSQL.6432"
            until(lambda: socket.exists() or process.poll() is not None, 20, what="PgBouncer listens")
            assert process.poll() is None, (folder / "output").read_text()
            yield f"postgres://{USER}@/{folder}/postgres?port=6432"
        finally:
            process.terminate()
            process.wait(LIMIT)


def _program() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
