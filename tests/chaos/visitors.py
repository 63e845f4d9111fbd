"""People who use the portal while a trial runs: by API, by pages without a browser, and in Chromium."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from playwright.sync_api import Error, sync_playwright

from tests.acceptance.portal import ENDS, WHO, Portal, config
from tests.helpers import LIMIT, chromium

PASSWORD = "a soak takes two hours"
PAUSE = (0.5, 6.0)  # seconds between two requests of one person
KEPT = 20  # jobs that a person leaves behind before deleting the oldest
PAGES = ("/", "/jobs", "/jobs?state=waiting", "/jobs?state=failed", "/wall", "/nodes", "/vcs", "/submit", "/files")
ROUTES = ("/jobs", "/jobs?limit=20", "/virtual-clusters", "/nodes", "/usage?by=user", "/cluster/timeline")
ABOUT_A_JOB = ("", "/events", "/attempts", "/config", "/ssh", "/logs", "/why")
# What a portal may answer while its processes, its database or its store are being broken, and 409 of jobs
# that ended before they were stopped.
GRANTED = (200, 201, 202, 204, 304, 302, 409, 429, 502, 503)

PEOPLE = "connections of people"
PROCESSES = (WHO["web"], WHO["scheduler"], WHO["workers"], WHO["sampler"], "manage.py up")


class Visitors:
    """``people`` work over HTTP, ``browsers`` look at pages in Chromium. Each has an account."""

    def __init__(self, portal: Portal, people: int, browsers: int, seed: int) -> None:
        self.portal = portal
        self.asked: Counter[int] = Counter()
        self.wrong: list[str] = []
        self._over = threading.Event()
        names = [f"person-{number}" for number in range(people + browsers)]
        for name in names:
            about = {"username": name, "password": PASSWORD, "admin": False, "modify": False}
            assert portal.http.put("/user", json=about).status_code == 201, name
        self._threads = [
            threading.Thread(target=self._person, args=(name, random.Random(f"{seed} {name}")), daemon=True)
            for name in names[:people]
        ]
        self._threads += [
            threading.Thread(target=self._browser, args=(name, random.Random(f"{seed} {name}")), daemon=True)
            for name in names[people:]
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Nobody asks any more; every job of theirs was told to stop."""
        self._over.set()
        for thread in self._threads:
            thread.join(LIMIT)
        for job in self.portal.get("/jobs"):
            if job["username"] != "admin" and job["state"] not in ENDS:
                path = f"/user/{job['username']}/jobs/{job['name']}/executionType"
                self.portal.http.put(path, json={"value": "STOP"})

    # --- over HTTP ---------------------------------------------------------------------------------------------------

    def _person(self, name: str, dice: random.Random) -> None:
        mine: list[str] = []
        with httpx.Client(base_url=self.portal.url, timeout=60, follow_redirects=True) as http:
            while not self._over.wait(dice.uniform(*PAUSE)):
                with suppress(httpx.TransportError):  # its web process was killed
                    if "Authorization" not in http.headers and not self._signed_in(http, name):
                        continue
                    self._ask(http, name, mine, dice)

    def _signed_in(self, http: httpx.Client, name: str) -> bool:
        answer = http.post("/api/v1/token", json={"username": name, "password": PASSWORD})
        self._note(answer)
        if answer.status_code == 200:
            http.headers["Authorization"] = f"Bearer {answer.json()['token']}"
        return answer.status_code == 200

    def _ask(self, http: httpx.Client, name: str, mine: list[str], dice: random.Random) -> None:
        what = dice.random()
        if what < 0.1 or not mine:
            job = f"{name}-{dice.randrange(10**9)}"
            command = dice.choice(["true", "sleep 5; echo done", "seq 2000", "exit 3", "sleep 60"])
            tasks = dice.choice([1, 1, 1, 2, 4])
            if self._note(http.post("/api/v1/jobs", json=config(job, command, taskNumber=tasks))) == 201:
                mine.append(job)
        elif what < 0.15:
            job = dice.choice(mine)
            self._note(http.put(f"/api/v1/user/{name}/jobs/{job}/executionType", json={"value": "STOP"}))
        elif len(mine) > KEPT:
            self._note(http.delete(f"/api/v1/user/{name}/jobs/{mine.pop(0)}"))
        elif what < 0.3:
            self._follow(http, "/stream/page?page=jobs", dice)
        elif what < 0.6:
            self._note(http.get(f"/api/v1{dice.choice(ROUTES)}"))
        elif what < 0.8:
            self._note(http.get(f"/jobs/{name}/{dice.choice(mine)}{dice.choice(ABOUT_A_JOB)}"))
        else:
            self._note(http.get(dice.choice(PAGES)))

    def _follow(self, http: httpx.Client, path: str, dice: random.Random) -> None:
        """An event stream for some seconds, broken off without a word."""
        until = time.monotonic() + dice.uniform(1, 10)
        with suppress(httpx.ReadTimeout), http.stream("GET", path, timeout=10) as answer:
            self._note(answer)
            for _ in answer.iter_raw():
                if time.monotonic() > until or self._over.is_set():
                    return

    def _note(self, answer: httpx.Response) -> int:
        self.asked[answer.status_code] += 1
        if answer.status_code == 401:  # the account's token ended, or the database was away while it was looked up
            answer.request.headers.pop("Authorization", None)
        elif answer.status_code not in GRANTED:
            self.wrong.append(f"{answer.request.method} {answer.request.url.path} answered {answer.status_code}")
        return answer.status_code

    # --- in Chromium -------------------------------------------------------------------------------------------------

    def _browser(self, name: str, dice: random.Random) -> None:
        with sync_playwright() as playwright:
            started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
            try:
                page = started.new_page()
                page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
                while not self._over.wait(dice.uniform(2, 10)):
                    with suppress(Error):  # a page that its web process did not give
                        page.goto(f"{self.portal.url}{dice.choice(PAGES)}", timeout=60_000)
                        if "/login" in page.url or page.locator("a[href^='/login']").count():
                            page.goto(f"{self.portal.url}/login", timeout=60_000)
                            page.fill("input[name=username]", name)
                            page.fill("input[name=password]", PASSWORD)
                            page.keyboard.press("Enter")
                            page.wait_for_load_state(timeout=60_000)
                        elif (links := page.locator("main a[href^='/jobs/']")).count():
                            links.nth(dice.randrange(links.count())).click(timeout=5_000)
            finally:
                started.close()


