"""Runs JupyterLab or VS Code in a task: brings the folder from the store, puts back what changes, and ends when nobody
uses it.

It is sent as a part of the command, so it needs Python 3.9 and nothing else. Use is a file that changes, and what the
tool itself says or shows (``last_use``).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

FOLDER, IDLE = os.environ["NOTEBOOK_FOLDER"], float(os.environ["NOTEBOOK_IDLE"])
HERE = Path(os.environ.get("NOTEBOOK_HERE", f"store{FOLDER}")).absolute()
TOOL = os.environ["NOTEBOOK_TOOL"]
PORT = os.environ[f"PAI_CONTAINER_HOST_{TOOL}_PORT_LIST"]
BASE = os.environ.get(f"LONGSHORE_WEB_PATH_{TOOL}", "")
PAUSE = float(os.environ.get("NOTEBOOK_PAUSE", "5"))  # seconds between two looks
BEGINS = 600  # seconds that the tool may take until it answers
LAST = 20  # seconds that the last save is tried for
AT_ONCE = 1000  # files of one request
EDITOR = ".code-server"  # VS Code's own files, below a folder of the user's own
IS_OWN = os.environ.get("NOTEBOOK_IS_OWN") == "yes"  # nobody else writes into the folder
EDITOR_KEEPS = (f"{EDITOR}/User/", f"{EDITOR}/extensions/")  # settings, what was typed and not saved, extensions
BUSY = 0.01  # of a core: what the programs somebody started in VS Code take at least
Versions = dict[str, str]
ending: list[int] = []


def store(op: str, body: BinaryIO | None = None, **query: str) -> Any:
    with open(os.environ["LONGSHORE_WEBHDFS_TOKEN_FILE"]) as file:
        query = {"op": op, "delegation": file.read().strip(), **query}
    address = f"{os.environ['LONGSHORE_WEBHDFS_URL']}{quote(FOLDER)}?{urlencode(query)}"
    headers = {} if body is None else {"Content-Length": str(os.fstat(body.fileno()).st_size)}
    return urlopen(Request(address, body, headers, method="GET" if body is None else "PUT"), timeout=600)


def fetch() -> None:
    """Bring the folder; one that is not there yet is empty."""
    try:
        with store("PACK") as answer, tarfile.open(fileobj=answer, mode="r|") as tar:
            for each in tar:
                each.name = each.name.partition("/")[2]
                if each.name and (each.isfile() or each.isdir()):
                    tar.extract(each, HERE)
    except HTTPError as error:
        if error.code != 404:
            sys.exit(f"{FOLDER} cannot be read: {said(error)}")


def said(error: Exception) -> str:
    if not isinstance(error, HTTPError):
        return str(error)
    try:
        return str(json.load(error)["RemoteException"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the portal answered {error.code}"


def versions() -> Versions:
    found = {}
    for path in HERE.rglob("*"):
        try:
            about = path.stat()
        except OSError:
            continue
        name = path.relative_to(HERE).as_posix()
        if path.is_file() and is_kept(name):
            found[name] = f"{about.st_size} {about.st_mtime_ns}"
    return found


def is_kept(name: str) -> bool:
    """Not what VS Code writes for itself, also while nobody uses it: logs, caches, locks, its heartbeat."""
    if not name.startswith(f"{EDITOR}/"):
        return True
    return name.startswith(EDITOR_KEEPS) and "/caches/" not in name.lower() and not name.endswith(".lock")


def save(seen: Versions) -> Versions:
    """Put what differs from ``seen`` into the store. Returns what is there then. Raises OSError."""
    now = versions()
    changed = [name for name, version in now.items() if seen.get(name) != version]
    for at in range(0, len(changed), AT_ONCE):
        with tempfile.TemporaryFile() as body:
            with tarfile.open(fileobj=body, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as tar:
                for name in changed[at : at + AT_ONCE]:
                    if (HERE / name).exists():
                        tar.add(HERE / name, name)
            body.flush()
            body.seek(0)
            store("UNPACK", body, overwrite="true").close()
    if changed and "LONGSHORE_SAVED_FILE" in os.environ:
        Path(os.environ["LONGSHORE_SAVED_FILE"]).touch()
    return now


class Jupyter:
    program = "jupyter"
    lacks = "This image has no JupyterLab. Choose one that has it, such as longshore/run.jupyter:1."

    def start(self) -> subprocess.Popen[bytes]:
        options = ["--allow-root", "--no-browser", "--ip=0.0.0.0", f"--port={PORT}", f"--ServerApp.base_url={BASE}/"]
        return subprocess.Popen(["jupyter", "lab", *options, f"--notebook-dir={HERE}"])

    def last_use(self) -> float | None:
        """When a kernel or a terminal was last used, as Jupyter says it: 0 for never; None where it does not answer."""
        used, query = 0.0, urlencode({"token": os.environ["JUPYTER_TOKEN"], "no_track_activity": "1"})
        for kind in ("terminals", "kernels"):
            try:
                with urlopen(f"http://127.0.0.1:{PORT}{BASE}/api/{kind}?{query}", timeout=10) as answer:
                    for one in json.load(answer):
                        when = datetime.fromisoformat(one["last_activity"].replace("Z", "+00:00")).timestamp()
                        used = max(used, time.time() if one.get("execution_state") == "busy" else when)
            except (OSError, ValueError, KeyError):
                if kind == "kernels":  # not everywhere there are terminals
                    return None
        return used


class Code:
    """code-server, which is VS Code behind a password. Its cookie is the hash that it is given, so who has the token
    has the cookie. It runs tasks and extensions that it finds in a folder as soon as that is opened. Where others write
    too, it asks before that, and its own files are none of the folder's."""

    program = "code-server"
    lacks = "This image has no VS Code (code-server). Choose one that has it, such as longshore/run.code:1."

    def __init__(self) -> None:
        self._editor = ""  # the program that VS Code itself is
        self._looked_at = time.time()
        self._took: dict[str, int] = {}

    def start(self) -> subprocess.Popen[bytes]:
        own = (HERE if IS_OWN else HERE.parent) / EDITOR
        options = ["--auth", "password", "--bind-addr", f"0.0.0.0:{PORT}", "--user-data-dir", str(own)]
        options += ["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"]
        options += ["--extensions-dir", str(own / "extensions"), *(["--disable-workspace-trust"] if IS_OWN else [])]
        secret = hashlib.sha256(os.environ.pop("CODE_TOKEN").encode()).hexdigest()
        code = subprocess.Popen(["code-server", *options, str(HERE)], env={**os.environ, "HASHED_PASSWORD": secret})
        self._pid = code.pid
        return code

    def last_use(self) -> float | None:
        """Now while a program that somebody started in it computes, else 0; None where it does not answer. A browser
        that has it open is no use: people leave it open overnight."""
        try:
            urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=10).close()
            self._editor = self._editor or os.readlink(f"/proc/{self._pid}/exe")
        except OSError:
            return None
        now, took, before = time.time(), self._programs(), self._took
        ticks = sum(max(0, ticks - before.get(pid, 0)) for pid, ticks in took.items())
        is_busy = ticks / os.sysconf("SC_CLK_TCK") > BUSY * (now - self._looked_at)
        self._looked_at, self._took = now, took
        return now if is_busy else 0.0

    def _programs(self) -> dict[str, int]:
        """Clock ticks of each program that was started in the editor and is none of its own: those that have a
        terminal, and kernels. All that it starts has its environment, also what has left its terminal."""
        took, mark = {}, f"PAI_CONTAINER_HOST_{TOOL}_PORT_LIST={PORT}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if process.name == str(os.getpid()) or mark not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                has_terminal = fields[4] != "0"
                if has_terminal or os.readlink(process / "exe") != self._editor:
                    took[process.name] = int(fields[11]) + int(fields[12])
            except OSError:  # it has ended, or is nobody's to see
                continue
        return took


