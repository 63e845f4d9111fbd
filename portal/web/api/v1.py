"""What routes of v1 share: they take three kinds of body, answer JSON, and report the first violation in v1's words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.core import words
from portal.core.errors import BadRequest, TooLarge
from portal.web.api.parsers import MAX_BODY, JsonText, NestedForm, NoForm, UntypedText


class V1View(APIView):
    """Answers JSON whatever the client says it accepts, as v1 does."""

    parser_classes = (JsonText, NestedForm, NoForm, UntypedText)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        return super().perform_content_negotiation(request, force=True)


def body(request: Request) -> Any:
    """JSON text (a ``str``) or the values of a form. Raises TooLarge before it reads."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY:
        raise TooLarge
    return request.data


def fields(request: Request) -> dict[str, Any]:
    """The body as an object, sent as JSON, as a form or as JSON without a type; without a body it is empty. Values of a
    form are texts. Raises BadRequest (with no code when it is not JSON) and TooLarge."""
    data = body(request)
    if isinstance(data, str):
        data = _parsed(data)
    if not isinstance(data, Mapping):
        raise BadRequest('"value" must be an object')
    return dict(data)


def said(message: str, status: int = 201) -> Response:
    """The answer to most writes: a sentence."""
    return Response({"message": message}, status=status)


def wrong(name: str, what: str) -> BadRequest:
    """v1's error about one key of a body: ``wrong("password", "is required")``."""
    return BadRequest(f'child "{name}" fails because ["{name}" {what}]')


def refuse_others(data: Iterable[str], known: Iterable[str]) -> None:
    names = frozenset(known)
    for name in data:
        if name not in names:
            raise BadRequest(f'"{name}" is not allowed')


def text_of(data: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    """A text that must be there. ``empty``: "" will do."""
    if name not in data:
        raise wrong(name, "is required")
    value = data[name]
    if not isinstance(value, str):
        raise wrong(name, "must be a string")
    if not value and not empty:
        raise wrong(name, "is not allowed to be empty")
    if "\x00" in value:
        raise wrong(name, "contains an invalid value")
    return value


def number_of(data: Mapping[str, Any], name: str, least: float, most: float) -> float:
    """A number that must be there, or a text that is one (forms have nothing else)."""
    if name not in data:
        raise wrong(name, "is required")
    value = data[name]
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            pass
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise wrong(name, "must be a number")
    if value < least:
        raise wrong(name, f"must be larger than or equal to {plain(least)}")
    if value > most:
        raise wrong(name, f"must be less than or equal to {plain(most)}")
    return float(value)


def whole_of(data: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """A whole number that must be there."""
    value = number_of(data, name, least, most)
    if not value.is_integer():
        raise wrong(name, "must be an integer")
    return int(value)


def quota_of(data: Mapping[str, Any], name: str) -> int | None:
    """Bytes as a number, a text such as ``100g``, ``none`` or -1 for no limit; null for none of its own."""
    if name not in data:
        raise wrong(name, "is required")
    value = data[name]
    if value is None or value == "":
        return None
    try:
        size = value if isinstance(value, int) and not isinstance(value, bool) else words.quota_in(value)
    except (ValueError, TypeError, AttributeError):
        size = None
    if size is None or not words.UNLIMITED <= size < 1 << 63:
        raise wrong(name, "must be a number of bytes, a size such as 100g, none, or null")
    return size


def flag_of(data: Mapping[str, Any], name: str, default: bool | None = None) -> bool:
    """True, false or, as forms send them, their texts. Without ``default`` it must be there."""
    if name not in data:
        if default is None:
            raise wrong(name, "is required")
        return default
    value = data[name]
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise wrong(name, "must be a boolean")
    return value


def plain(value: float) -> int | float:
    """30.0 is written 30, as JavaScript does."""
    return int(value) if value == int(value) else value


def _parsed(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise BadRequest("The body holds half of a character pair.") from None
    except RecursionError:
        raise BadRequest("The body is nested too deep.") from None
    except json.JSONDecodeError as error:
        sign = text[error.pos : error.pos + 1]
        where = f"Unexpected token {sign} in JSON at position {error.pos}" if sign else "Unexpected end of JSON input"
        unreadable = BadRequest(where)
        unreadable.code = None
        raise unreadable from None
    except ValueError:
        raise BadRequest("The body holds a number of too many digits.") from None
