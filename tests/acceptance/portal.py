"""A whole portal for tests: ``manage.py up`` in a folder of its own, spoken to as any user does, over HTTP."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import psycopg

from clusters.engines.runtime import LABEL_INSTANCE, LABEL_JOB
from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import USER
from tests.helpers import LIMIT, in_gate, patience, until

ROOT = Path(__file__).resolve().parents[2]
# The command lines that processes show (portal/supervisor.py), by what they are.
WHO = {
    "web": "longshore web ",
    "web pages": "longshore web-pages",
    "scheduler": "longshore scheduler",
    "workers": "longshore workers",
    "sampler": "longshore sampler",
    "first start": "longshore first-start",
}
SECRET = "a long secret"  # mira's password
ENDS = ("SUCCEEDED", "FAILED", "STOPPED")
Json = dict[str, Any]
_AS_USERS_HAVE_IT = str(Path(__file__).with_name("as_users_have_it"))
_PREPARE = """
import django; django.setup()
from django.core.management import call_command
from portal.shared.look import static_files
call_command("migrate", interactive=False, verbosity=0)
static_files.collect()
"""


class Portal:
    """Its processes are those with its folder in their environment: all of them, whoever is their parent."""

    def __init__(self, home: Path, docker_host: str, address: str = "127.0.0.1", **settings: str) -> None:
        self.home = home
        self.settings = {"LONGSHORE_HOME": str(home), "DOCKER_HOST": docker_host, **_own_database(), **settings}
        self.address = address
        self.settings.setdefault("LONGSHORE_APPS_BIND", "none")  # its process takes time that few tests need
        self.output = home / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(timeout=LIMIT)
        self._take_port()

    # --- processes ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when it is ready and this client has a token."""
        first = self.process is None
        self._prepare()
        said = self._launched()
        while first and "Address already in use" in said:  # somebody else took the port since it was seen free
            self._take_port()
            said = self._launched()
        assert "is ready: http" in said, self.text()
        password = (self.home / "secrets" / "admin-password").read_text().strip()
        answer = self.http.post("/token", json={"username": "admin", "password": password})
        self.http.headers["Authorization"] = f"Bearer {answer.json()['token']}"

    def move(self, home: Path, **settings: str) -> None:
        """Its next processes have another folder, and other settings."""
        home.mkdir(mode=0o700, exist_ok=True)
        self.home, self.output = home, home / "output.txt"
        self.settings |= {"LONGSHORE_HOME": str(home), **settings}

    def _take_port(self) -> None:
        self.settings["LONGSHORE_BIND"] = f"{self.address}:{free_port()}"
        if self.settings["LONGSHORE_APPS_BIND"] != "none":
            self.settings["LONGSHORE_APPS_BIND"] = f"{self.address}:{free_port()}"
        self.url = f"http://{self.settings['LONGSHORE_BIND']}"
        self.http.base_url = f"{self.url}/api/v1"

    def _launched(self) -> str:
        """What it printed until it was ready or had ended."""
        told = len(self.text())
        with self.output.open("ab") as output:
            process = self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "up"],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environment(),
                start_new_session=True,
            )
        until(lambda: "is ready: http" in self.text()[told:] or process.poll() is not None, 60, what="the portal is up")
        return self.text()[told:]

    def _prepare(self) -> None:
        """A first start finds empty tables and the static files: to make them takes longer than all the rest of it, and
        is tested by test_up.py."""
        if not (database := self.home / "longshore.sqlite3").exists() and "DATABASE_URL" not in self.settings:
            shutil.copy2(prepared() / database.name, database)
            shutil.copytree(prepared() / "static", self.home / "static", dirs_exist_ok=True)

    def environment(self) -> dict[str, str]:
        return environment(self.settings)

    def terminate(self) -> None:
        """Ends it as Ctrl-C does. Nothing may be left."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT)
        assert self.processes() == {}

    def kill(self) -> None:
        """SIGKILL of ``up`` alone. The others must go by themselves."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(LIMIT)
        until(lambda: not self.processes(), what="no orphan after the kill")

    def close(self) -> None:
        """Whatever state it is in, nothing of it runs afterwards."""
        self.http.close()
        until(self._killed, 20, 0.05, what="the end of all its processes")
        sockets = uuid.uuid5(uuid.NAMESPACE_URL, str(self.home / "run" / "wake")).hex[
            :12
        ]  # of a long path: see base.wakes.wake
        shutil.rmtree(Path(tempfile.gettempdir(), f"longshore-{os.getuid()}-{sockets}"), ignore_errors=True)

    def _killed(self) -> bool:
        """Kills what runs. What it had begun meanwhile, and what takes a moment to die, is for the next call."""
        for pid in (left := self.processes()):
            _kill(pid)
        if self.process is not None:
            self.process.poll()
        return not left

    def processes(self) -> dict[int, str]:
        return processes_of(self.home)

    def running(self, who: str) -> list[int]:
        """``web``, ``scheduler`` or ``workers``: the first process and its children."""
        return sorted(pid for pid, line in self.processes().items() if WHO[who] in line)

    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    # --- the client --------------------------------------------------------------------------------------------------

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def submit(self, config: Json | str) -> str:
        """The job's name, once it is accepted."""
        content = config if isinstance(config, str) else json.dumps(config)
        answer = self.http.post("/jobs", content=content.encode(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["name"])

    def job(self, name: str) -> Json:
        found: Json = self.get(f"/user/admin/jobs/{name}")
        return found

    def state(self, name: str) -> str:
        return str(self.job(name)["jobStatus"]["state"])

    def wait_state(self, name: str, states: str | Iterable[str] = ENDS, timeout: float = 40) -> Json:
        """The job's ``jobStatus`` once it is in one of the states."""
        wanted = {states} if isinstance(states, str) else set(states)
        until(lambda: self.state(name) in wanted, timeout, 0.1, what=f"{name} is {'/'.join(sorted(wanted))}")
        found: Json = self.job(name)["jobStatus"]
        return found

    def wait_running(self, name: str, role: str = "main", index: int = 0, timeout: float = 40) -> Json:
        """The task's status once its container was seen running."""
        return until(lambda: self._in_task_state(name, role, index, "RUNNING"), timeout, 0.1, f"{name} runs")

    def task(self, name: str, role: str = "main", index: int = 0, attempt: int | None = None) -> Json:
        path = f"/user/admin/jobs/{name}" + (f"/attempts/{attempt}" if attempt else "")
        found: Json = self.get(path)["taskRoles"][role]["taskStatuses"][index]
        return found

    def _in_task_state(self, name: str, role: str, index: int, state: str) -> Json:
        found = self.job(name)
        assert found["jobStatus"]["state"] not in ENDS or state in ENDS, found["jobStatus"]
        tasks = found["taskRoles"].get(role, {}).get("taskStatuses", [])
        return tasks[index] if tasks and tasks[index]["taskState"] == state else {}

    def attempts(self, name: str) -> list[Json]:
        """Newest first."""
        found: list[Json] = self.get(f"/user/admin/jobs/{name}/attempts")
        return found

    def events(self, name: str) -> list[Json]:
        found: list[Json] = self.get(f"/user/admin/jobs/{name}/events", limit=1000)["events"]
        return found

    def log(self, name: str, role: str = "main", index: int = 0, stream: str = "stdout", **params: Any) -> str:
        """What was written so far. ``attempt=1`` for another than the newest. An engine without room for a moment is
        asked again."""
        path = f"/user/admin/jobs/{name}/taskRoles/{role}/{index}/logs/{stream}"

        def answered() -> list[httpx.Response]:
            answer = self.http.get(path, params=params)
            return [] if answer.status_code == 503 else [answer]

        (answer,) = until(answered, 30, what="the log can be read")
        assert answer.status_code == 200, answer.text
        return answer.text

    def stop(self, name: str) -> None:
        answer = self.http.put(f"/user/admin/jobs/{name}/executionType", json={"value": "STOP"})
        assert answer.status_code == 202, answer.text

    def stop_all(self) -> None:
        for job in self.get("/jobs", username="admin"):
            if job["state"] not in ENDS:
                self.stop(job["name"])

    def write(self, path: str, content: bytes) -> None:
        """A file of the store."""
        address = f"{self.url}/webhdfs/v1{path}?op=CREATE&overwrite=true&data=true"
        answer = self.http.put(address, content=content)
        assert answer.status_code == 201, answer.text

    def read(self, path: str) -> bytes:
        answer = self.http.get(f"{self.url}/webhdfs/v1{path}?op=OPEN", follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return answer.content

    def delete(self, name: str) -> None:
        answer = self.http.delete(f"/user/admin/jobs/{name}")
        assert answer.status_code in (200, 202), answer.text

    def node(self, name: str) -> Json:
        found: Json = self.get(f"/nodes/{name}")
        return found

    def change_node(self, name: str, **values: Any) -> None:
        answer = self.http.put(f"/nodes/{name}", json=values)
        assert answer.status_code == 200, answer.text

    def add_node(self, node: BedNode, way: str = "unix", **more: Any) -> Json:
        """Registers a host, reached by ``unix``, ``tls`` or ``ssh``."""
        body = {"name": node.name, "endpoint": getattr(node, way), "address": node.address, **more}
        if way == "tls":
            body["tls"] = {key: (node.tls_dir / f"{key}.pem").read_text() for key in ("ca", "cert", "key")}
        return register(self.http, body)

    def wait_ready(self) -> None:
        """All nodes."""
        until(lambda: {node["health"] for node in self.get("/nodes")} == {"ready"}, 60, 0.1, "all nodes are ready")

    @property
    def instance(self) -> str:
        """What its containers are labelled with; see portal.settings.INSTANCE."""
        key = self.home / "secrets" / "django.key"
        return hashlib.sha256(f"longshore instance {key.read_text()}".encode()).hexdigest()[:12] if key.exists() else ""

    # --- behind its back ---------------------------------------------------------------------------------------------

    def rows(self, query: str) -> list[Any]:
        """Read straight from its database: what no route shows."""
        if address := self.settings.get("LONGSHORE_DATABASE_DIRECT") or self.settings.get("DATABASE_URL"):
            folder, _, name = address.partition("@/")[2].rpartition("/")  # as of tests.bed.postgres_bed
            with psycopg.connect(host=folder, user=USER, dbname=name, connect_timeout=int(LIMIT)) as database:
                return database.execute(query.replace("`", '"')).fetchall()
        with closing(
            sqlite3.connect(f"file:{self.home}/longshore.sqlite3?mode=ro", uri=True, timeout=LIMIT)
        ) as database:
            return database.execute(query).fetchall()

    def wait_clean(self, *nodes: BedNode, timeout: float = 40) -> None:
        """Nothing taken, nothing left to collect, no container on the engines."""
        until(lambda: self.rows("SELECT count(*) FROM clusters_allocation") == [(0,)], timeout, 0.1, "no allocation")
        for node in nodes:
            until(lambda node=node: not containers(node, self), timeout, 0.2, f"no container on {node.name}")  # type: ignore[misc]


@contextmanager
def portal_on(home: Path, node: BedNode, **settings: str) -> Iterator[Portal]:
    """A portal whose node ``local`` is this bed node, reached by its own address, with room for eight tasks."""
    with _started(Portal(home, node.unix, **settings), node) as portal:
        until(lambda: "longshore/sample:1 was made" in portal.text() or _has_sample(portal, node), 30, what="image")
        until(lambda: portal.http.get("/nodes/local").status_code == 200, 30, what="the node is registered")
        portal.change_node("local", address=node.address, cpuNumber=8, fixedPorts=[[1024, 65_535]])
        until(lambda: portal.node("local")["health"] == "ready", 20, what="the node is ready")
        yield portal


@contextmanager
def portal_beside(*hosts: BedNode, home: Path, address: str = "127.0.0.1", **settings: str) -> Iterator[Portal]:
    """A portal without a node. Its test registers these hosts, and what it has left there is removed at the end."""
    with _started(Portal(home, f"unix://{home}/no-engine-here", address, **settings), *hosts) as portal:
        yield portal


@contextmanager
def portal_of_files(home: Path, **settings: str) -> Iterator[Portal]:
    """A portal without an engine, for its files: it believes names that come from this machine, and knows mira."""
    trust = {"LONGSHORE_WEBHDFS_TRUST": "127.0.0.1"}
    with _started(Portal(home, f"unix://{home}/no-engine-here", **trust, **settings)) as portal:
        mira = {"username": "mira", "password": SECRET, "admin": False, "modify": False}
        assert portal.http.put("/user", json=mira).status_code == 201
        yield portal


@contextmanager
def _started(portal: Portal, *hosts: BedNode) -> Iterator[Portal]:
    try:
        portal.start()
        yield portal
    except BaseException:
        print(portal.text()[-8000:])
        raise
    finally:
        portal.close()
        for host in hosts:
            remove_containers(host, portal)


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Of a portal's processes: nothing that concerns this one."""
    foreign = ("LONGSHORE_", "DJANGO_", "DATABASE_URL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PYTHONPATH": _AS_USERS_HAVE_IT, **settings}


def _own_database() -> dict[str, str]:
    """With DATABASE_URL=postgres, as other tests run on PostgreSQL, each portal has a database of its own there."""
    server, _, first = os.environ.get("DATABASE_URL", "").rpartition("/")
    if not server.startswith("postgres://"):
        return {}
    name = f"portal_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(host=server.partition("@/")[2], user=USER, dbname=first, autocommit=True) as database:
        database.execute(f"CREATE DATABASE {name}")
    return {"DATABASE_URL": f"{server}/{name}"}


@cache
def prepared() -> Path:
    """A folder with the database and the static files of a portal that was never used; it lives as long as this
    process."""
    home = tempfile.mkdtemp(prefix="longshore-prepared-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    settings = environment({"LONGSHORE_HOME": home, "DJANGO_SETTINGS_MODULE": "portal.settings"})
    subprocess.run([sys.executable, "-c", _PREPARE], cwd=ROOT, env=settings, check=True)
    return Path(home)


def register(http: httpx.Client, body: Json) -> Json:
    """POST /nodes, again while the engine is too busy to answer within the seconds that the portal gives it."""

    def answered() -> list[httpx.Response]:
        answer = http.post("/nodes", json=body)
        is_late = answer.status_code == 400 and "does not answer within" in answer.text
        return [] if is_late else [answer]

    (answer,) = until(answered, every=1, what=f"{body['name']} answers in time")
    assert answer.status_code == 201, answer.text
    made: Json = answer.json()
    return made


def was_quick(took: float, seconds: float, what: str) -> None:
    """As tests.helpers.quick, of a duration that somebody has written down."""
    if took > seconds * patience():
        said = f"{what}: {took:.2f} s instead of {seconds} s"
        assert in_gate(), said
        print(said)


def containers(node: BedNode, portal: Portal) -> list[str]:
    """Names of the portal's containers on the node, in whatever state."""
    ours = f"label={LABEL_INSTANCE}={portal.instance}"
    return docker(node, "ps", "-a", "--format", "{{.Names}}", "--filter", ours).split()


def inspect(node: BedNode, name: str) -> Json:
    found: Json = json.loads(docker(node, "inspect", name))[0]
    return found


def container_of(node: BedNode, job: str) -> str:
    """The name of the one container of this job."""
    (name,) = docker(node, "ps", "-a", "--format", "{{.Names}}", "--filter", f"label={LABEL_JOB}=admin~{job}").split()
    return name


def docker(node: BedNode, *arguments: str) -> str:
    done = subprocess.run(["docker", "-H", node.unix, *arguments], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def remove_containers(node: BedNode, portal: Portal) -> None:
    """Also those of trials (clusters/nodes/trial.py), which a killed portal leaves."""
    trials = f"name=^longshore-{portal.instance}-trial-"
    if names := [*containers(node, portal), *docker(node, "ps", "-aq", "--filter", trials).split()]:
        docker(node, "rm", "-fv", *names)


def config(name: str, command: str = "true", **more: Any) -> Json:
    """A job of one task; ``memoryMB``, ``cpuNumber`` and the like of its role go to the role, the rest to the job."""
    of_role = ("taskNumber", "memoryMB", "cpuNumber", "gpuNumber", "shmMB", "portList", "minSucceededTaskCount")
    role = {"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": command}
    role |= {key: more.pop(key) for key in of_role if key in more}
    return {"jobName": name, "image": "longshore/sample:1", "taskRoles": [role], **more}


def free_port() -> int:
    """None of those that the kernel gives to clients: one of them may have it before whoever listens on it has
    started."""
    while True:
        port = random.randrange(10_000, 29_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def processes_of(home: Path) -> dict[int, str]:
    """The command lines of a portal's processes by process id, zombies left out."""
    mark = f"LONGSHORE_HOME={home}\0".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except (OSError, UnicodeDecodeError):
            continue
    return {pid: line for pid, line in found.items() if line}


def _has_sample(portal: Portal, node: BedNode) -> bool:
    return "longshore/sample" in docker(node, "images", "--format", "{{.Repository}}")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
