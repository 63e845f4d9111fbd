"""Keeps the last bytes that a shell has written, by their number since it began. Pure."""

from __future__ import annotations

KEPT = 256 * 1024  # bytes that a new window gets
_MORE = 128 * 1024  # bytes that are kept beside, for a window that has begun before more was written
_FIRST_LINE = 4096  # bytes that may be left out so that what is shown begins with a whole line


class Scrollback:
    def __init__(self) -> None:
        self._data = bytearray()
        self.total = 0  # bytes written since the shell began

    @property
    def first(self) -> int:
        """The number of the first byte that is there."""
        return self.total - len(self._data)

    def add(self, data: bytes) -> None:
        self._data += data
        self.total += len(data)
        if len(self._data) > KEPT + _MORE:
            del self._data[: len(self._data) - KEPT - _MORE]

    def since(self, number: int, most: int) -> bytes:
        """The bytes from ``number`` on, ``most`` at most. ``number`` is ``first`` or later."""
        at = number - self.first
        return bytes(self._data[at : at + most])

    def begin(self, wanted: int | None) -> int:
        """Where to go on for who has all before ``wanted``. Where that is not there, or None, from the beginning: of
        the first whole line, since what is cut may be half of a letter or of a colour."""
        if wanted is not None and max(self.first, self.total - KEPT) <= wanted <= self.total:
            return wanted
        first = max(self.first, self.total - KEPT)
        if first == 0:
            return 0
        at = first - self.first
        end = self._data.find(b"\n", at, at + _FIRST_LINE)
        return self.first + end + 1 if end >= 0 else first
