"""What a start needs from the store before its container is made: the code, and the password of a private registry.

Everything is read with the rights of the job's user. What he can mend is a DeliveryFault and ends the attempt; a store
that is down is none (StoreUnavailable passes): the start is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from jobs import code_tar
from jobs.exits import StartFault
from jobs.registries import registry_of, same_registry
from jobs.spec import JobSpec, substitute_paths
from portal.errors import LongshoreError
from portal.models import User
from portal.store import open_store, rules
from portal.store.base import PathNotFound, Store, StoreUnavailable

_AUTH_BYTES = 10_000


class DeliveryFault(Exception):
    """``sentence`` is for the user; trying again ends the same way until he changes something."""

    def __init__(self, reason: StartFault, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Delivery:
    """``tars`` are unpacked in the container; ``auth`` is the registry's user and password."""

    tars: tuple[Path, ...] = ()
    auth: tuple[str, str] | None = None


def prepare(spec: JobSpec, username: str, key: str, note: Callable[[str], None]) -> Delivery:
    """``key`` names the attempt; ``note`` is told how far it is and may raise to give up. Raises DeliveryFault and
    StoreUnavailable. A job that wants no file does not touch the store."""
    if not (spec.code_dir or spec.auth_file):
        return Delivery()
    paths = substitute_paths(spec, fs_uri=settings.DEFAULT_FS_URI, username=username)
    reader = _Reader(open_store(), username)
    auth = _auth(reader, paths["authFile"], spec.image) if spec.auth_file else None
    tars = (_code(reader, paths["codeDir"], key, note),) if spec.code_dir else ()
    return Delivery(tars, auth)


@dataclass(frozen=True, slots=True)
class _Reader:
    store: Store
    username: str

    def allowed(self, uri: str, denied: StartFault) -> str:
        """The path, if the user may read it."""
        try:
            path = rules.path_of(uri)
        except LongshoreError:
            raise DeliveryFault(denied, f"{uri} is no path of the file store.") from None
        admin = User.objects.filter(username=self.username, is_admin=True).exists()
        if not rules.may_read(path, self.username, admin) or path == "/":
            raise DeliveryFault(denied, f"{self.username} may not read {uri}.")
        return path


def _code(reader: _Reader, uri: str, key: str, note: Callable[[str], None]) -> Path:
    path = reader.allowed(uri, StartFault.CODE_UNREADABLE)
    note("reading the code")

    def report(done: int, total: int) -> None:
        note(f"reading the code: {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else "reading the code")

    try:
        return code_tar.spooled(reader.store, path, key, report)
    except code_tar.TooLarge:
        limit = f"{settings.CODE_LIMIT / 1e6:g}MB"
        raise DeliveryFault(StartFault.CODE_TOO_LARGE, f"{uri} is larger than {limit}.") from None
    except PathNotFound:
        raise DeliveryFault(StartFault.CODE_MISSING, f"Can not stat {uri}: there is nothing of that name.") from None
    except StoreUnavailable:
        raise
    except LongshoreError as error:
        raise DeliveryFault(StartFault.CODE_UNREADABLE, f"{uri} cannot be read: {error.message}") from None


def _auth(reader: _Reader, uri: str, image: str) -> tuple[str, str] | None:
    """None when the file is for another registry than the image's: a password goes to its own registry only."""
    path = reader.allowed(uri, StartFault.AUTH_UNREADABLE)
    try:
        with reader.store.open_read(path) as file:
            text = file.read(_AUTH_BYTES).decode()
    except StoreUnavailable:
        raise
    except PathNotFound:
        raise DeliveryFault(StartFault.AUTH_UNREADABLE, f"Read authFile failed: {uri} does not exist.") from None
    except (LongshoreError, UnicodeDecodeError):
        raise DeliveryFault(StartFault.AUTH_UNREADABLE, f"Read authFile failed: {uri} is no file of text.") from None
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) < 3 or not all(lines[:3]):
        raise DeliveryFault(
            StartFault.AUTH_MALFORMED, f"{uri} must have three lines: the registry's server, the user, the password."
        )
    return (lines[1], lines[2]) if same_registry(lines[0], registry_of(image)) else None
