"""Run inside a container by test_inside_docker.py: prints as JSON what it can see, hear and do there. Nothing but the
standard library; a function for each thing that is tried."""

from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER = 0x10000000
RAW = {
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)),
    "packet-datagram": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)),
    "icmp": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "tcp": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP),
    "raw6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW),
}


def told(try_it: Callable[[], Any]) -> str:
    """``done``, or the name of the error that it met."""
    try:
        try_it()
    except OSError as error:
        return type(error).__name__
    return "done"


def called(number: int) -> None:
    if number < 0:
        raise OSError(ctypes.get_errno(), "refused")


def status() -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)


def heard() -> int:
    """Packets of others; whoever may open no such socket hears none."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as ear:
            ear.settimeout(5)
            return len(ear.recv(65535))
    except OSError:
        return 0


def everywhere(what: str) -> str:
    """What all processes have of it."""
    return "\n".join(path.read_bytes().decode("latin-1") for path in Path("/proc").glob(f"[0-9]*/{what}"))


def mounts() -> dict[str, list[str]]:
    rows = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return {row[4]: [row[row.index("-") + 1], row[5].split(",")[0]] for row in rows}


def secret_files() -> dict[str, list[Any]]:
    found = {}
    for path in Path("/pai/secrets").iterdir():
        about = path.stat()
        found[path.name] = [oct(about.st_mode & 0o777), about.st_uid, path.read_text()]
    return found


def asked(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=300) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def files(path: str) -> int:
    token = Path(os.environ["LONGSHORE_WEBHDFS_TOKEN_FILE"]).read_text()
    return asked(f"{os.environ['LONGSHORE_WEBHDFS_URL']}{path}?op=LISTSTATUS&delegation={token}")


def reached(port: str) -> str:
    return told(lambda: socket.create_connection(("127.0.0.1", int(port)), 5).close())


def threads() -> int:
    """How many can be had at once."""
    stop, had = threading.Event(), 0
    try:
        while had < 10_000:
            threading.Thread(target=stop.wait, daemon=True).start()
            had += 1
    except RuntimeError:
        pass
    stop.set()
    return had


def limits() -> dict[str, str]:
    """From cgroup v1 or v2."""
    places = {"memory": "memory/memory.limit_in_bytes memory.max", "pids": "pids/pids.max pids.max"}
    places |= {"swap": "memory/memory.memsw.limit_in_bytes memory.swap.max", "cpu": "cpu/cpu.cfs_quota_us cpu.max"}
    paths = {name: [Path("/sys/fs/cgroup", each) for each in some.split()] for name, some in places.items()}
    return {name: path.read_text().strip() for name, some in paths.items() for path in some if path.exists()}


def ssh(*options: str) -> str:
    done = subprocess.run(["ssh", "-o", "BatchMode=yes", *options, "main-0", "echo in"], capture_output=True, text=True)
    return done.stdout + done.stderr


def changed_code() -> str:
    path = Path("/pai/code/code/hello.txt")
    before = oct(path.stat().st_mode & 0o777)
    path.write_text("changed by the job\n")
    return before


def look() -> dict[str, Any]:
    url = os.environ["LONGSHORE_WEBHDFS_URL"].removesuffix("/webhdfs/v1")
    token = Path(os.environ["LONGSHORE_WEBHDFS_TOKEN_FILE"]).read_text()
    job = f"{url}/api/v1/user/admin/jobs/{os.environ['PAI_JOB_NAME'].partition('~')[2]}"
    return {
        "status": status(),
        "raw": {name: told(lambda make=make: make().close()) for name, make in RAW.items()},  # type: ignore[misc]
        "heard": heard(),
        "mount": told(lambda: called(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))),
        "mknod": told(lambda: os.mknod("/disk", 0o600 | 0o60000, os.makedev(8, 0))),
        "user_namespace": told(lambda: called(libc.unshare(CLONE_NEWUSER))),
        "sysctl": told(lambda: Path("/proc/sys/kernel/hostname").write_text("mine")),
        "devices": sorted(str(path.relative_to("/dev")) for path in Path("/dev").iterdir()),
        "mounts": mounts(),
        "sockets": [str(p) for p in (Path("/var/run/docker.sock"), Path("/run/docker.sock")) if p.exists()],
        "processes": sorted(re.sub(r"\0.*", "", path.read_text()) for path in Path("/proc").glob("[0-9]*/cmdline")),
        "shared_memory": len(Path("/proc/sysvipc/shm").read_text().splitlines()) - 1,
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "node_loopback": reached(os.environ["NODE_PORT"]),
        "variables": dict(os.environ),
        "environ": everywhere("environ"),
        "cmdline": everywhere("cmdline"),
        "secrets": secret_files(),
        "own_files": files("/user/admin"),
        "shared_files": files("/shared"),
        "foreign_files": files("/user/alice"),
        "rest_with_token": asked(f"{job}/config", Authorization=f"Bearer {token}"),
        "guest": [asked(f"{url}/api/v1/jobs"), asked(f"{job}/config"), asked(f"{url}/healthz")],
        "ssh": ssh(),
        "ssh_without_key": ssh("-F", "/dev/null", "-p", os.environ["PAI_CONTAINER_SSH_PORT"], "-o",
            "StrictHostKeyChecking=no", "-o", "HostName=127.0.0.1", "-o", "IdentityFile=none"),
        "limits": limits(),
        "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
        "code": changed_code(),
        "threads": threads(),
    }  # fmt: skip


def opened_by_handle(handle: str) -> str:
    """A file that is mounted nowhere in the container, from the disk on which its /etc/hosts lies."""
    size, kind, name = int(handle.split()[0]), int(handle.split()[1]), bytes.fromhex(handle.split()[2])
    wanted = ctypes.create_string_buffer(struct.pack("Ii", size, kind) + name)
    disk = os.open("/etc/hosts", os.O_RDONLY)
    file = libc.open_by_handle_at(disk, wanted, os.O_RDONLY)
    called(file)
    return os.read(file, 100).decode()


def written_again(setting: str) -> None:
    path = Path("/proc/sys", setting)
    path.write_text(path.read_text())


def look_with_more() -> dict[str, Any]:
    """Under the profile pai."""
    remount = 32
    return {
        "status": status(),
        "raw": {name: told(lambda make=make: make().close()) for name, make in RAW.items()},  # type: ignore[misc]
        "mknod": told(lambda: os.mknod("/disk", 0o600 | 0o60000, os.makedev(8, 0))),
        "devices": sorted(str(path.relative_to("/dev")) for path in Path("/dev").iterdir()),
        "mount": told(lambda: called(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))),
        "remount": told(lambda: called(libc.mount(b"none", b"/proc/sys", b"", remount | 4096, None))),
        "sysctl": told(lambda: written_again("vm/swappiness")),
        "file_of_the_node": opened_by_handle(os.environ["HANDLE"]),
        "user_namespace": told(lambda: called(libc.unshare(CLONE_NEWUSER))),
    }


print(json.dumps(look_with_more() if "HANDLE" in os.environ else look()))
