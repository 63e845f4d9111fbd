"""Reads the body of an HTTP answer as a file."""

from __future__ import annotations

import io
from typing import Any

import requests

from portal.files.store.base import StoreUnavailable


class Reading(io.RawIOBase):
    """A file that is being read. An answer that ends too early raises an error: it is not the end of the file."""

    def __init__(self, path: str, answer: requests.Response, left: int) -> None:
        self._path, self._answer, self._left = path, answer, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._answer.raw.read(min(len(buffer), max(self._left, 0)))
        except Exception as error:  # urllib3's own
            raise self._broke_off(type(error).__name__) from None
        if not data and self._left > 0:
            raise self._broke_off("it ended too early")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._answer.close()
        super().close()

    def _broke_off(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(f"The file store (HDFS) broke off while {self._path} was read: {why}.")