@dataclass
class Footprint:
    """Of all processes of one kind: proportional set size in MB, and open descriptors by what they are open on."""

    memory: float = 0
    files: Counter[str] = field(default_factory=Counter)

    @property
    def own(self) -> int:
        """Descriptors that the portal opened itself: how many connections there are is for the people to say."""
        return self.files.total() - self.files[PEOPLE]


def footprint(portal: Portal) -> dict[str, Footprint]:
    """By kind of process."""
    found: dict[str, Footprint] = {}
    for pid, line in portal.processes().items():
        kind = next((word for word in PROCESSES if word in line), None)
        with suppress(OSError):
            if kind is not None:
                memory, files = _pss(pid), _descriptors(pid, httpx.URL(portal.url).port or 80)
                one = found.setdefault(kind, Footprint())
                one.memory += memory
                one.files += files
    return found


def _pss(pid: int) -> float:
    with open(f"/proc/{pid}/smaps_rollup") as told:
        return next(int(line.split()[1]) / 1024 for line in told if line.startswith("Pss:"))


def _descriptors(pid: int, port: int) -> Counter[str]:
    sockets, found = _sockets(pid, port), Counter[str]()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            found[sockets.get(target, target.partition("/")[0] or os.path.dirname(target).rstrip("0123456789"))] += 1
    return found


def _sockets(pid: int, port: int) -> dict[str, str]:
    """What each connection is for, by the target of its descriptor. ``port``: the portal's own."""
    found = {}
    for row in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, here, there, _, _, _, _, _, _, inode, *_ = row.split()
        ports = [int(address.rpartition(":")[2], 16) for address in (here, there)]
        found[f"socket:[{inode}]"] = PEOPLE if port in ports else f"a connection to port {ports[1]}"
    for row in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        _, _, _, _, _, _, inode, *path = row.split()
        found[f"socket:[{inode}]"] = f"a unix socket {' '.join(path)}".rstrip()
    return found
