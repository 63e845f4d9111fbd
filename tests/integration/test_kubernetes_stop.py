"""A task on Kubernetes is stopped by a program that runs in its own container, which is the user's to change."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientTimeout, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clusters.engines.kubernetes import connect, execs, runtime
from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.kubernetes.runtime import KubernetesRuntime
from clusters.engines.runtime import HAS_SAVED, LABEL_TASK, RuntimeFault
from tests.helpers import LIMIT

ENDPOINT = "kubernetes://lab/jobs"
Program = Callable[["Api", web.WebSocketResponse], Any]


class Api:
    """The API of a cluster with one pod, as far as a stop asks it. ``program`` is what /bin/sh of the pod does."""

    def __init__(self, program: Program) -> None:
        self.program, self.phase, self.deleted = program, "running", 0
        self.labels = {LABEL_TASK: "7"}
        self.commands: list[str] = []

    def pod(self) -> dict[str, Any]:
        state = {"running": {"startedAt": "2026-11-20T10:00:00Z"}}
        if self.phase == "ended":
            state = {"terminated": {"exitCode": 143}}  # type: ignore[dict-item]
        statuses = [{"name": "main", "state": state}]
        meta = {"name": "p", "uid": "u1", "labels": self.labels}
        return {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"containerStatuses": statuses}}

    async def get(self, _: web.Request) -> web.Response:
        return web.json_response(
            self.pod() if not self.deleted else {"message": "gone"}, status=404 if self.deleted else 200
        )

    async def delete(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["gracePeriodSeconds"] >= 1  # nothing is deleted by force
        assert asked["preconditions"] == {"uid": "u1"}  # nor another pod that has got its name meanwhile
        self.deleted += 1
        return web.json_response({"kind": "Status"})

    async def exec(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=(execs.PROTOCOL,))
        await socket.prepare(request)
        self.commands.append(request.query.getall("command")[-1])
        await self.program(self, socket)
        await socket.close()
        return socket


async def ends_the_task(api: Api, socket: web.WebSocketResponse) -> None:
    api.phase = "ended"
    await socket.send_bytes(b"\x03" + json.dumps({"status": "Success"}).encode())


async def has_saved(api: Api, socket: web.WebSocketResponse) -> None:
    causes = [{"reason": "ExitCode", "message": str(HAS_SAVED)}]
    await socket.send_bytes(b"\x03" + json.dumps({"status": "Failure", "details": {"causes": causes}}).encode())


async def does_nothing(api: Api, socket: web.WebSocketResponse) -> None:
    await socket.send_bytes(b"\x03" + json.dumps({"status": "Success"}).encode())


async def never_ends(api: Api, socket: web.WebSocketResponse) -> None:
    await socket.receive()


async def writes_for_ever(api: Api, socket: web.WebSocketResponse) -> None:
    try:
        while not socket.closed:
            await socket.send_bytes(b"\x01" + b"y" * 65_536)
            await asyncio.sleep(0.001)  # else the loop never learns that the client has gone
    except ConnectionError:
        pass


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API is a thread of this process, and may be slow to connect and to answer."""
    for module, limit in ((connect, "CONNECT"), (execs, "_OPENING"), (runtime, "_ANSWER"), (runtime, "_SEEN")):
        monkeypatch.setattr(module, limit, LIMIT)
    endless = ClientTimeout(total=None)
    monkeypatch.setattr("aiohttp.ClientTimeout", lambda **_: endless)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[[Program], Api]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start(api: Api) -> web.AppRunner:
        app = web.Application()
        path = "/api/v1/namespaces/jobs/pods/p"
        app.add_routes([web.get(path, api.get), web.delete(path, api.delete), web.get(f"{path}/exec", api.exec)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=_tls(tmp_path)).start()
        return runner

    runners: list[web.AppRunner] = []

    def serve(program: Program) -> Api:
        api = Api(program)
        runners.append(asyncio.run_coroutine_threadsafe(start(api), loop).result(LIMIT))
        ca = base64.b64encode((tmp_path / "cert.pem").read_bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{runners[0].addresses[0][1]}", "certificate-authority-data": ca}
        named = {"contexts": ("context", {"cluster": "c", "user": "c"}), "clusters": ("cluster", cluster)}
        named["users"] = ("user", {"token": "t"})
        config = {many: [{"name": "c", one: value}] for many, (one, value) in named.items()}
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"current-context": "c", **config}))
        return api

    yield serve
    try:
        for runner in runners:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(LIMIT)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()


