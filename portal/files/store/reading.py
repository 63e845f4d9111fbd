"""Reads the body of a server's answer as a file."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from portal.files.store.base import StoreUnavailable


class Reading(io.RawIOBase):
    """A file that is being read. An answer that ends too early raises StoreUnavailable: it is not the end of the file.

    ``read`` gives at most as many bytes of the body as it is asked for, ``left`` is how many bytes it has, ``close``
    gives the connection back. ``kind``: what the store is on, for people."""

    def __init__(
        self, path: str, kind: str, read: Callable[[int], bytes], close: Callable[[], object], left: int
    ) -> None:
        self._path, self._kind, self._read, self._close, self._left = path, kind, read, close, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            return 0
        try:
            data = self._read(min(len(buffer), self._left))
        except Exception as error:  # the libraries' own, which only their edges know
            raise self._broke_off(type(error).__name__) from None
        if not data:
            raise self._broke_off("it ended too early")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._close()
        super().close()

    def _broke_off(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(f"The file store ({self._kind}) broke off while {self._path} was read: {why}.")
