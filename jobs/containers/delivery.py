"""Reads what a start needs from the store before its container is made: the code and the password of a registry.

Everything is read with the rights of the job's user. A mistake that the user can mend is a DeliveryFault and ends the
attempt. A store that is down is not (StoreUnavailable passes through): the start is tried again later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from clusters.engines.runtime import FaultReason, RuntimeFault
from jobs.config.spec import JobSpec, substitute_paths
from jobs.containers import code_tar
from jobs.containers.registries import registry_of, same_registry
from jobs.planning.exits import StartFault
from portal.core.errors import LongshoreError
from portal.files.store import open_store, rules
from portal.files.store.accounts import Accounts
from portal.files.store.base import Entry, PathNotFound, Store, StoreUnavailable, find
from portal.models import User

_AUTH_BYTES = 10_000


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
    reader = _Reader.of(username)
    login = _login(reader, paths["authFile"]) if spec.auth_file else None
    fits = login is not None and same_registry(login.server, registry_of(spec.image))
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


@dataclass(frozen=True, slots=True)
class _Reader:
    """The store as the job's user may read it."""

    store: Store
    username: str
    is_admin: bool
    accounts: Accounts = field(default_factory=Accounts)

    @classmethod
    def of(cls, username: str) -> _Reader:
        admin = User.objects.filter(username=username, is_admin=True).exists()
        return cls(open_store(), username, admin)

    def visible(self, entries: Iterable[Entry]) -> list[Entry]:
        return rules.visible(entries, self.username, self.is_admin, self.accounts)

    def allowed(self, uri: str, denied: StartFault) -> str:
        """The path that ``uri`` names. Raises DeliveryFault with the reason ``denied`` if the user may not read it."""
        try:
            path, hostless = rules.path_of(uri), rules.hostless_path_of(uri)
        except LongshoreError:
            raise DeliveryFault(denied, f"{uri} is no path of the file store.") from None
        if hostless and not find(self.store, path) and find(self.store, hostless):
            path = hostless
        if not rules.may_read(path, self.username, self.is_admin, self.accounts) or path == "/":
            raise DeliveryFault(denied, f"{self.username} may not read {uri}.")
        return path


@dataclass(frozen=True, slots=True)
class _Login:
    """The content of an authFile. The password is sent to its own registry only."""

    server: str
    user: str
    password: str = field(repr=False)

    def why_not(self, uri: str, image: str) -> str:
        registry = registry_of(image)
        if same_registry(self.server, registry):
            return f"It refused the user and the password of the authFile {uri}."
        return f"The authFile {uri} is for {self.server}, the image is from {registry}."


@contextmanager
def _code(reader: _Reader, uri: str, key: str, note: Callable[[str], None]) -> Iterator[Path]:
    path = reader.allowed(uri, StartFault.CODE_UNREADABLE)
    note("reading the code")

    def report(done: int, total: int) -> None:
        note(f"reading the code: {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else "reading the code")

    with ExitStack() as stack:
        try:
            tar = stack.enter_context(code_tar.spooled(reader.store, path, key, report, reader.visible))
        except code_tar.TooLarge:
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


def _login(reader: _Reader, uri: str) -> _Login:
    path = reader.allowed(uri, StartFault.AUTH_UNREADABLE)
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
