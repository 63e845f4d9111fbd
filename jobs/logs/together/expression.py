"""Regular expressions that users search logs with: RE2, which takes a time in proportion to the text, whatever the
expression.

A backtracking engine such as Python's may take for ever on an expression and a line that a user chose, and a thread
in it cannot be stopped. RE2 has no such case, has limits of its own for memory, and searches without holding up other
threads of Python. It has no back-references and no look-around; both are refused with a sentence.

An expression without capital letters matches in any case. It matches within one line. Codes of colours are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import re2

from base.core.errors import BadRequest

LONGEST = 200  # characters
_MEMORY = 16 << 20  # bytes that one expression may take
_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,30}m")
_ESCAPED = re.compile(r"\\[pP]\{[^}]*\}|\\.")


class Expression:
    """One expression. Raises BadRequest with what is wrong with it."""

    def __init__(self, text: str) -> None:
        if not text or len(text) > LONGEST or "\n" in text or "\0" in text:
            raise BadRequest(f"An expression has 1 to {LONGEST} characters of one line.")
        self._rest_of_line = _compiled(rf"(?:{text}).*", text)
        self._pattern = _compiled(text, text)

    def lines(self, data: bytes) -> Iterator[int]:
        """Where in ``data`` the matches are, each with at most one of its line: the places are those in the text
        without codes of colours, ``plain`` of it."""
        for match in self._rest_of_line.finditer(data):
            yield match.start()

    def spans(self, text: str, most: int = 100) -> list[tuple[int, int]]:
        """The matches in a line: first and last place, as JavaScript counts them (in UTF-16)."""
        spans: list[tuple[int, int]] = []
        data = text.encode()
        for match in self._pattern.finditer(data):
            if match.end() > match.start():
                spans.append((_places(data, match.start()), _places(data, match.end())))
            if len(spans) >= most:
                break
        return spans


def plain(data: bytes) -> bytes:
    """The bytes without codes of colours; as many lines."""
    return _COLOUR.sub(b"", data) if b"\x1b" in data else data


@lru_cache(16)  # each may keep _MEMORY for as long as it is remembered
def _compiled(pattern: str, text: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.max_mem = _MEMORY
    options.case_sensitive = any(sign.isupper() for sign in _ESCAPED.sub("", text))
    try:
        alone = re2.compile(f"(?m){text}".encode(), options)  # so that ")|(" opens nothing of ours
        return re2.compile(f"(?m){pattern}".encode(), options) if pattern != text else alone
    except re2.error as error:
        raise BadRequest(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    words = words.replace("(?m)", "", 1)  # ours
    if "invalid perl operator" in words:
        return f"Look-around is not known here, because it may take for ever: {words.rpartition(': ')[2]}"
    if "invalid escape sequence" in words and re.search(r"\\[1-9]$", words):
        return f"References to groups are not known here, because they may take for ever: {words.rpartition(': ')[2]}"
    return f"This is no regular expression: {words}. Put \\ before a sign that means itself."


def _places(data: bytes, offset: int) -> int:
    return len(data[:offset].decode("utf-8", "replace").encode("utf-16-le")) // 2
