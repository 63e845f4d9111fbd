"""Every line of docs/run/security.md about the inside of a container, looked at from inside one on a real engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from clusters.engines.runtime import CAPABILITIES
from tests.acceptance.portal import ROOT, Json, Portal, config, container_of, docker, inspect, portal_beside
from tests.bed.docker_bed import Bed, BedNode
from tests.bed.ssh_image import PYTHON_IMAGE, ensure_python_image
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker
PROBE = Path(__file__).with_name("probe.py")
PAGE = ROOT / "docs" / "run" / "security.md"
PIDS = 150
PORT = 28222  # of something that listens on its host's 127.0.0.1 alone
PROBING = f"""
python3 - <<'PROBE'
{PROBE.read_text()}
PROBE
"""
COMMAND = f"until ssh main-0 true; do sleep 0.2; done\n{PROBING}\nsleep 600"
# Of Linux's include/uapi/linux/capability.h.
NUMBERS = {"CHOWN": 0, "DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6}
NUMBERS |= {"SETUID": 7, "SETPCAP": 8, "NET_BIND_SERVICE": 10, "NET_RAW": 13, "SYS_CHROOT": 18, "SYS_PTRACE": 19}
NUMBERS |= {"SYS_ADMIN": 21, "MKNOD": 27, "AUDIT_WRITE": 29, "SETFCAP": 31}
CHECKS: dict[str, Callable[[Json], None]] = {}


def lines_of_the_page() -> dict[str, str]:
    """The table under "Inside a container": what each line is about, and what it says."""
    part = PAGE.read_text().split("## Inside a container\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", part, re.M))


def says(line: str) -> Callable[[Callable[[Json], None]], Callable[[Json], None]]:
    """The check of that line of the page."""

    def add(check: Callable[[Json], None]) -> Callable[[Json], None]:
        CHECKS[line] = check
        return check

    return add


@pytest.fixture(scope="module")
def portal(bed: Bed, docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    node = docker_engine
    ensure_python_image(node)
    home = tmp_path_factory.mktemp("portal")
    # Where containers reach it too, which have the network of their own host.
    with portal_beside(node, home=home, address=f"{bed.network}.1", LONGSHORE_TASK_PIDS=str(PIDS)) as one:
        one.add_node(node, cpuNumber=4)
        one.wait_ready()
        yield one
        one.stop_all()
        one.wait_clean(node)


@pytest.fixture(scope="module")
def seen(portal: Portal, docker_engine: BedNode) -> Json:
    """What the probe found; what others find of it (``inspect``), and later on (``ended`` and what other jobs say)."""
    node, service = docker_engine, ("httpd", "-f", "-p", f"127.0.0.1:{PORT}")
    docker(node, "run", "-d", "--name", "service", "--network", "host", PYTHON_IMAGE, *service)
    portal.write("/user/admin/code/hello.txt", b"hello\n")
    portal.submit(job("inside", COMMAND, codeDir="/user/admin/code", jobEnvs={"NODE_PORT": str(PORT), "MINE": "mine"}))
    portal.wait_running("inside")
    found: Json = json.loads(until(lambda: _told(portal, "inside"), 120, 0.2, what="the probe has ended"))
    found["inspect"] = inspect(node, container_of(node, "inside"))
    found["stored"] = portal.read("/user/admin/code/hello.txt")
    portal.stop("inside")
    portal.wait_state("inside")
    token = found["secrets"]["webhdfs.token"][2]
    address = f"{portal.url}/webhdfs/v1/?op=LISTSTATUS&delegation={token}"
    found["ended"] = httpx.get(address, timeout=LIMIT).status_code
    portal.submit(job("debug", "cat /proc/self/status", jobEnvs={"isDebug": True}))
    found["debug"] = _log_at_the_end(portal, "debug")
    answer = portal.http.put("/virtual-clusters/mounts", json={"vcCapacity": 50, "profile": "pai"})
    assert answer.status_code == 201, answer.text
    hidden = {"HANDLE": _handle_of(docker_engine, "only the node has this")}
    portal.submit(job("pai", PROBING, virtualCluster="mounts", jobEnvs=hidden))
    found["pai"] = json.loads(_log_at_the_end(portal, "pai"))
    portal.submit(job("pai-debug", "cat /proc/self/status", virtualCluster="mounts", jobEnvs={"isDebug": True}))
    found["pai_debug"] = _log_at_the_end(portal, "pai-debug")
    portal.change_node(node.name, network="bridge")
    portal.submit(job("bridge", f"ls /sys/class/net; nc -w 5 127.0.0.1 {PORT} </dev/null || echo unreached"))
    found["bridge"] = _log_at_the_end(portal, "bridge").split()
    docker(node, "rm", "-f", "service")
    return found


def job(name: str, command: str, **more: Any) -> Json:
    return config(name, command, image=PYTHON_IMAGE, memoryMB=300, shmMB=32, **more)


def _handle_of(node: BedNode, content: str) -> str:
    """By which a new file in the data root of the node is opened: the size, the kind and the bytes of its handle."""
    path = node.bed.folder / "nodes" / node.name / "data" / "hidden"
    script = f"""
