"""Says the first violation of a config in the very words of the v1 server (v1 contract, 1.3). Pure.

The v1 server checked with Joi 13: known fields in schema order, elements by position, unknown keys last and all
at once, each level wrapping the message of the level below. pydantic reports in the same order, so the first error of
its list is Joi's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Error = Mapping[str, Any]  # pydantic_core.ErrorDetails, with the document's own faults in the same shape
Loc = tuple[str | int, ...]

MIN_COUNT_MESSAGE = "minFailedTaskCount or minSucceededTaskCount should not be greater than tasks number."

_FIXED = {
    "missing": "is required",
    "extra_forbidden": "is not allowed",
    "env_name": "is not allowed",
    "extra_name": "is not allowed",
    "string_type": "must be a string",
    "string_too_short": "is not allowed to be empty",
    "int_type": "must be a number",
    "int_from_float": "must be an integer",
    "int_unsafe": "must be an integer",
    "bool_type": "must be a boolean",
    "infinite": "contains an invalid value",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be an array",
    "list_type": "must be an array",
    "too_short": "must contain at least 1 items",
    "level": "must be a level",
}
_UNKNOWN_KEYS = frozenset({"extra_forbidden", "env_name", "extra_name"})


def own_error(kind: str, loc: Loc, value: Any, **ctx: Any) -> Error:
    """Return an error of our own in pydantic's shape. ``ctx`` has its ``sentence`` and, as ``v1``, the words of Joi."""
    return {"type": kind, "loc": loc, "input": value, "ctx": ctx, "msg": kind}


def first_violation(errors: Sequence[Error]) -> str:
    """The message of the v1 server for these errors, of which there is at least one, in pydantic's order."""
    first = errors[0]
    if first["type"] == "min_count":
        return MIN_COUNT_MESSAGE
    loc = location(first)
    if first["type"] not in _UNKNOWN_KEYS:
        phrase = _FIXED.get(first["type"]) or _limit(first["type"], first.get("ctx", {}), first["input"])
        name = loc[-1] if loc else "value"
        return _nest(loc, f'"{name}" {phrase}')
    siblings = [location(e)[-1] for e in errors if e["type"] in _UNKNOWN_KEYS and location(e)[:-1] == loc[:-1]]
    refused = [f'"{key}" is not allowed' for key in sorted(siblings, key=_as_javascript_lists)]
    return _nest(loc[:-1], (", " if len(loc) > 1 else ". ").join(refused))


def location(error: Error) -> Loc:
    """The place of an error, without pydantic's sign that the key and not the value is wrong."""
    loc: Loc = tuple(error["loc"])
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _limit(kind: str, ctx: Mapping[str, Any], value: Any) -> str:
    match kind:
        case "string_pattern_mismatch":
            return f'with value "{value}" fails to match the required pattern: /{ctx["pattern"]}/'
        case "string_too_long":
            return f"length must be less than or equal to {ctx['max_length']} characters long"
        case "greater_than_equal":
            return f"must be larger than or equal to {ctx['ge']}"
        case "less_than_equal" | "shm_over_memory":
            return f"must be less than or equal to {ctx['le']}"
        case "too_long":
            return f"must contain less than or equal to {ctx['max_length']} items"
        case "literal_error":
            words = re.findall(r"\w+", ctx["expected"].replace(" or ", " "))
            return f"must be one of [{', '.join(words)}]"
        case "duplicate":
            return f"position {ctx['position']} contains a duplicate value"
        case _:
            return str(ctx.get("v1", "contains an invalid value"))


def _nest(loc: Loc, message: str) -> str:
    for depth in range(len(loc) - 1, -1, -1):
        step = loc[depth]
        if isinstance(step, int):
            message = f'"{loc[depth - 1]}" at position {step} fails because [{message}]'
        else:
            message = f'child "{step}" fails because [{message}]'
    return message


def _as_javascript_lists(key: str | int) -> tuple[bool, int]:
    """A key to sort by: Object.keys lists keys like those of an array first, by number, and the others as written."""
    text = str(key)
    is_index = text.isascii() and text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 11
    return (not is_index, int(text) if is_index else 0)
