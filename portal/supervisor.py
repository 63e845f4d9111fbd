"""Starts web, web pages of tasks, scheduler, workers and sampler, starts them again when they end, and ends all when it
is told to end.

One thread, one loop over the pipes of the children. They are forked from this process, which has loaded the program
for all of them (``preload``), and never speaks to the database itself: so a child is there at once, and they share the
memory of what is loaded. Each child leads its own session, so that Ctrl-C reaches only us and whatever a child leaves
behind can be killed as a group. Should we be killed ourselves, the kernel kills the children (base.core.linux).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import ssl
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from urllib.error import URLError

from base.core import linux

_ROOT = Path(__file__).resolve().parent.parent
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds before a child is started again, doubled each time
_HEALTHY = 60.0  # seconds a child must live for its next wait to be short again
_GRACE = 7.0  # seconds between asking to end and killing
_SILENT = 20.0  # seconds without a word after which a process does not count as started, and is named
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PAGES = "portal.web_pages.serving.asgi:application"
_LARGEST_MESSAGE = 2 << 20  # bytes of one that a WebSocket of the portal may send
# Of a page's, which is more than Jupyter takes. A visitor may have so many open (portal/web_pages/serving/visitors.py).
_LARGEST_OF_PAGES = 16 << 20
# Most of what the children run.
_PROGRAM = (
    *("portal.urls", "base.serving.connection", "uvicorn.supervisors", "uvicorn.lifespan.on", "uvicorn.loops.uvloop"),
    *("portal.web_pages.serving.application", "jobs.scheduling.loop", "jobs.containers.tasks", "jobs.metrics.sampler"),
    *("portal.management.commands.qcluster", "portal.management.commands.firststart"),
)
_COLOURS = {
    **{"web": 36, "web pages": 31, "scheduler": 35, "workers": 33, "sampler": 34},
    **{"first start": 32, "longshore": 1},
}


@dataclass
class Child:
    """``argv`` is the command by which it may be started alone."""

    name: str
    argv: list[str]
    once: bool = False
    pid: int = 0  # while it runs
    output: int = -1  # where its lines come from
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
    web = _server("portal.asgi:application", host, port, tls, _LARGEST_MESSAGE)
    if web_processes > 1:
        web += ["--processes", str(web_processes)]
    pages = [Child("web pages", _server(_PAGES, *apps, tls, _LARGEST_OF_PAGES))] if apps else []
    return [
        Child("web", web),
        *pages,
        Child("scheduler", [*manage, "runscheduler"]),
        Child("workers", [*manage, "qcluster"]),
        Child("sampler", [*manage, "runsampler"]),
        Child("first start", [*manage, "firststart"], once=True),
    ]


def _server(application: str, host: str, port: str, tls: tuple[str, str] | None, largest: int) -> list[str]:
    command = [sys.executable, "-m", "base.serving.server", application, "--host", host, "--port", port]
    command += ["--largest-message", str(largest)]
    return [*command, "--certificate", tls[0], "--key", tls[1]] if tls else command


def preload() -> None:
    """Load the program, once for all children. Nothing of it may start a thread or open a connection: neither survives
    a fork."""
    for name in _PROGRAM:
        import_module(name)


def preload_web() -> None:
    """Load what looks at the static files, when they are there. As ``preload``."""
    import_module("portal.asgi")
    gc.collect()
    gc.freeze()  # a child that looks through all of it would need memory of its own for it


def run_child(child: Child) -> None:
    """Run the child in this process, as its command would."""
    sys.argv = child.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


class Supervisor:
    """``lock`` is an open file that no child may keep."""

    def __init__(self, crew: list[Child], ready: ReadinessWatch, lock: int) -> None:
        self.crew = crew
        self.ready = ready
        self.selector = selectors.DefaultSelector()
        self.asked = 0  # how often we were told to end
        self._own = [lock]

    def run(self) -> Child | None:
        """Return None when all have ended, as they were told to. It returns in each child as well, with that child:
        the caller runs it then."""
        linux.adopt_orphans()
        self._listen_for_signals()
        while not self.asked:
            if (child := self._start_what_is_due()) is not None:
                return child
            self._pump(self._pause())
            self._reap()
            self.ready.look()
        self._end()
        return None

    def _listen_for_signals(self) -> None:
        reading, writing = os.pipe()
        self._own += [reading, writing]
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self.selector.register(reading, selectors.EVENT_READ, None)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _ENDING:
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.asked += 1

    def _start_what_is_due(self) -> Child | None:
        """Return None, but in a child that child."""
        for child in self.crew:
            if not child.pid and not child.ended and time.monotonic() >= child.due and self._forked(child):
                return child
        return None

    def _forked(self, child: Child) -> bool:
        """Return whether this process is the child."""
        child.started, supervisor = time.monotonic(), os.getpid()
        child.output, writing = os.pipe()
        # Until the child has its own answers to signals, it would take one as if it were told to the supervisor.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        child.pid = os.fork()
        if child.pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(writing)
            os.set_blocking(child.output, False)
            self.selector.register(child.output, selectors.EVENT_READ, child)
            return False
        linux.die_with_parent()
        if os.getppid() != supervisor:  # it was killed before that
            os._exit(1)
        os.setsid()
        signal.set_wakeup_fd(-1)
        for which in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(which, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, writing, writing)):
            os.dup2(file, number)
        self.selector.close()
        for file in (nothing, writing, *self._own, *(each.output for each in self.crew if each.output >= 0)):
            os.close(file)
        os.environ["LONGSHORE_SUPERVISOR"] = str(supervisor)
        linux.show_as(f"longshore {child.name.replace(' ', '-')}")
        return True

    def _pause(self) -> float:
        waiting = [child.due - time.monotonic() for child in self.crew if not child.pid and not child.ended]
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
        with contextlib.suppress(KeyError):
            self.selector.unregister(child.output)

    def _reap(self) -> None:
        """Waits for whoever has ended: a child, or a process it left behind and we adopted."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            child = next((each for each in self.crew if each.pid == ended.si_pid), None)
            if child is not None:
                _kill_group(ended.si_pid)  # before the wait: until then the number cannot belong to anybody else
            _, status = os.waitpid(ended.si_pid, 0)
            if child is not None:
                self._note_end(child, os.waitstatus_to_exitcode(status))

    def _note_end(self, child: Child, code: int) -> None:
        while self._read(child, child.output):
            pass  # its last words
        self._forget(child)
        os.close(child.output)
        child.pid, child.output = 0, -1
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
            if child.pid:
                os.kill(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while any(child.pid for child in self.crew) and time.monotonic() < deadline and self.asked < 2:
            self._pump(0.05)
            self._reap()
        for child in self.crew:
            if child.pid:
                _kill_group(child.pid)
        deadline = time.monotonic() + 2
        while any(child.pid for child in self.crew) and time.monotonic() < deadline:
            self._pump(0.02)
            self._reap()


class ReadinessWatch:
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
        self.warned = False
        self.since = time.monotonic()

    def look(self) -> None:
        if not self.pending or (missing := self._missing()) is None:
            return
        if not missing:
            self.pending = False
            say("longshore", self._sentence())
        elif not self.warned and time.monotonic() - self.since > _SILENT:
            self.warned = True
            say("longshore", f"{self.public} answers and is not ready: it has not heard of {', '.join(missing)}")

    def _missing(self) -> list[str] | None:
        """What has not been heard of yet; None while nothing answers. A file store that is down is no reason to wait:
        the portal works without it."""
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=1, context=self.context) as answer:  # noqa: S310
                ages = json.load(answer)["secondsSinceSeen"]
                return sorted(name for name, age in ages.items() if age is None or age > _SILENT)
        except (URLError, OSError, ValueError, KeyError, AttributeError):
            return None

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
