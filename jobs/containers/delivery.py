"""Reads what a start needs from the store before its container is made: the code and the password of a registry.

Everything is read with the rights of the job's user. A mistake that the user can mend is a DeliveryFault and ends the
attempt. A store that is down is not (StoreUnavailable passes through): the start is tried again later.

What is too large for an engine's API is put where containers fetch it: a tar in the folder of its attempt in the store,
at an address that is signed for this one file. The file goes when the job is purged, as its logs do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

from django.conf import settings

from base.core.errors import LongshoreError
from base.files.store import delegation, open_store, rules
from base.files.store.base import PathNotFound, StoreUnavailable, find
from base.files.store_actor import KnownAccounts, StoreActor
from base.models import User
from clusters.engines.image_names import DOCKER_HUB, registry_of
from clusters.engines.runtime import LARGE, FaultReason, RuntimeFault
from jobs.config.spec import JobSpec, substitute_paths
from jobs.containers.code import code_tar
from jobs.containers.launch import Launch
from jobs.logs.places import attempt_folder
from jobs.planning.exits import StartFault

HELD = 3600  # seconds that an address holds: a start that waits longer for its image asks for another one
_PIECE = 1 << 20
_AUTH_BYTES = 10_000
_HUB_NAMES = ("docker.io", "index.docker.io", "registry-1.docker.io", "hub.docker.com", "registry.hub.docker.com")


class DeliveryFault(Exception):
    """The start cannot succeed until the user changes something. ``sentence`` tells them what."""

    def __init__(self, reason: StartFault, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was read for one start. ``tars`` are unpacked in the container; ``auth`` is the registry's user and
    password."""

    tars: tuple[Path, ...] = ()
    auth: tuple[str, str] | None = None


@contextmanager
def prepare(spec: JobSpec, username: str, key: str, note: Callable[[str], None]) -> Iterator[Delivery]:
    """The Delivery for a start, which happens inside the ``with`` block.

    ``key`` names the attempt. ``note`` is called with the progress and may raise to give up. A job without codeDir and
    authFile does not touch the store.

    Raises DeliveryFault and StoreUnavailable. When the block raises IMAGE_DENIED although there is an authFile, that
    becomes a DeliveryFault which says why the authFile did not help.
    """
    if not (spec.code_dir or spec.auth_file):
        yield Delivery()
        return
    paths = substitute_paths(spec, fs_uri=settings.DEFAULT_FS_URI, username=username)
    is_admin = User.objects.filter(username=username, is_admin=True).exists()
    reader = StoreActor(username, is_admin, KnownAccounts(), open_store())
    login = _login(reader, paths["authFile"]) if spec.auth_file else None
    fits = login is not None and is_of_registry(spec.image, login.server)
    auth = (login.user, login.password) if login and fits else None
    with ExitStack() as stack:
        tars = (stack.enter_context(_code(reader, paths["codeDir"], key, note)),) if spec.code_dir else ()
        try:
            yield Delivery(tars, auth)
        except RuntimeFault as fault:
            if login is None or fault.reason is not FaultReason.IMAGE_DENIED:
                raise
            sentence = f"{fault.sentence} {login.why_not(paths['authFile'], spec.image)}"
            raise DeliveryFault(StartFault.AUTH_REFUSED, sentence) from None


def _allowed(reader: StoreActor, uri: str, denied: StartFault) -> str:
    """The path that ``uri`` names. Raises DeliveryFault with the reason ``denied`` if the user may not read it."""
    try:
        path, hostless = rules.path_of(uri), rules.hostless_path_of(uri)
    except LongshoreError:
        raise DeliveryFault(denied, f"{uri} is no path of the file store.") from None
    # Rights first: what is said must not depend on whether a path is there that the user may not see.
    readable = [each for each in (path, hostless) if each and each != "/" and reader.may_read(each)]
    if not readable:
        raise DeliveryFault(denied, f"{reader.name} may not read {uri}.")
    return next((each for each in readable if find(reader.store, each)), readable[0])


