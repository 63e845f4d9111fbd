"""Reads JSON with ``//`` and ``/* */`` comments and trailing commas, and where in the text each value stands. Pure.

Comments and trailing commas are blanked with spaces of the same length, so every offset stays true, and the rest
is strict JSON: no NaN, no single quotes. Nothing inside a string is ever touched (``hdfs://...``). What strict JSON
allows but a config must not have (a key twice, NUL, half of a surrogate pair, 1e999) becomes a ``Fault``; text that is
not JSON, or is nested too deep, raises ``NotJson``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from base.core.errors import Mend, Problem

MAX_DEPTH = 64
_FLOAT_DIGITS = 310  # a number of more digits is larger than any double, and is read as one

# Possessive, and with an optional end, so that an unclosed string or comment is scanned once and not once per quote.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|(?P<comment>//[^\r\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
_TRAILING = re.compile(
    rf'(?P<before>(?:{_STRING}|[^ \t\r\n"\[{{,:])[ \t\r\n]*),(?=[ \t\r\n]*[}}\]])|{_STRING}', re.DOTALL
)
_PERHAPS_TRAILING = re.compile(r",[ \t\r\n]*+[}\]]")
_TOKEN = re.compile(rf'{_STRING}|[\[\]{{}},:]|[^ \t\r\n"\[\]{{}},:]+', re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
_LINE_END = re.compile(r"\r\n?|\n")
_UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")
_ODD_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")

_ONE_LINE = (
    " All of it is one line, so a // comment hides the rest. curl -d @file takes the line ends out of a file;"
    " --data-binary @file keeps them."
)
_WORDS = {
    "Expecting value": "A value is missing here.",
    "Expecting property name enclosed in double quotes": "A key in double quotes must stand here.",
    "Expecting ':' delimiter": "A colon is missing before this.",
    "Expecting ',' delimiter": "A comma or a closing bracket is missing before this.",
    "Unterminated string starting at": "This text has no closing quote.",
    "Invalid control character at": "A line break or tab inside a text must be written as \\n or \\t.",
    "Extra data": "Nothing may follow the end of the config.",
}


class NotJson(Exception):
    """The text cannot be read. ``v1`` is the message in the words of the v1 server; ``is_syntax`` is False when the
    text is JSON but nested too deep; ``at`` is the offset, of which line and column count from 1."""

    def __init__(self, message: str, v1: str, text: str, at: int, *, is_syntax: bool = True) -> None:
        super().__init__(message)
        self.message, self.v1, self.at, self.is_syntax = message, v1, at, is_syntax
        self.line, self.column = line_column(text, at)


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """Where a value and its key begin; ``key`` is None for elements of an array and for the whole text."""

    value: int
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that JSON allows and a config must not have; ``at`` is its offset in the text."""

    at: int
    path: str
    v1: str
    message: str


class Document:
    """A parsed text. ``places`` (the Span of each JSON pointer) and ``faults`` are computed when they are first
    used."""

    def __init__(self, text: str, value: Any, *, is_suspect: bool) -> None:
        self.text, self.value, self._is_suspect = text, value, is_suspect

    @cached_property
    def places(self) -> dict[str, ValueSpan]:
        return {path: place for path, place, _ in self._walk}

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(_faults(self._walk)) if self._is_suspect else ()

    @cached_property
    def _walk(self) -> list[tuple[str, ValueSpan, str]]:
        return list(_walk(self.text))

    def offset(self, path: str, *, of_key: bool = False) -> int:
        """Where ``path`` begins in the text. For a path that the text does not have, where its nearest ancestor
        begins."""
        while path and path not in self.places:
            path, of_key = path.rpartition("/")[0], False
        place = self.places.get(path, ValueSpan(0))
        return place.key if of_key and place.key is not None else place.value

    def end(self, path: str) -> int:
        """Where the value of ``path``, which the text has, ends."""
        start, depth = self.places[path].value, 0
        for token in _TOKEN.finditer(self.text, start):
            depth += (token[0] in "{[") - (token[0] in "}]")
            if depth == 0:
                return token.end()
        raise AssertionError("a text that was parsed has all its brackets")

    def line_column(self, offset: int) -> tuple[int, int]:
        return line_column(self.text, offset)

    def problem(self, path: str, message: str, mend: Mend | None = None, *, of_key: bool = False) -> Problem:
        """A problem of what is at ``path``."""
        return Problem(*self.line_column(self.offset(path, of_key=of_key)), path, message, mend)