def clock(when: float) -> str:
    return time.strftime("%H:%M UTC", time.gmtime(when))


def watch(tool: Jupyter | Code, running: subprocess.Popen[bytes], seen: Versions) -> Versions:
    """Save what changes, until the tool ends, nobody uses it any more, or the task is told to end. Returns what is
    saved."""
    began = used = time.time()
    told, fault, answered = 0.0, "", False
    while running.poll() is None and not ending:
        try:
            now = save(seen)
            used, seen, fault = (time.time() if now != seen else used), now, ""
        except OSError as error:
            before, fault = fault, said(error)
            if fault != before:
                print(f"What changed could not be saved, and is tried again: {fault}", flush=True)
        last = tool.last_use()
        answered = answered or last is not None
        if not answered and time.time() - began < BEGINS:
            last = time.time()
        used = max(used, last or 0.0)
        if time.time() - used >= IDLE and used == told and not fault:  # not unannounced, however long a look took
            print(f"Nobody used it since {clock(used)}: it is saved and given back.", flush=True)
            break
        if time.time() - used >= IDLE / 2 and used != told:
            print(f"Nobody used it since {clock(told := used)}. It ends at {clock(used + IDLE)}.", flush=True)
        until = time.time() + PAUSE
        while time.time() < until and running.poll() is None and not ending:
            time.sleep(0.1)
    return seen


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: ending.append(number))
    tool = Jupyter() if TOOL == "jupyter" else Code()
    if shutil.which(tool.program) is None:
        sys.exit(tool.lacks)
    HERE.mkdir(parents=True, exist_ok=True)
    fetch()
    seen = versions()
    running = tool.start()
    seen = watch(tool, running, seen)
    code = running.poll()
    if code is None:
        running.terminate()
    until = time.time() + LAST
    while True:
        try:
            save(seen)
            return code or 0
        except OSError as error:
            if time.time() > until:
                print(f"What changed last could not be saved: {said(error)}", flush=True)
                return 1
            time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
