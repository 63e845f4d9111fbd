"""Reads request bodies as v1 took them: JSON as text, nested forms (``taskRoles[0][name]=w``), JSON without a type.

JSON stays text, because its readers report lines and columns and may allow comments; a form becomes values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import parse_qsl

from rest_framework.parsers import BaseParser, JSONParser

from base.core.errors import BadRequest, TooLarge
from base.serving.bodies import ANONYMOUS

MAX_BODY = ANONYMOUS  # bytes
MAX_DEPTH = 20  # of brackets in a form's key
MAX_FIELDS = 5000
_INDEX_DIGITS = 4  # a longer number in brackets is a name, not a place in a list


class Json(JSONParser):
    """Gives values. Text that is nested too deep is the sender's mistake; the library would raise RecursionError."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise BadRequest("The body is nested too deep.") from None


class JsonText(BaseParser):
    """Gives the text, a ``str``."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        data: bytes = stream.read(MAX_BODY + 1)
        if len(data) > MAX_BODY:
            raise TooLarge
        try:
            return self.value(data.decode())
        except UnicodeDecodeError as error:
            raise BadRequest(f"The body is not UTF-8: byte {error.start} cannot be read.") from None

    def value(self, text: str) -> Any:
        return text


class NestedForm(JsonText):
    """Gives dicts, lists and strings, as Node's ``qs`` does.

    Ours, because the library qs-codec reads a form of 4,000 fields in 2.9 s (this does in 0.06 s): a few clients could
    keep a server busy with bodies of 100 kB."""

    media_type = "application/x-www-form-urlencoded"

    def value(self, text: str) -> Any:
        return parse_form(text)


class NoForm(BaseParser):
    """A multipart body is not read, as in v1: it counts as an empty object."""

    media_type = "multipart/form-data"

    def parse(self, stream: IO[Any], *about: Any, **more: Any) -> Any:
        return {}


class UntypedText(JsonText):
    """``text/plain``, ``text/yaml`` or no type at all: clients send JSON under them."""

    media_type = "*/*"


def parse_form(text: str) -> dict[str, Any]:
    """``a[b][0]=x&a[b][1]=y`` -> ``{"a": {"b": ["x", "y"]}}``. Raises BadRequest for what is too deep or too wide."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise BadRequest(f"The form has more than {MAX_FIELDS} fields.") from None
    root = _Branch()
    for key, value in pairs:
        _put(root, _steps(key), value)
    return {key: _settled(value) for key, value in root.items()}


class _Branch(dict[str, Any]):
    """An object or a list: that is decided when all of its keys are there."""


def _steps(key: str) -> list[str]:
    head, bracket, rest = key.partition("[")
    if not bracket or not head or not rest.endswith("]"):
        return [key]
    steps = [head, *rest[:-1].split("][")]
    if len(steps) > MAX_DEPTH:
        raise BadRequest(f"The form is nested deeper than {MAX_DEPTH} levels.")
    return steps


def _put(node: _Branch, steps: list[str], value: str) -> None:
    *path, last = steps
    for step in path:
        step = step or str(len(node))
        child = node.get(step)
        if not isinstance(child, _Branch):
            child = node[step] = _Branch({} if child is None else {"0": child})
        node = child
    last = last or str(len(node))
    held = node.get(last)
    if isinstance(held, _Branch):
        held[str(len(held))] = value
    else:
        node[last] = value if held is None else _Branch({"0": held, "1": value})


def _settled(value: Any) -> Any:
    if not isinstance(value, _Branch):
        return value
    if all(key.isascii() and key.isdigit() and len(key) <= _INDEX_DIGITS for key in value):
        return [_settled(value[key]) for key in sorted(value, key=int)]
    return {key: _settled(inner) for key, inner in value.items()}
