"""Converts values as the v1 server did, before the types of the spec check them. Pure.

The rules are those of the v1 contract, 1.2: a numeric string is a number, a JSON string may stand for an object or
an array, nothing is trimmed, ``null`` and booleans are not numbers.
"""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError, PydanticKnownError

from base.core import words
from clusters.engines.image_names import is_id
from jobs.config import jsonc

STORED = "stored"  # the context for reading a spec that was accepted before
SAFE_INTEGER = 2**53 - 1
_NUMBER = re.compile(r"[ \t\r\n]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t\r\n]*")
_WORD = re.compile(r"\w", re.ASCII)
_EXTRA_NAME = re.compile(r"[A-Za-z0-9._]")
_ENV_REFUSED = re.compile(r"[=\x00-\x1f\x7f]")


def integer(value: Any) -> int:
    """The whole number that a value stands for. Raises pydantic's errors for anything else."""
    number = value if type(value) is int else numeric(value)
    if isinstance(number, float):
        if math.isinf(number):
            raise PydanticCustomError("infinite", "infinite")
        if not number.is_integer():
            raise PydanticKnownError("int_from_float")
        number = int(number)
    if abs(number) > SAFE_INTEGER:
        raise PydanticCustomError("int_unsafe", "not an exact integer")
    return number


def boolean(value: Any) -> bool:
    """The truth that a value stands for. Raises pydantic's error for anything but true, false and their names."""
    truth = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
    if not isinstance(truth, bool):
        raise PydanticKnownError("bool_type")
    return truth


def container(value: Any) -> Any:
    """The object or array that a JSON string stands for. Anything else is returned as it is: its type decides about
    it."""
    if not isinstance(value, str):
        return value
    try:
        decoded = jsonc.decode(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, dict | list) else value


def env_name(name: str) -> str:
    """The name, if it may be one of an environment variable. v1 wants a letter, a digit or ``_`` anywhere in it; ``=``
    and control characters are impossible in such a name."""
    if not _WORD.search(name) or _ENV_REFUSED.search(name):
        raise PydanticCustomError("env_name", "not a name for an environment variable")
    return name


def extra_name(name: str) -> str:
    """The name, if it may be one in ``extras``."""
    if not _EXTRA_NAME.search(name):
        raise PydanticCustomError("extra_name", "not a name for an extra")
    return name


def addressable(name: str, info: ValidationInfo) -> str:
    """The name, unless it is ``.`` or ``..``, which every client takes out of an address and which are no folders of
    the store. The first release accepted them, so what is stored stays readable."""
    if name in (".", "..") and info.context != STORED:
        raise PydanticCustomError("not_addressable", "not a name that an address can hold")
    return name


def seen(name: str, info: ValidationInfo) -> str:
    """The name, unless it has a sign that nobody sees: lists would show it as another one, or backwards."""
    if info.context != STORED and (sign := words.unseen(name)):
        raise PydanticCustomError("unseen", "a sign that nobody sees", {"sign": sign})
    return name


def image_name(name: str, info: ValidationInfo) -> str:
    """The name, unless it is the id of an image."""
    if is_id(name) and info.context != STORED:
        raise PydanticCustomError("image_id", "an id of an image", {"v1": "must be the name of an image"})
    return name


def numeric(value: Any) -> int | float:
    """The number that a value stands for; infinity for one that is larger than any double. Raises pydantic's error for
    anything else."""
    if isinstance(value, str):
        # float() reads more spellings (1_000, inf, digits of other scripts) than v1's parseFloat with isFinite.
        if not _NUMBER.fullmatch(value) or math.isinf(float(value)):
            raise PydanticKnownError("int_type")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticKnownError("int_type")
    try:
        if math.isnan(value):
            raise PydanticKnownError("int_type")
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return value
