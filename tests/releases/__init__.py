"""Databases as earlier releases left them, for tests of the upgrade.

    python -m tests.releases make d7dce32 first     the release of that commit, by its own code, to first.sql

The command needs a clone with its history. The texts are SQLite's own dumps, so that anybody can read what is in them.
"""

from __future__ import annotations

import io
import os
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
FIRST, LAST = "first", "last"
# By the code of the release: rows such as it wrote them. Secrets of a fixture are no secrets.
_FILL = """
import django; django.setup()
from datetime import timedelta
from django.core.management import call_command
from django.utils import timezone
call_command("migrate", interactive=False, verbosity=0)
from clusters.models import VcGrant, VirtualCluster
from jobs.models import Task
from base.accounts import tokens
from base.models import User
from tests.builders import make_job, make_node
admin = User.objects.create_superuser("admin", "correct horse")
alice = User.objects.create_user("alice", "correct horse")
tokens.issue(alice, 50 * 365 * 86_400, "kept")
vision = VirtualCluster.objects.create(name="vision", capacity=40, max_capacity=60)
VcGrant.objects.create(vc=vision, username="alice")
node = make_node("gpu-01", gpus=4, labels={"zone": "a"})
for state in ("SUCCEEDED", "FAILED", "STOPPED"):
    make_job("alice", f"was-{state.lower()}", state=state, gpus=1, vc="vision", node=node)
make_job("alice", "runs", state="RUNNING", tasks=2, gpus=1, node=node)
make_job("alice", "waits", state="WAITING", gpus=4)
make_job("admin", "legacy", state="SUCCEEDED", is_legacy=True)
Task.objects.filter(job__name="waits").update(claim="of nobody", claimed_until=timezone.now() + timedelta(days=1))
"""


def database(name: str, path: Path) -> Path:
    """The database of that release, as a file of SQLite at ``path``."""
    with closing(sqlite3.connect(path)) as new:
        new.executescript((HERE / f"{name}.sql").read_text())
    return path


def make(commit: str, name: str) -> None:
    """Check out the commit in a folder of its own, let it make and fill a database, and write it down."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as tree:
            tree.extractall(folder, filter="data")
        home = Path(folder, "var")
        settings = {"LONGSHORE_HOME": str(home), "DJANGO_SETTINGS_MODULE": "portal.settings"}
        settings |= {"LONGSHORE_SECRET_KEY": "s" * 40, "LONGSHORE_TOKEN_KEY": "t" * 40}
        subprocess.run([sys.executable, "-c", _FILL], cwd=folder, env={**os.environ, **settings}, check=True)
        with closing(sqlite3.connect(home / "longshore.sqlite3")) as made:
            (HERE / f"{name}.sql").write_text("\n".join(made.iterdump()) + "\n")
