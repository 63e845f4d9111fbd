"""What the v1 server took for a number, an object or an array, before the spec's own types look at it.

Pure. The rules are those of v1 contract, 1.2: a numeric string is a number, a JSON string may stand for an object or
an array, nothing is trimmed, ``null`` and booleans are not numbers.
"""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError, PydanticKnownError

from jobs.config import jsonc

STORED = "stored"  # the context in which a spec is read that was accepted before
SAFE_INTEGER = 2**53 - 1
_NUMBER = re.compile(r"[ \t\r\n]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t\r\n]*")
_WORD = re.compile(r"\w", re.ASCII)
_EXTRA_NAME = re.compile(r"[A-Za-z0-9._]")
_ENV_REFUSED = re.compile(r"[=\x00-\x1f\x7f]")


def integer(value: Any) -> int:
    number = value if type(value) is int else _number(value)
    if isinstance(number, float):
        if math.isinf(number):
            raise PydanticCustomError("infinite", "infinite")
        if not number.is_integer():
            raise PydanticKnownError("int_from_float")
        number = int(number)
    if abs(number) > SAFE_INTEGER:
        raise PydanticCustomError("int_unsafe", "not an exact integer")
    return number


def container(value: Any) -> Any:
    """The object or array that a JSON string stands for; anything else unchanged, for the type itself to judge."""
    if not isinstance(value, str):
        return value
    try:
        decoded = jsonc.decode(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, dict | list) else value


def env_name(name: str) -> str:
    """v1 asks for one letter, digit or ``_`` anywhere; ``=`` and control characters cannot be in a name at all."""
    if not _WORD.search(name) or _ENV_REFUSED.search(name):
        raise PydanticCustomError("env_name", "not a name for an environment variable")
    return name


def extra_name(name: str) -> str:
    if not _EXTRA_NAME.search(name):
        raise PydanticCustomError("extra_name", "not a name for an extra")
    return name


def addressable(name: str, info: ValidationInfo) -> str:
    """``.`` and ``..`` in an address are taken out by every client, and in the store they are no folders. The first
    release took them: what is stored stays readable."""
    if name in (".", "..") and info.context != STORED:
        raise PydanticCustomError("not_addressable", "not a name that an address can hold")
    return name


def _number(value: Any) -> int | float:
    if isinstance(value, str):
        # float() knows more spellings (1_000, inf, other scripts' digits) than v1's parseFloat with isFinite did
        if not _NUMBER.fullmatch(value) or math.isinf(float(value)):
            raise PydanticKnownError("int_type")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise PydanticKnownError("int_type")
    return value
