"""Proposes how to mend a problem of a config, where a mend is certain. Pure.

Certain means: the config is right in this place afterwards, and no other change would be meant. A page has a button
for each; the text is changed by the page, which keeps comments and layout.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from base.core.errors import Mend
from base.core.words import whole
from jobs.config import jsonc
from jobs.config.v1_words import Error, Loc, location

_SIZE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]+)?)\s*([mMgGtT])(?:i?[bB])?\s*")
_MEGABYTES = {"m": 1, "g": 1024, "t": 1024 * 1024}
_SAFE = {
    r"^[A-Za-z0-9._~]+$": (r"[^A-Za-z0-9._~]+", "_"),
    r"^[A-Za-z0-9\-._]+$": (r"[^A-Za-z0-9\-._]+", "-"),
}
_NAMES = {"jobName": ("my-job",), "name": ("worker", "main", "server"), "label": ("http2", "rpc", "nccl")}
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_REQUIRED = frozenset({"jobName", "image", "taskRoles", "name", "command", "label"})


def mend_of(error: Error, value: Any) -> Mend | None:
    """The mend for an error in pydantic's shape, in the config whose decoded value this is; None when none is
    certain."""
    loc, written, ctx = location(error), error["input"], error.get("ctx", {})
    around, path = _at(value, loc[:-1]), jsonc.pointer(loc)
    match error["type"]:
        case "extra_forbidden":
            close = _closest(str(loc[-1]), [name for name in ctx.get("known", ()) if name not in around])
            return Mend(f'Rename to "{close}"', "rename", path, close) if close else None
        case "secret_name" if isinstance(around, dict) and "secrets" not in around:
            return Mend('Rename to "secrets"', "rename", path, "secrets")
        case "missing" if loc[-1] in _NAMES and isinstance(around, dict):  # nobody has to think about a name
            name = _free(_NAMES[str(loc[-1])], _names_beside(value, loc))
            return Mend(f'Name it "{name}"', "set", path, name)
        case "duplicate" if loc[-1] in ("name", "label"):
            name = _free((f"{written}2",), _names_beside(value, loc), str(written))
            return Mend(f'Rename to "{name}"', "set", path, name)
        case "duplicate":
            return Mend("Remove it", "remove", path)
        case "int_type" | "string_type" if written is None:
            return _default(loc)
        case "int_type" if isinstance(written, str) and loc[-1] in ("memoryMB", "shmMB"):
            size = _SIZE.fullmatch(written)
            return _set(loc, int(float(size[1]) * _MEGABYTES[size[2].lower()])) if size else None
        case "string_type" if isinstance(written, int | float) and not isinstance(written, bool):
            return Mend(f'Set to "{written}"', "set", path, str(written))
        case "bool_type":
            truth = _TRUTHS.get(str(written).lower())
            return None if truth is None else Mend(f"Set to {str(truth).lower()}", "set", path, truth)
        case "tuple_type" if isinstance(written, dict):
            return Mend("Put it into an array", "set", path, [written])
        case "dict_type" if written in (None, [], ""):
            return _default(loc)
        case "greater_than_equal":
            return _set(loc, ctx["ge"])
        case "less_than_equal" | "shm_over_memory":
            return _set(loc, ctx["le"])
        case "min_count":
            tasks = whole(str(around.get("taskNumber", 1)))
            return None if tasks is None else _set(loc, tasks)
        case "string_pattern_mismatch":
            return _fitting(path, written, ctx["pattern"], _names_beside(value, loc))
        case "literal_error":
            close = _closest(str(written).lower(), re.findall(r"'([^']*)'", ctx["expected"]))
            return Mend(f'Set to "{close}"', "set", path, close) if close else None
        case "fixed_port":
            return Mend("Use free ports", "set", path, 0)
    return None


def comma(text: str) -> Mend | None:
    """The mend of a text that cannot be read because a comma or the last brackets are missing. It is certain when the
    text can be read with it."""
    blanked = jsonc.blank(text.removeprefix("\ufeff"))
    try:
        jsonc.parse(text)
    except jsonc.NotJson as fault:
        at = len(blanked[: fault.at].rstrip())  # the end of the last token before it
        for what, says, place in ((",", "Add the comma", at), (_open(blanked), "Close it", len(blanked.rstrip()))):
            if what and _reads(blanked[:place] + what + blanked[place:]):
                line, column = jsonc.line_column(blanked, place)
                return Mend(says, "insert", value=what, line=line, column=column)
    return None


def _closest(name: str, names: Sequence[str]) -> str:
    """The one of the names that is meant, or nothing."""
    return next(iter(difflib.get_close_matches(name, names, n=1)), "")


def _default(loc: Loc) -> Mend | None:
    return None if loc[-1] in _REQUIRED else Mend("Remove it, for the default", "remove", jsonc.pointer(loc))


def _fitting(path: str, text: str, pattern: str, taken: set[str]) -> Mend | None:
    """The text without what its pattern does not allow."""
    if pattern in (r"^\S+$", r"^\S*$"):
        mended = text.strip()
        is_mended = mended and not re.search(r"\s", mended)
        return Mend("Remove the space", "set", path, mended) if is_mended else None
    if pattern not in _SAFE:
        return None
    bad, good = _SAFE[pattern]
    mended = re.sub(bad, good, text).strip(good)
    if not mended or mended in (".", "..", *taken):
        return None
    return Mend(f'Rename to "{jsonc.shown(mended)}"', "set", path, mended)


def _set(loc: Loc, value: int) -> Mend:
    return Mend(f"Set to {value}", "set", jsonc.pointer(loc), value)


def _at(value: Any, loc: Loc) -> Any:
    """What is at this place; an empty object where the config has it as a text or not at all."""
    for step in loc:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return value


def _names_beside(value: Any, loc: Loc) -> set[str]:
    """The names of the roles or ports of the list in which this one is."""
    if len(loc) < 3 or not isinstance(loc[-2], int):
        return set()
    beside = _at(value, loc[:-2])
    return {str(each.get(loc[-1])) for each in beside if isinstance(each, dict)} if isinstance(beside, list) else set()


def _free(names: Iterable[str], taken: set[str], stem: str = "") -> str:
    first = list(names)
    counted = (f"{stem or first[0]}{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (*first, *counted) if name not in taken)


def _open(blanked: str) -> str:
    """The brackets that close what is still open at the end of the text."""
    still: list[str] = []
    for token in re.finditer(r'"(?:[^"\\\n]|\\.)*"|[\[\]{}]', blanked):
        if token[0] in "{[":
            still.append("}" if token[0] == "{" else "]")
        elif token[0] in "}]" and still:
            still.pop()
    return "".join(reversed(still))


def _reads(text: str) -> bool:
    try:
        jsonc.parse(text)
    except jsonc.NotJson:
        return False
    return True