def _tls(folder: Path) -> ssl.SSLContext:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    pem = made.add_extension(here, critical=False).sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "cert.pem").write_bytes(pem)
    (folder / "key.pem").write_bytes(secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_a_task_that_is_told_and_ends_keeps_its_pod_with_its_exit_code(
    served: Callable[[Program], Api], tmp_path: Path
) -> None:
    api = served(ends_the_task)
    KubernetesRuntime(ENDPOINT, tmp_path, timeout=LIMIT).stop("p", 0)
    assert (api.phase, api.deleted) == ("ended", 0)


@pytest.mark.parametrize("program", [does_nothing, never_ends, writes_for_ever])
def test_a_task_that_has_changed_its_shell_is_stopped_all_the_same(
    program: Program, served: Callable[[Program], Api], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_ANSWER", "_SEEN", "_LOOK"):
        monkeypatch.setattr(runtime, limit, 0.05)
    api = served(program)
    KubernetesRuntime(ENDPOINT, tmp_path, timeout=LIMIT).stop("p", 0)
    assert api.deleted == 1


def test_a_pod_of_somebody_else_is_not_touched(served: Callable[[Program], Api], tmp_path: Path) -> None:
    api = served(ends_the_task)
    api.labels = {}
    engine = KubernetesRuntime(ENDPOINT, tmp_path, timeout=LIMIT)
    with pytest.raises(RuntimeFault):
        engine.stop("p", 0)
    with pytest.raises(RuntimeFault):
        engine.remove("p")
    assert (api.phase, api.deleted) == ("running", 0)


@pytest.mark.parametrize(("program", "saved"), [(has_saved, True), (does_nothing, False), (ends_the_task, False)])
def test_a_task_that_is_told_says_whether_it_has_saved(
    program: Program, saved: bool, served: Callable[[Program], Api], tmp_path: Path
) -> None:
    api = served(program)
    assert KubernetesRuntime(ENDPOINT, tmp_path, timeout=LIMIT).tell("p", "SIGUSR1", "{}") is saved
    [asked] = [each for each in api.commands if "kill" in each]
    assert asked.index("/pai/notice/told") < asked.index("kill -USR1 1; kill -USR1 -1") < asked.index("saved")


def test_a_task_that_has_ended_is_told_nothing(served: Callable[[Program], Api], tmp_path: Path) -> None:
    api = served(has_saved)
    api.phase = "ended"
    assert not KubernetesRuntime(ENDPOINT, tmp_path, timeout=LIMIT).tell("p", "SIGTERM", "{}")
    assert api.commands == []


@pytest.mark.parametrize("program", [never_ends, writes_for_ever])
def test_who_does_not_end_is_not_waited_for_when_it_is_told(
    program: Program, served: Callable[[Program], Api], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "TELLING", 0.05)
    served(program)
    assert not KubernetesRuntime(ENDPOINT, tmp_path, timeout=LIMIT).tell("p", "SIGTERM", "{}")


def test_what_a_program_writes_without_end_is_not_kept(served: Callable[[Program], Api], tmp_path: Path) -> None:
    served(writes_for_ever)
    code, said = execs.run(ClusterApi(ENDPOINT, tmp_path, timeout=LIMIT), "p", ["/bin/sh"], 20)
    assert code is None and len(said) < 2 * execs.MOST_SAID
