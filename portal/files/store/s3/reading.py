"""Reads the body of an answer of the S3 server as a file."""

from __future__ import annotations

import io
from typing import Any

from portal.files.store.base import StoreUnavailable


class Reading(io.RawIOBase):
    """A file that is being read. ``left``: its bytes; an answer that ends earlier raises an error."""

    def __init__(self, path: str, body: Any, left: int) -> None:
        self._path, self._body, self._left = path, body, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            return 0
        try:
            data = self._body.read(min(len(buffer), self._left))
        except Exception as error:  # botocore's and urllib3's own
            raise self._broke_off(type(error).__name__) from None
        if not data:
            raise self._broke_off("it ended too early")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._body.close()
        super().close()

    def _broke_off(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(f"The file store (S3) broke off while {self._path} was read: {why}.")