import ctypes, struct
open({str(path)!r}, "w").write({content!r})
handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136), ctypes.c_int()
assert ctypes.CDLL(None).name_to_handle_at(-100, {str(path).encode()!r}, handle, ctypes.byref(mount), 0) == 0
size, kind = struct.unpack_from("Ii", handle.raw)
print(size, kind, handle.raw[8 : 8 + size].hex())
"""
    return node.run("python3", "-c", script).strip()


def _told(portal: Portal, name: str) -> str:
    """The one line that it prints, once it is there."""
    assert portal.state(name) == "RUNNING", portal.log(name, stream="stderr")
    said = portal.log(name)
    return said if said.endswith("\n") else ""


def _log_at_the_end(portal: Portal, name: str) -> str:
    assert portal.wait_state(name)["state"] == "SUCCEEDED", portal.job(name)["jobStatus"]
    return portal.log(name)


@pytest.mark.parametrize("line", lines_of_the_page())
def test_a_container_is_as_the_page_says(line: str, seen: Json) -> None:
    CHECKS[line](seen)


def capabilities(mask: str) -> set[str]:
    bits = int(mask, 16)
    known = {name for name, bit in NUMBERS.items() if bits >> bit & 1}
    assert bits == sum(1 << NUMBERS[name] for name in known), f"one that this test has no name for: {mask}"
    return known


@says("Capabilities")
def _(seen: Json) -> None:
    named = set(re.findall(r"`([A-Z_]+)`", lines_of_the_page()["Capabilities"]))
    for which in ("CapEff", "CapPrm", "CapBnd"):
        assert capabilities(seen["status"][which]) == named == set(CAPABILITIES)


@says("More rights")
def _(seen: Json) -> None:
    assert (seen["status"]["NoNewPrivs"], seen["status"]["Seccomp"]) == ("1", "2")
    refused = {seen[what] for what in ("mount", "mknod", "user_namespace")}
    assert refused == {"PermissionError"} and seen["sysctl"] == "OSError"


@says("The wire")
def _(seen: Json) -> None:
    assert set(seen["raw"].values()) == {"PermissionError"} and seen["heard"] == 0


@says("Network `host`")
def _(seen: Json) -> None:
    assert "docker0" in seen["interfaces"] and seen["node_loopback"] == "done"


@says("Network `bridge`")
def _(seen: Json) -> None:
    assert seen["bridge"] == ["eth0", "lo", "unreached"]


@says("Other containers")
def _(seen: Json) -> None:
    assert len(seen["processes"]) < 10 and not [each for each in seen["processes"] if "httpd" in each]
    assert any("docker-init" in each for each in seen["processes"]) and seen["shared_memory"] == 0


@says("Devices")
def _(seen: Json) -> None:
    named = set(re.findall(r"`([a-z]+)`", lines_of_the_page()["Devices"]))
    assert {"null", "random"} <= set(seen["devices"]) <= named
    assert seen["variables"]["NVIDIA_VISIBLE_DEVICES"] == "void"


@says("Mounts")
def _(seen: Json) -> None:
    found = {path for path in seen["mounts"] if not re.match(r"/(proc|sys|dev|pai/(bootstrap|secrets|notice))\b", path)}
    assert found == set(re.findall(r"`(/[^`]*)`", lines_of_the_page()["Mounts"]))
    assert seen["mounts"]["/sys"][1] == seen["mounts"]["/proc/sys"][1] == "ro"
    assert seen["sockets"] == []


@says("Environment")
def _(seen: Json) -> None:
    assert seen["variables"]["MINE"] == "mine"
    everywhere = seen["environ"] + seen["cmdline"] + json.dumps(seen["inspect"])
    assert "MINE" in everywhere
    for _, _, secret in seen["secrets"].values():
        assert secret.strip().splitlines()[-2:][0] not in everywhere and "PRIVATE KEY" not in everywhere


@says("Secret files")
def _(seen: Json) -> None:
    named = set(re.findall(r"`([a-z.]+)`", lines_of_the_page()["Secret files"]))
    assert {name: about[:2] for name, about in seen["secrets"].items()} == {name: ["0o600", 0] for name in named}
    assert seen["mounts"]["/pai/secrets"][0] == "tmpfs"


@says("The job's token")
def _(seen: Json) -> None:
    assert (seen["own_files"], seen["foreign_files"]) == (200, 403)  # its user is an admin
    assert (seen["rest_with_token"], seen["ended"]) == (401, 401)


@says("The portal")
def _(seen: Json) -> None:
    assert seen["guest"] == [200, 401, 200]


@says("SSH")
def _(seen: Json) -> None:
    assert seen["ssh"] == "in\n" and "Permission denied" in seen["ssh_without_key"]


@says("Code")
def _(seen: Json) -> None:
    assert seen["code"] == "0o444" and seen["stored"] == b"hello\n"


@says("Memory and CPU")
def _(seen: Json) -> None:
    limits = seen["limits"]
    assert limits["memory"] == str(300 << 20) and limits["cpu"].split()[0] == "100000"
    assert limits["swap"] in (str(300 << 20), "0") and seen["shm"] == 32 << 20


@says("Processes")
def _(seen: Json) -> None:
    assert seen["limits"]["pids"] == str(PIDS) and 10 < seen["threads"] < PIDS


@says("isDebug")
def _(seen: Json) -> None:
    assert _capabilities_in(seen["debug"]) == {*CAPABILITIES, "SYS_PTRACE"}


@says("Profile `pai`")
def _(seen: Json) -> None:
    pai, named = seen["pai"], set(re.findall(r"`([A-Z_]+)`", lines_of_the_page()["Profile `pai`"]))
    assert capabilities(pai["status"]["CapEff"]) == capabilities(pai["status"]["CapBnd"]) == {*CAPABILITIES, *named}
    assert (pai["status"]["NoNewPrivs"], pai["status"]["Seccomp"]) == ("0", "2")
    assert {pai[what] for what in ("mount", "remount", "sysctl", "user_namespace")} == {"done"}
    assert pai["file_of_the_node"] == "only the node has this"
    assert "fuse" in pai["devices"] or not Path("/dev/fuse").exists()
    assert {pai["mknod"], *pai["raw"].values()} == {"PermissionError"}


@says("`pai` and isDebug")
def _(seen: Json) -> None:
    assert re.findall(r"^Seccomp:\t(\d)$", seen["pai_debug"], re.M) == ["0"]
    assert "SYS_PTRACE" in _capabilities_in(seen["pai_debug"])


def _capabilities_in(status: str) -> set[str]:
    (mask,) = re.findall(r"^CapEff:\t(\w+)$", status, re.M)
    return capabilities(mask)