def parse(text: str) -> Document:
    """The parsed text, without a byte order mark at its start. Raises NotJson."""
    text = text.removeprefix("\ufeff")
    if sign := _UNKEEPABLE.search(text):
        _refuse(text, sign.start(), f"This text contains {unkeepable(sign[0])}.")
    hint = _ONE_LINE if _is_cut_by_comment(text) else ""
    text = blank(text)
    seen = _Seen()
    try:
        value = seen.load(text)
        if _depth_over(value, MAX_DEPTH):
            raise RecursionError
    except json.JSONDecodeError as error:
        _refuse(text, error.pos, _words(error), hint)
    except RecursionError:
        _refuse_depth(text)
    if seen.has_constant:
        at = next(token.start() for token in _TOKEN.finditer(text) if token[0] in ("NaN", "Infinity", "-Infinity"))
        _refuse(text, at, "NaN and Infinity are not JSON; write a number.")
    return Document(text, value, is_suspect=seen.is_suspect)


def decode(text: str) -> Any:
    """Return the value of strict JSON inside a string of a config. Raises ValueError for anything else, and for what
    would be a Fault in a text of its own."""
    seen = _Seen()
    try:
        value = seen.load(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    document = Document(text, value, is_suspect=seen.is_suspect)
    if seen.has_constant or _depth_over(value, MAX_DEPTH) or document.faults:
        raise ValueError("not plain JSON")
    return value


def blank(text: str) -> str:
    """The text with spaces in place of comments and trailing commas; its length and its lines stay."""
    if "//" in text or "/*" in text:
        text = _COMMENT.sub(lambda m: _VISIBLE.sub(" ", m[0]) if m["comment"] else m[0], text)
    if _PERHAPS_TRAILING.search(text):
        text = _TRAILING.sub(lambda m: m["before"] + " " if m["before"] else m[0], text)
    return text


def line_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset. Both count from 1, and a column is one character."""
    line, start = 1, 0
    for end in _LINE_END.finditer(text, 0, offset):
        line, start = line + 1, end.end()
    return line, offset - start + 1


def unkeepable(value: str) -> str | None:
    """Names what is in a string and no database or container can hold; None when there is nothing like that."""
    sign = _UNKEEPABLE.search(value)
    if sign is None:
        return None
    return "the character NUL" if sign[0] == "\x00" else "half of a surrogate pair"


class _Seen:
    """Loads JSON at full speed, and notes whether there is something that only the slow walk can locate."""

    def __init__(self) -> None:
        self.has_constant = self.is_suspect = False

    def load(self, text: str) -> Any:
        self.is_suspect = _ODD_ESCAPE.search(text) is not None
        return json.loads(
            text,
            object_pairs_hook=self._object,
            parse_constant=self._constant,
            parse_int=self._int,
            parse_float=self._float,
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        self.is_suspect |= len(members) != len(pairs)
        return members

    def _constant(self, _: str) -> None:
        self.has_constant = True

    def _int(self, digits: str) -> int | float:
        return int(digits) if len(digits) < _FLOAT_DIGITS else self._float(digits)

    def _float(self, digits: str) -> float:
        number = float(digits)
        self.is_suspect |= math.isinf(number)
        return number


def _depth_over(value: Any, limit: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return limit == 0 or any(_depth_over(item, limit - 1) for item in inner)


def _walk(text: str) -> Iterator[tuple[str, ValueSpan, str]]:
    """Each value of a text that is JSON, in order: its JSON pointer, its Span, its first token."""
    stack: list[tuple[str, int | None]] = []  # of open containers: pointer, next index (None: an object)
    path, key_at = "", None
    is_key = False
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in "}]":
            path, _ = stack.pop()
            is_key = False
        elif word == ",":
            parent, index = stack[-1]
            is_key, key_at = index is None, None
            if index is not None:
                stack[-1] = (parent, index + 1)
                path = f"{parent}/{index + 1}"
        elif word == ":":
            is_key = False
        elif is_key:
            path, key_at = f"{stack[-1][0]}/{escape(json.loads(word))}", token.start()
        else:
            yield path, ValueSpan(token.start(), key_at), word
            if word in "{[":
                stack.append((path, 0 if word == "[" else None))
                is_key, key_at = word == "{", None
                path = f"{path}/0" if word == "[" else path


def _faults(walk: list[tuple[str, ValueSpan, str]]) -> Iterator[Fault]:
    seen: set[str] = set()
    for path, place, word in walk:
        name = unescape(path.rpartition("/")[2])
        if path in seen and place.key is not None:
            yield Fault(place.key, path, f'"{name}" is a duplicate key', f"{shown(name)} stands here a second time.")
        seen.add(path)
        if place.key is not None and (what := unkeepable(name)):
            yield Fault(place.key, path, f'"{ascii(name)[1:-1]}" is not allowed', f"This name contains {what}.")
        if word[0] == '"' and (what := unkeepable(json.loads(word))):
            yield Fault(place.value, path, f'"{name}" contains an invalid value', f"This text contains {what}.")
        if word[0] in "-0123456789" and math.isinf(float(word)):
            yield Fault(place.value, path, f'"{name}" contains an invalid value', "This number is too large.")


def pointer(loc: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a place in the config."""
    return "".join("/" + escape(str(step)) for step in loc)


def escape(key: str) -> str:
    """A key as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def shown(name: str) -> str:
    """A name as messages show it: short, on one line, and always encodable."""
    cut = _cut(name)
    return cut if cut.isprintable() and cut else ascii(cut)


def quoted(text: str) -> str:
    """A value as messages show it, in double quotes."""
    cut = _cut(text)
    return f'"{cut if cut.isprintable() else ascii(cut)[1:-1]}"'


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _words(error: json.JSONDecodeError) -> str:
    if error.msg.startswith("Invalid \\"):
        return "This escape is not known; write \\\\ for a backslash."
    if error.pos >= len(error.doc.rstrip()):
        return "The config ends too early: something is not closed." if error.doc.strip() else "The config is empty."
    if error.msg == "Expecting value" and error.doc[error.pos] not in ",:]}":
        return "This is not a value; a text stands in double quotes."
    return _WORDS.get(error.msg, f"This is not JSON: {error.msg}.")


def _refuse(text: str, at: int, message: str, hint: str = "") -> NoReturn:
    """Raise NotJson. Its ``v1`` is the message of V8, which depends on the character at the offset; ``hint`` follows
    both messages."""
    sign = text[at : at + 1]
    if not text[at:].strip() or (sign == '"' and message == _WORDS["Unterminated string starting at"]):
        v1 = "Unexpected end of JSON input"
    elif sign == '"' or sign in "-0123456789":
        kind = "string" if sign == '"' else "number"
        v1 = f"Unexpected {kind} in JSON at position {at}"
    else:
        v1 = f"Unexpected token {sign if not _UNKEEPABLE.match(sign) else '?'} in JSON at position {at}"
    raise NotJson(message + hint, f"{v1}.{hint}" if hint else v1, text, at)


def _is_cut_by_comment(text: str) -> bool:
    comments = (match["comment"] or "" for match in _COMMENT.finditer(text))
    return not _LINE_END.search(text.strip()) and any(comment.startswith("//") for comment in comments)


def _refuse_depth(text: str) -> NoReturn:
    depth = at = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth > MAX_DEPTH:
            at = token.start()
            break
    v1 = f'"value" must not be nested deeper than {MAX_DEPTH} levels'
    raise NotJson(f"The config is nested deeper than {MAX_DEPTH} levels.", v1, text, at, is_syntax=False)