@dataclass(frozen=True, slots=True)
class _Login:
    """The content of an authFile. The password is sent to its own registry only."""

    server: str
    user: str
    password: str = field(repr=False)

    def why_not(self, uri: str, image: str) -> str:
        if is_of_registry(image, self.server):
            return f"It refused the user and the password of the authFile {uri}."
        return f"The authFile {uri} is for {self.server}, the image is from {_registry(registry_of(image))}."


def is_of_registry(image: str, server: str) -> bool:
    """Whether the image comes from a server as users write it: ``https://index.docker.io/v1/``."""
    return _registry(server) == _registry(registry_of(image))


def _registry(server: str) -> str:
    host = (server.strip().lower().partition("://")[2] or server.strip().lower()).partition("/")[0]
    return DOCKER_HUB if host in _HUB_NAMES else host


@contextmanager
def _code(reader: StoreActor, uri: str, key: str, note: Callable[[str], None]) -> Iterator[Path]:
    path = _allowed(reader, uri, StartFault.CODE_UNREADABLE)
    note("reading the code")

    def report(done: int, total: int) -> None:
        note(f"reading the code: {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else "reading the code")

    with ExitStack() as stack:
        try:
            tar = stack.enter_context(code_tar.spooled(reader.store, path, key, report, reader.visible))
        except code_tar.CodeTooLarge:
            limit = f"{settings.CODE_LIMIT / 1e6:g}MB"
            raise DeliveryFault(StartFault.CODE_TOO_LARGE, f"{uri} is larger than {limit}.") from None
        except PathNotFound:
            sentence = f"Can not stat {uri}: there is nothing of that name."
            raise DeliveryFault(StartFault.CODE_MISSING, sentence) from None
        except StoreUnavailable:
            raise
        except LongshoreError as error:
            raise DeliveryFault(StartFault.CODE_UNREADABLE, f"{uri} cannot be read: {error.message}") from None
        yield tar


def _login(reader: StoreActor, uri: str) -> _Login:
    path = _allowed(reader, uri, StartFault.AUTH_UNREADABLE)
    try:
        with reader.store.open_read(path) as file:
            text = file.read(_AUTH_BYTES).decode("utf-8-sig")
    except StoreUnavailable:
        raise
    except PathNotFound:
        raise DeliveryFault(StartFault.AUTH_UNREADABLE, f"Read authFile failed: {uri} does not exist.") from None
    except (LongshoreError, UnicodeDecodeError):
        raise DeliveryFault(StartFault.AUTH_UNREADABLE, f"Read authFile failed: {uri} is no file of text.") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if len(lines) < 3 or not all(line.strip() for line in lines[:3]):
        raise DeliveryFault(
            StartFault.AUTH_MALFORMED, f"{uri} must have three lines: the registry's server, the user, the password."
        )
    return _Login(lines[0].strip(), lines[1].strip(), lines[2])


def addresses_of(tars: tuple[Path, ...], launch: Launch) -> tuple[str, ...]:
    """The addresses of these tars; none when they are small enough to be handed over. Raises StoreUnavailable."""
    if sum(tar.stat().st_size for tar in tars) <= LARGE:
        return ()
    full_name = f"{launch.username}~{launch.spec.job_name}"
    folder = attempt_folder(launch.username, full_name, launch.app_id)
    return tuple(_offered(tar, f"{folder}/code-{nth}.tar", launch) for nth, tar in enumerate(tars))


def _offered(tar: Path, path: str, launch: Launch) -> str:
    store = open_store()
    there = find(store, path)
    if there is None or there.size != tar.stat().st_size:  # else another task of the attempt has put it there
        store.write(path, _pieces(tar), owner=launch.username, mode=0o600)
    token = delegation.issue(launch.username, seconds=HELD, path=path, ops=("OPEN",))
    return f"{launch.files_url}{quote(path)}?{urlencode({'op': 'OPEN', 'delegation': token})}"


def _pieces(tar: Path) -> Iterator[bytes]:
    with tar.open("rb") as file:
        yield from iter(lambda: file.read(_PIECE), b"")
