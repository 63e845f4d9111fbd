"""Copies between this machine and the store as pai-fs does: a path of the store begins with ``store:``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from .account import PortalAccount
from .errors import ClientError, NotAllowed, NotCopied, NotMeant, NotSignedIn, NotThere, PortalAway, Taken, WrongConfig
from .pai_fs import copying, errors
from .pai_fs.bar import ProgressBar
from .pai_fs.config import of_url
from .pai_fs.copying import CopyOptions, CopyTotals
from .pai_fs.places import FoundFiles, LocalSide, Location, RemotePlace, store_path
from .pai_fs.remote import Remote
from .transport import PATIENCE

STORE = "store:"
RULES = (".longshoreignore", ".gitignore")
NEVER = (".git", "__pycache__", "node_modules", ".venv", ".ipynb_checkpoints", ".DS_Store", "*.pyc")
_OURS: tuple[tuple[type[errors.PaiFsError], type[ClientError]], ...] = (
    (errors.Denied, NotAllowed),
    (errors.NoSuchPath, NotThere),
    (errors.ThereAlready, Taken),
    (errors.GaveUp, PortalAway),
    (errors.Unreachable, PortalAway),
    (errors.WrongUsage, NotMeant),
    (errors.PaiFsError, NotCopied),
)


def copy(account: PortalAccount, source: str, target: str, options: CopyOptions, *, quiet: bool = True) -> CopyTotals:
    """Like ``cp -r``: into the target where that is a folder, else under its name; ``source/*`` is what is in it. A
    folder whose name ends the target is there already when it is copied again, and what of it is there is known."""
    account.user  # noqa: B018 - it raises where nobody is signed in
    if source.startswith(STORE) == target.startswith(STORE):
        raise NotMeant(f"One of both paths is in the store and begins with {STORE}, as {STORE}/users/mira/x.")
    contents, into = source.endswith("/*"), target.endswith("/")
    remote = remote_of(account)
    from_, to = side(source[:-2] if contents else source, remote), side(target, remote)
    with in_our_words():  # who has not answered yet is not waited for
        is_dir, is_there = from_.is_dir(), to.is_dir()
    is_same = from_.path.rpartition("/")[2] == to.path.rpartition("/")[2]
    contents |= bool(is_dir and is_there and is_same and not into)
    again = "the same command again"
    if is_dir and is_there is None and not (is_same or contents or into):  # the next would copy it into that folder
        again = f"longshore cp {shlex.quote(f'{source}/*')} {shlex.quote(target)}"
    options = replace(options, contents=contents, into=into)
    try:
        return copied(from_, to, options, quiet=quiet)
    except PortalAway as error:
        raise PortalAway(f"{error} Later {again} goes on where it was.") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{again} goes on where it was") from None


def side(text: str, remote: Remote) -> Location:
    if not text.startswith(STORE):
        return LocalSide(text)
    with in_our_words():
        return RemotePlace(store_path(text[len(STORE) :]), remote)


def remote_of(account: PortalAccount) -> Remote:
    return Remote(of_url(account.url, token=account.token))


def copied(source: Location, target: Location, options: CopyOptions, *, quiet: bool = True) -> CopyTotals:
    """A portal that goes away is waited for."""
    bar = QuietBar() if quiet else ProgressBar("longshore: ")
    try:
        with in_our_words():
            return copying.copy(source, target, replace(options, recursive=True, patience=PATIENCE), bar)
    finally:
        bar.clear()


@contextmanager
def in_our_words() -> Iterator[None]:
    """Errors of pai-fs as ours."""
    try:
        yield
    except errors.SignedOut:
        raise NotSignedIn from None
    except errors.PaiFsError as error:
        ours = next(ours for theirs, ours in _OURS if isinstance(error, theirs))
        raise ours(str(error)) from None
    except OSError as error:
        told = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        raise (NotThere if isinstance(error, FileNotFoundError) else NotCopied)(told) from None


class QuietBar(ProgressBar):
    def __init__(self) -> None:
        super().__init__()
        self._shown = False

    def note(self, text: str) -> None:
        pass


class PackedFolder(LocalSide):
    """A folder as it goes along with a job: without what ``.longshoreignore`` leaves out, or where there is none the
    ``.gitignore``, and without what nobody wants there. ``left`` counts that. As with git a ``.longshoreignore`` holds
    below its folder, and the nearest that says something of a file wins."""

    def __init__(self, path: str) -> None:
        from pathspec import GitIgnoreSpec

        super().__init__(path)
        self._never = GitIgnoreSpec.from_lines(NEVER)
        top = next((name for name in RULES if Path(path, name).is_file()), RULES[0])
        self._specs = {"": self._read(Path(path, top))}
        self.left = 0

    def _look(self, name: str, above: frozenset[tuple[int, int]], found: FoundFiles) -> tuple[int, int] | None:
        if self._is_left_out(name):
            self.left += 1
            return None
        return super()._look(name, above, found)

    def _is_left_out(self, name: str) -> bool:
        asked = f"{name}/" if self._at(name).is_dir() else name
        folder, says = name, None
        while folder and says is None:
            folder = folder.rpartition("/")[0]
            if folder not in self._specs:
                self._specs[folder] = self._read(self._at(folder) / RULES[0])
            says = self._specs[folder].check_file(asked[len(folder) :].lstrip("/")).include
        return bool(says) or self._never.match_file(asked)

    def _read(self, rules: Path) -> Any:
        from pathspec import GitIgnoreSpec

        try:
            return GitIgnoreSpec.from_lines(rules.read_text(errors="replace").splitlines() if rules.is_file() else [])
        except ValueError as error:
            raise WrongConfig(f"{rules} cannot be read: {error}") from None
