"""``longshore run``: a folder and a command become a job."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from .account import PortalAccount
from .errors import NotCopied, Taken, WrongConfig, refused

if TYPE_CHECKING:
    from .pai_fs.remote import Remote

_ODD = re.compile(r"[^A-Za-z0-9._-]+")


@contextmanager
def uploaded(
    account: PortalAccount, folder: Path, code: str, tell: Callable[[str], None] | None = None
) -> Iterator[None]:
    """The folder's files are in the folder ``code`` of the store; they are removed where the block fails. What stays
    all the same, as when this process is killed, the portal removes a day later by the list."""
    from .copying import PackedFolder, copied, in_our_words, remote_of
    from .pai_fs.copying import CopyOptions
    from .pai_fs.places import RemotePlace

    packed, remote, above = PackedFolder(str(folder)), remote_of(account), code.rpartition("/")[0]
    _put_list(remote, folder, code)
    try:
        totals = copied(packed, RemotePlace(code, remote), CopyOptions(contents=True, force=True), quiet=tell is None)
        if tell is not None:
            left = f", without {packed.left} that are left out" if packed.left else ""
            tell(f"{totals} to store:{code}{left}")
        with in_our_words():
            if remote.find(_list_of(above)) is None:
                raise NotCopied("This took more than a day, and the portal removes what is not submitted by then.")
        yield
    except BaseException:
        with in_our_words():
            for each in (above, _list_of(above)):
                if remote.find(each):
                    remote.delete(each, recursive=True)
        raise


def _put_list(remote: Remote, folder: Path, code: str) -> None:
    """Write down what will be uploaded: the portal removes it where it is as listed here and no job needs it. Of two
    runs that chose the same folder at once one has it, and the other raises Taken."""
    from .copying import PackedFolder, in_our_words
    from .pai_fs.checksums import sha1

    packed, (above, _, name) = PackedFolder(str(folder)), code.rpartition("/")
    with in_our_words():
        found = packed.files()
    files = {}
    for file in found.files:
        with suppress(OSError):  # what goes or cannot be read is not uploaded
            files[f"{name}/{file.name}"] = file.size, sha1(packed.read(file.name, 0, None)).hexdigest()
    text = json.dumps({"folders": [name, *(f"{name}/{each}" for each in found.folders)], "files": files})
    try:
        with in_our_words():
            remote.create_at_once(_list_of(above), [text.encode()], replace=False)
    except Taken:
        raise Taken(f"Another run uploads to {above} just now: say another --name, or try again.") from None


def _list_of(above: str) -> str:
    """Where the list of what was uploaded to a folder is."""
    folder, _, name = above.rpartition("/")
    return f"{folder}/.longshore/{name}"


@contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C has no effect in the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def code_folder(account: PortalAccount, folder: Path, name: str) -> str:
    """Where in the store the folder goes for the job ``name``: where nothing is yet."""
    from .copying import in_our_words, remote_of

    remote, above = remote_of(account), f"/users/{account.user}/code/{name}"
    with in_our_words():
        for free in (above, *(f"{above}-{at}" for at in range(2, 99))):
            if remote.find(free) is None and remote.find(_list_of(free)) is None:
                return f"{free}/{word(folder.name)}"
    raise Taken(f"{above} and those with a number behind it are in use: say another --name.")


def new_name(folder: Path) -> str:
    """With something by chance in it: several may begin in the same second."""
    return f"{word(folder.name)}-{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def config_of(
    name: str, command: str, code: str, *, image: str = "", vc: str = "", gpus: int = 0, cpus: int = 0, memory: str = ""
) -> dict[str, Any]:
    """The job's config. Raises WrongConfig without an image."""
    image = image or os.environ.get("LONGSHORE_IMAGE", "")
    if not image:
        raise WrongConfig("Say which image: --image pytorch/pytorch, or set LONGSHORE_IMAGE.")
    role = {
        "name": "main",
        "taskNumber": 1,
        "cpuNumber": cpus or max(1, 4 * gpus),
        "memoryMB": megabytes(memory) if memory else 8192 * gpus or 2048,
        "gpuNumber": gpus,
        "command": f"cd {shlex.quote(code.rsplit('/', 1)[-1])} && {command}",
    }
    config = {"jobName": name, "image": image, "codeDir": code, "taskRoles": [role]}
    return {**config, "virtualCluster": vc} if vc else config


def changed(
    config: dict[str, Any], *, image: str = "", vc: str = "", gpus: int = 0, cpus: int = 0, memory: str = ""
) -> dict[str, Any]:
    """The config with what is given, of each role."""
    of_role = {"cpuNumber": cpus, "gpuNumber": gpus, "memoryMB": megabytes(memory) if memory else 0}
    of_job = {"image": image, "virtualCluster": vc}
    new = {name: value for name, value in of_role.items() if value}
    roles = [{**role, **new} for role in config["taskRoles"]]
    return {**config, **{name: value for name, value in of_job.items() if value}, "taskRoles": roles}


def stem(name: str) -> str:
    return re.sub(r"-\d{1,3}$", "", name)


def next_name(name: str, taken: set[str]) -> str:
    """``train`` becomes ``train-2``, then ``train-3``."""
    return next(each for at in range(2, 10_000) if (each := f"{stem(name)}-{at}") not in taken)


def megabytes(text: str) -> int:
    """``16g``, ``512m`` or a number of MB. Raises WrongConfig."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([mgt]?)i?b?", text.strip().lower())
    if not found:
        raise WrongConfig(f"{text} is no amount of memory: 16g, 512m or a number of MB.")
    return int(float(found[1]) * {"": 1, "m": 1, "g": 1024, "t": 1024**2}[found[2]])


def refuse(found: dict[str, Any]) -> None:
    """Raises WrongConfig for a config that is refused, or that could never run, and Taken where only its name is."""
    if found["errors"]:
        raise refused(found["errors"], [each["message"] for each in found["errors"]])
    if found["neverFits"]:
        raise WrongConfig(f"This could never run: {found['neverFits']['sentence']}")


def refuse_size(folder: Path, limit: int | None) -> None:
    """Raises WrongConfig for a folder of more bytes than a job takes along. ``limit``: None where an earlier release
    does not say it."""
    from .copying import PackedFolder, in_our_words

    with in_our_words():
        size = sum(file.size for file in PackedFolder(str(folder)).files().files)
    if limit is not None and size > limit:
        says = f"{folder} has {size} bytes, and a job takes at most {limit} along"
        raise WrongConfig(f"{says}: name in .longshoreignore what stays behind, or copy it with longshore cp.")


def word(text: str) -> str:
    return _ODD.sub("-", text).strip("-.")[:60] or "job"
