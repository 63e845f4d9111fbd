"""Starts web, web pages of tasks, scheduler, workers and sampler, starts them again when they end, and ends all when it
is told to end.

One thread, one loop over the pipes of the children; knows nothing of Django (``manage.py up`` becomes this process).
Each child leads its own session, so that Ctrl-C reaches only us and whatever a child leaves behind can be killed as a
group. Should we be killed ourselves, the kernel kills the children (portal.core.deathsig).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError

from portal.core import deathsig

_ROOT = Path(__file__).resolve().parent.parent
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds before a child is started again, doubled each time
_HEALTHY = 60.0  # seconds a child must live for its next wait to be short again
_BUSY = 30  # seconds for which one of several web processes may be too busy to say that it lives
_LARGEST_MESSAGE = 2 * 1024 * 1024  # bytes of one that a WebSocket may send: it is read whole
_GRACE = 7.0  # seconds between asking to end and killing
_READY_ANYWAY = 20.0  # seconds after which a web that answers is called ready without the others
_PAGES = "jobs.web_apps.serving.asgi:application"
# Of the WebSockets of pages: 16 MB a message of a visitor, which is more than Jupyter takes, and no compression, which
# the container may do itself. A visitor may have so many of them open (jobs/web_apps/serving/door.py).
_SOCKETS = ("--ws-max-size", str(16 << 20), "--ws-per-message-deflate", "false")
_COLOURS = {
    **{"web": 36, "web pages": 31, "scheduler": 35, "workers": 33, "sampler": 34},
    **{"first start": 32, "longshore": 1},
}


@dataclass
class Child:
    name: str
    argv: list[str]
    once: bool = False
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    wait: float = _FIRST_WAIT
    due: float = 0.0  # when to start it (again); moot while it runs
    ended: bool = False  # a ``once`` child that is through
    rest: bytes = field(default=b"", repr=False)  # a line not yet complete


def children(
    host: str,
    port: str,
    tls: tuple[str, str] | None = None,
    web_processes: int = 1,
    apps: tuple[str, str] | None = None,
) -> list[Child]:
    """What runs. ``tls``: the files of a certificate and its key. More than one web process share a socket, and have a
    parent that starts them anew. ``apps``: where the web pages of tasks are served, if they are."""
    manage = [sys.executable, str(_ROOT / "manage.py")]
    web = _uvicorn("portal.asgi:application", host, port, tls)
    if web_processes > 1:
        web += ["--workers", str(web_processes), "--timeout-worker-healthcheck", str(_BUSY)]
    web += ["--ws", "websockets-sansio", "--ws-max-size", str(_LARGEST_MESSAGE), "--ws-per-message-deflate", "false"]
    pages = [Child("web pages", [*_uvicorn(_PAGES, *apps, tls), *_SOCKETS])] if apps else []
    return [
        Child("web", web),
        *pages,
        Child("scheduler", [*manage, "runscheduler"]),
        Child("workers", [*manage, "qcluster"]),
        Child("sampler", [*manage, "runsampler"]),
        Child("first start", [*manage, "firststart"], once=True),
    ]


def _uvicorn(application: str, host: str, port: str, tls: tuple[str, str] | None) -> list[str]:
    command = [sys.executable, "-m", "uvicorn", application, "--host", host, "--port", port]
    command += ["--no-access-log", "--log-level", "warning", "--no-proxy-headers", "--no-server-header"]
    command += ["--timeout-graceful-shutdown", "3", "--lifespan", "on"]
    command += ["--http", "portal.web.serving.connection:Connection"]
    return [*command, "--ssl-certfile", tls[0], "--ssl-keyfile", tls[1]] if tls else command


class Supervisor:
    def __init__(self, crew: list[Child], ready: Ready) -> None:
        self.crew = crew
        self.ready = ready
        self.selector = selectors.DefaultSelector()
        self.asked = 0  # how often we were told to end

    def run(self) -> None:
        deathsig.adopt_orphans()
        self._listen_for_signals()
        while not self.asked:
            self._start_what_is_due()
            self._pump(self._pause())
            self._reap()
            self.ready.look()
        self._end()

    def _listen_for_signals(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self.selector.register(reading, selectors.EVENT_READ, None)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.asked += 1

    def _start_what_is_due(self) -> None:
        for child in self.crew:
            if child.process is None and not child.ended and time.monotonic() >= child.due:
                self._start(child)

    def _start(self, child: Child) -> None:
        child.started = time.monotonic()
        child.process = subprocess.Popen(
            child.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=deathsig.die_with_parent,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "LONGSHORE_SUPERVISOR": str(os.getpid())},
        )
        assert child.process.stdout is not None
        os.set_blocking(child.process.stdout.fileno(), False)
        self.selector.register(child.process.stdout, selectors.EVENT_READ, child)

    def _pause(self) -> float:
        waiting = [child.due - time.monotonic() for child in self.crew if child.process is None and not child.ended]
        return max(0.0, min([0.1 if self.ready.pending else 3600.0, *waiting]))

    def _pump(self, timeout: float) -> None:
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                os.read(key.fd, 512)
            else:
                self._read(key.data, key.fd)

    def _read(self, child: Child, fd: int) -> bool:
        """Passes on the lines that are complete. False when there is nothing to read (now, or ever again)."""
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return False
        *lines, child.rest = (child.rest + data).split(b"\n")
        if not data or len(child.rest) > 65536:
            lines, child.rest = [*lines, child.rest] if child.rest else lines, b""
        for line in lines:
            say(child.name, line.decode(errors="replace"))
        if not data:
            self._forget(child)
        return bool(data)

    def _forget(self, child: Child) -> None:
        assert child.process is not None and child.process.stdout is not None
        with contextlib.suppress(KeyError):
            self.selector.unregister(child.process.stdout)

    def _reap(self) -> None:
        """Waits for whoever has ended: a child, or a process it left behind and we adopted."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            child = next((one for one in self.crew if one.process and one.process.pid == ended.si_pid), None)
            if child is not None:
                _kill_group(ended.si_pid)  # before the wait: until then the number cannot belong to anybody else
            _, status = os.waitpid(ended.si_pid, 0)
            if child is not None:
                self._note_end(child, os.waitstatus_to_exitcode(status))

    def _note_end(self, child: Child, code: int) -> None:
        assert child.process is not None and child.process.stdout is not None
        while self._read(child, child.process.stdout.fileno()):
            pass  # its last words
        self._forget(child)
        child.process.stdout.close()
        child.process.returncode = code
        child.process = None
        if child.once or self.asked:
            child.ended = True
            return
        if time.monotonic() - child.started > _HEALTHY:
            child.wait = _FIRST_WAIT
        say("longshore", f"{child.name} {_how(code)}; it starts again in {child.wait:g} s")
        child.due = time.monotonic() + child.wait
        child.wait = min(2 * child.wait, _LONGEST_WAIT)

    def _end(self) -> None:
        """Asks each child's first process alone (django-q2 hangs when its whole group is asked), then kills."""
        say("longshore", "ending; containers go on running")
        for child in self.crew:
            if child.process is not None:
                os.kill(child.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while any(child.process for child in self.crew) and time.monotonic() < deadline and self.asked < 2:
            self._pump(0.05)
            self._reap()
        for child in self.crew:
            if child.process is not None:
                _kill_group(child.process.pid)
        deadline = time.monotonic() + 2
        while any(child.process for child in self.crew) and time.monotonic() < deadline:
            self._pump(0.02)
            self._reap()


class Ready:
    """Watches for the moment everything answers, and says so once, with the address."""

    def __init__(
        self, host: str, port: str, version: str, password_file: Path | None, *, secure: bool = False, public: str = ""
    ) -> None:
        """``public`` is the address that people use, where it is another one."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        self.url = f"{'https' if secure else 'http'}://{shown}:{port}"
        self.public = public or self.url
        # It asks itself, by an address that its certificate need not name.
        self.context = ssl._create_unverified_context() if secure else None  # noqa: S323
        self.version = version
        self.password_file = password_file
        self.pending = True
        self.since = time.monotonic()

    def look(self) -> None:
        if self.pending and (self._health() == "ok" or (self._late() and self._health())):
            self.pending = False
            say("longshore", self._sentence())

    def _late(self) -> bool:
        return time.monotonic() - self.since > _READY_ANYWAY

    def _health(self) -> str:
        """A file store that is down is no reason to wait: the portal works without it."""
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=1, context=self.context) as answer:  # noqa: S310
                told = json.load(answer)
                processes = told["database"] and None not in told["secondsSinceSeen"].values()
                return "ok" if processes and told["store"] is False else str(told["status"])
        except (URLError, OSError, ValueError, KeyError):
            return ""

    def _sentence(self) -> str:
        who = ""
        if self.password_file is not None:
            password = self.password_file.read_text().strip()
            who = f"  sign in as admin with password {password} (kept in {self.password_file})"
        return f"Longshore {self.version} is ready: {self.public}{who}"


def say(name: str, line: str) -> None:
    """One prefixed line; a terminal that has gone away stops nothing."""
    label = f"{name:<11} |"
    if sys.stdout.isatty():
        label = f"\x1b[{_COLOURS.get(name, 0)}m{label}\x1b[0m"
    with contextlib.suppress(OSError):
        print(label, line, flush=True)  # noqa: T201


def _how(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="portal.supervisor", description=__doc__)
    for name in ("--host", "--port", "--version", "--password-file", "--tls-cert", "--tls-key", "--apps", "--public"):
        parser.add_argument(name)
    parser.add_argument("--lock", type=int)
    parser.add_argument("--web-processes", type=int, default=1)
    options = parser.parse_args()
    os.set_inheritable(options.lock, False)  # ours alone: a child must not keep it
    password_file = Path(options.password_file) if options.password_file else None
    tls = (options.tls_cert, options.tls_key) if options.tls_cert else None
    ready = Ready(
        options.host,
        options.port,
        options.version,
        password_file,
        secure=tls is not None,
        public=options.public or "",
    )
    apps = tuple(options.apps.rsplit(":", 1)) if options.apps else None
    Supervisor(children(options.host, options.port, tls, options.web_processes, apps), ready).run()


if __name__ == "__main__":
    main()
