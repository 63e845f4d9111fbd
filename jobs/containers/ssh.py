"""Says how to log in to a job's containers by ssh: which of them have an sshd that answers, and where the key is."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache

from base.files.store import delegation
from jobs.config.spec import JobSpec
from jobs.containers import launch, publish
from jobs.models import Attempt, Job, Task
from jobs.planning.lifecycle import TaskState

PATIENCE = 1.0  # seconds one container gets to say that it is an sshd
_ALTOGETHER = 2.0  # seconds for all containers of an attempt
_AT_ONCE = 64
_REMEMBERED = 3600  # seconds a container that answered is not asked again
LINK_SECONDS = 3600  # how long a link to the private key holds

_OLDER_KEY = re.compile(
    r"/Container/(?P<user>[^/]+)/(?P<job>[^/]+)/ssh/(?P<app>application_\d+_\d+)/\.ssh/(?P=app)(?P<end>(?:\.pub)?)"
)


@dataclass(frozen=True, slots=True)
class Login:
    """Where one task is reached by ssh. ``answers``: its sshd does. ``id`` is v1's container id."""

    label: str
    id: str
    address: str
    port: int
    node: str
    answers: bool


def logins(job: Job, attempt: Attempt) -> list[Login]:
    """One Login for each running task of the attempt that has an ssh port, in order of the config. Tasks that have not
    answered before are asked now, all at once; it takes _ALTOGETHER seconds at most."""
    spec = JobSpec.from_json(job.spec)
    tasks = list(Task.objects.filter(attempt=attempt, state=TaskState.RUNNING).order_by("id"))
    placed = [(task, task.ports["ssh"][0]) for task in tasks if task.ports.get("ssh") and task.address]
    answering = _answering(placed)
    return [
        Login(
            label=task.label,
            id=launch.container_id(attempt.app_id, spec, task.role, task.index),
            address=task.address,
            port=port,
            node=task.node,
            answers=task.pk in answering,
        )
        for task, port in placed
    ]


def key_link(job: Job, base_url: str, *, signed: bool) -> str:
    """The address of the private key at the WebHDFS gateway. When it is ``signed``, plain wget can open it for
    LINK_SECONDS. It has one parameter only: users paste it without quotes, as old pages print it, and a shell would cut
    it at an ``&``."""
    path = publish.key_path(job.username, job.full_name)
    link = f"{base_url}/webhdfs/v1{path}"
    if not signed:
        return f"{link}?op=OPEN"
    token = delegation.issue(job.username, seconds=LINK_SECONDS, path=path, ops=["OPEN"])
    return f"{link}?delegation={token}"


def key_path_of(path: str) -> str:
    """The present path of a key that the first releases of v0.x had at ``path``: in a folder of the attempt, below the
    job's name without its user (v1 contract, 5.6). Any other path is returned as it is."""
    named = _OLDER_KEY.fullmatch(path)
    if named is None:
        return path
    name = named["job"].rpartition("~")[2]
    job = Job.objects.filter(username=named["user"], name=name, deleted_at=None, attempts__app_id=named["app"]).first()
    return publish.key_path(job.username, job.full_name) + named["end"] if job else path


def key_file(job: Job) -> str:
    """The name under which a browser saves the key: the gateway's."""
    return publish.key_path(job.username, job.full_name).rpartition("/")[2]


def key_folder(job: Job) -> str:
    return settings.DEFAULT_FS_URI + publish.key_path(job.username, job.full_name).rpartition("/")[0]


def _answering(placed: Iterable[tuple[Task, int]]) -> set[int]:
    names = {f"ssh:{task.pk}": (task, port) for task, port in placed}
    answering = set(cache.get_many(list(names)))
    unknown = {name: place for name, place in names.items() if name not in answering}
    if unknown:
        pool = ThreadPoolExecutor(min(_AT_ONCE, len(unknown)), thread_name_prefix="ssh")
        asked = {pool.submit(_is_sshd, task.address, port): name for name, (task, port) in unknown.items()}
        done, _ = wait(asked, timeout=_ALTOGETHER)
        pool.shutdown(wait=False, cancel_futures=True)
        answered = [asked[answer] for answer in done if answer.result()]
        cache.set_many(dict.fromkeys(answered, 1), _REMEMBERED)
        answering |= set(answered)
    return {names[name][0].pk for name in answering}


def _is_sshd(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), PATIENCE) as wire:
            wire.settimeout(PATIENCE)
            return wire.recv(4) == b"SSH-"
    except OSError:
        return False
