"""Writes to the store that keep within the quota of the user in whose tree they end.

The gateway and the pages write through these. What the portal itself writes for jobs (logs, configs, keys) goes to the
store directly: it is never refused, but it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from base.core import words
from base.core.errors import LongshoreError
from base.core.signals import files_grew
from base.files.quota.use import QuotaUse, drop_count, limit_of, outdate_count, use_of
from base.files.store import rules
from base.files.store.base import QuotaExceeded, Store, Writing, fill, find
from base.files.store.rules import Accounts


@dataclass(frozen=True, slots=True)
class Writes:
    """The writing operations of a Store, with its errors and QuotaExceeded. That leaves everything as it was, but for
    what was appended until then."""

    store: Store
    accounts: Accounts

    def begin(
        self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True, size: int | None = None
    ) -> Writing:
        """``size``: how many bytes will come, where that is known; they are then refused before the first one."""
        room = self._room(path)
        if room is None:
            return self.store.begin(path, owner=owner, mode=mode, overwrite=overwrite)
        room.freed = self._size(path)
        room.reach(size or 0)
        with room.given_back_on_error():
            inner = self.store.begin(path, owner=owner, mode=mode, overwrite=overwrite)
            return _Limited(inner, room, lambda: self._size(path))

    def write(
        self, path: str, chunks: Iterable[bytes], *, owner: str = "", overwrite: bool = True, size: int | None = None
    ) -> int:
        return fill(self.begin(path, owner=owner, overwrite=overwrite, size=size), chunks)

    def begin_append(self, path: str, *, size: int | None = None) -> Writing:
        room = self._room(path)
        if room is None:
            return self.store.begin_append(path)
        room.reach(size or 0)
        with room.given_back_on_error():
            return _LimitedAppend(self.store.begin_append(path), room)

    def room(self, folder: str, size: int) -> Room | None:
        """Room for ``size`` bytes of files that are written below the folder past this; None where there is no limit.
        Raises QuotaExceeded."""
        room = self._room(folder)
        if room is not None:
            room.reach(size)
        return room

    def require_room(self, path: str, size: int) -> None:
        """QuotaExceeded where ``size`` bytes more, as many as will be written below the path, do not fit now."""
        if room := self._room(path):
            room.reach(size)
            room.give_back()

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        with self._room_for([source], target, self._size(target) if overwrite else 0):
            self.store.rename(source, target, overwrite=overwrite)

    def concat(self, path: str, sources: Sequence[str]) -> None:
        with self._room_for(sources, path):
            self.store.concat(path, sources)

    def truncate(self, path: str, size: int) -> None:
        self.store.truncate(path, size)
        self._outdate(path)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        self.store.delete(path, recursive=recursive)
        self._outdate(path)

    def _room(self, path: str) -> Room | None:
        """None where there is no limit."""
        owner = rules.owner_of(path, self.accounts)
        limit = limit_of(owner) if owner else None
        if limit is None:
            drop_count(owner)
            return None
        return Room(use_of(owner, self.store), limit, owner)

    def _size(self, path: str) -> int:
        there = find(self.store, path)
        return there.size if there else 0

    @contextmanager
    def _room_for(self, sources: Sequence[str], target: str, freed: int = 0) -> Iterator[None]:
        """Room in the tree of ``target`` for the sources that come from other trees. ``freed``: bytes that are
        replaced there."""
        owner = rules.owner_of(target, self.accounts)
        others = [path for path in sources if rules.owner_of(path, self.accounts) != owner]
        room = self._room(target) if others else None
        try:
            if room is None:
                yield
                return
            room.freed = freed
            room.reach(sum(self.store.usage(path).size for path in others))
            with room.given_back_on_error():
                yield
            room.keep()
        except LongshoreError:
            self._outdate(target)  # what failed may have done a part
            raise
        finally:
            for path in others:
                self._outdate(path)

    def _outdate(self, path: str) -> None:
        if owner := rules.owner_of(path, self.accounts):
            outdate_count(owner)


@dataclass(slots=True)
class Room:
    """What one write takes of a user's quota."""

    use: QuotaUse
    limit: int
    owner: str
    freed: int = 0  # bytes of the file that is replaced
    taken: int = 0

    def reach(self, size: int) -> None:
        """Take what ``size`` bytes in all need. Raises QuotaExceeded."""
        more = max(0, size - self.freed) - self.taken
        if more <= 0:
            return
        if (left := self.use.take(more, self.limit)) is not None:
            free, needed = words.told_apart(max(0, left + self.taken), size - self.freed)
            raise QuotaExceeded(
                f"The files of {self.owner} may take {words.size(self.limit)} in the store, and {free} of that is"
                f" free: {needed} more does not fit. Delete files, or ask an admin for more room."
            )
        self.taken += more

    def keep(self) -> None:
        self.use.keep(self.taken)
        self.taken = 0
        files_grew.send_robust(None, username=self.owner, used=self.use.known(), limit=self.limit)
        if self.freed:
            self.use.outdate()

    def give_back(self) -> None:
        self.use.give_back(self.taken)
        self.taken = 0

    @contextmanager
    def given_back_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.give_back()
            raise


class _Limited:
    """A Writing that takes room for every piece before it is added. ``replaced`` tells the size of the file whose place
    it takes."""

    def __init__(self, inner: Writing, room: Room, replaced: Callable[[], int]) -> None:
        self._inner, self._room, self._replaced, self._size = inner, room, replaced, 0

    def add(self, piece: bytes) -> None:
        self._room.reach(self._size + len(piece))
        self._size += len(piece)
        self._inner.add(piece)

    def keep(self) -> int:
        self._room.freed = min(self._room.freed, self._replaced())  # it may have been moved away meanwhile
        self._room.reach(self._size)
        size = self._inner.keep()
        self._room.keep()
        return size

    def drop(self) -> None:
        self._inner.drop()
        self._room.give_back()


class _LimitedAppend(_Limited):
    """As HDFS has it, what was appended stays when the rest does not come or has no room: others may have appended
    behind it. Where a store does not keep it, the next count says so."""

    def __init__(self, inner: Writing, room: Room) -> None:
        super().__init__(inner, room, lambda: 0)

    def drop(self) -> None:
        self._inner.drop()
        if self._room.taken:
            self._room.keep()
            self._room.use.outdate()
